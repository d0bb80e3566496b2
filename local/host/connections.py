"""Service Bus clients from connections by name."""

from __future__ import annotations

import os
from typing import Any

from azure.servicebus import TransportType
from azure.servicebus.aio import ServiceBusClient

from local.host.errors import ConfigurationError
from local.host.settings_files import Connection

RETRIES = 1
RETRY_BACKOFF_MAX_S = 5.0


class BusClient:
    """A client that gives up soon, since its users have back-off of their own; with its credential, if it has one."""

    def __init__(self, connection: Connection, *, retries: int = RETRIES) -> None:
        options: dict[str, Any] = {"retry_total": retries, "retry_backoff_max": RETRY_BACKOFF_MAX_S}
        self._credential: Any = None
        if connection.connection_string is not None:
            self.client = _from_string(connection, options)
            return
        from azure.identity.aio import DefaultAzureCredential

        self._credential = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
        host, colon, port = str(connection.fully_qualified_namespace).partition(":")
        if colon:
            options |= {"custom_endpoint_address": f"sb://{host}:{port}", "transport_type": TransportType.Amqp}
        # The SDK trusts the certificates that it brings along, and those of the machine only when told so.
        options["connection_verify"] = os.environ.get("SSL_CERT_FILE") or None
        self.client = ServiceBusClient(host, self._credential, **options)

    async def close(self) -> None:
        try:
            await self.client.close()
        finally:
            if self._credential is not None:
                await self._credential.close()


def check(connection: Connection) -> None:
    """Refuse a connection string that the SDK cannot read."""
    if connection.connection_string is not None:
        _from_string(connection, {})


def _from_string(connection: Connection, options: dict[str, Any]) -> ServiceBusClient:
    try:
        return ServiceBusClient.from_connection_string(str(connection.connection_string), **options)
    except ValueError as error:
        raise ConfigurationError(f"connection '{connection.name}' is not a usable string: {error}") from None
