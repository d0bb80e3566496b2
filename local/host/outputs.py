"""Service Bus output bindings: what a function set or returned is sent before its trigger is settled."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusSender

from local.host.connections import BusClient
from local.host.converters import Datum
from local.host.invoke import Invocation
from local.host.model import HTTP_OUTPUT, SERVICE_BUS_OUTPUT, FunctionSpec
from local.host.settings_files import find_connection

SEND_TIMEOUT_S = 60.0


class Outputs:
    """Senders for all output bindings of the app, made when first used."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._clients: dict[str, BusClient] = {}
        self._senders: dict[tuple[str, str], ServiceBusSender] = {}
        # The SDK's async sender is not safe for concurrent sends.
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def send(self, spec: FunctionSpec, invocation: Invocation) -> None:
        """Send every Service Bus output of one invocation; an unknown kind of output is an error."""
        values = dict(invocation.outputs)
        if spec.returns is not None and invocation.returned is not None:
            values["$return"] = invocation.returned
        for binding in spec.bindings:
            value = values.get(binding["name"])
            if value is None or binding["type"] == HTTP_OUTPUT or binding.get("direction") != "OUT":
                continue
            if binding["type"] != SERVICE_BUS_OUTPUT:
                raise RuntimeError(f"output binding '{binding['type']}' is not supported by the local host")
            await self._send(binding, value)

    async def _send(self, binding: Mapping[str, Any], value: Datum) -> None:
        if value.value is None:
            return
        entity = str(binding.get("queueName") or binding.get("topicName"))
        key = (str(binding.get("connection")), entity)
        async with self._locks.setdefault(key, asyncio.Lock()):
            sender = self._senders.get(key)
            if sender is None:
                sender = self._senders[key] = self._client(key[0]).client.get_queue_sender(entity)
            message = ServiceBusMessage(value.value)
            if value.type in ("string", "json"):
                message.content_type = "text/plain" if value.type == "string" else "application/json"
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await sender.send_messages(message)

    def _client(self, name: str) -> BusClient:
        if name not in self._clients:
            self._clients[name] = BusClient(find_connection(name, self._settings))
        return self._clients[name]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
        self._clients.clear()
        self._senders.clear()
