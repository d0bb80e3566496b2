"""Journeys through the running app: what was sent and accepted, and what real receivers on the primary got."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusReceivedMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import OperationTimeoutError

from local.broker.descriptions import QueueDescription
from tests.support.send_hosts import SendHost
from tests.support.send_services import PairOnBroker

QUEUES = ("orders", "bills")
SESSION_QUEUE = "carts"
TOPICS = ("news", "alerts")
ENTITIES = (*QUEUES, SESSION_QUEUE, *TOPICS)
SUBSCRIPTION = "all"
SESSIONS = 7
AT_ONCE = 40
IDLE_S = 1.5


def create_entities(pair: PairOnBroker, **description: object) -> None:
    for path in QUEUES:
        pair.primary.core.create_queue(path, QueueDescription(**description))  # type: ignore[arg-type]
    pair.primary.core.create_queue(SESSION_QUEUE, QueueDescription(requires_session=True))
    for path in TOPICS:
        pair.create_topic(path, SUBSCRIPTION)


@dataclass
class Ledger:
    """Every message by its id: accepted by the app, which way, and received on the primary, how often."""

    accepted: dict[str, str] = field(default_factory=dict)
    routes: Counter[str] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)
    received: dict[str, list[tuple[str, ServiceBusReceivedMessage]]] = field(default_factory=dict)
    longest_send_s: float = 0.0

    @property
    def lost(self) -> set[str]:
        return set(self.accepted) - set(self.received)

    @property
    def duplicates(self) -> set[str]:
        return {name for name, copies in self.received.items() if len(copies) > 1}

    @property
    def astray(self) -> set[str]:
        """Received anywhere but at the entity they were sent to."""
        arrived = {(name, path) for name, copies in self.received.items() for path, _ in copies}
        return {name for name, path in arrived if path != self.accepted.get(name, path)}


def headers_of(entity: str, name: str) -> dict[str, str]:
    number = int(name.rpartition("-")[2])
    broker = {
        "MessageId": name,
        "Label": f"label {number}",
        "CorrelationId": f"correlation {number}",
        "TimeToLive": 86_400,
        "To": "somebody",
        "ReplyTo": "replies",
    }
    if entity == SESSION_QUEUE:
        broker["SessionId"] = f"session-{number % SESSIONS}"
    return {
        "BrokerProperties": json.dumps(broker),
        "Content-Type": "application/x-journey",
        "Number": str(number),
        "Colour": '"blue"',
    }


async def send_all(host: SendHost, ledger: Ledger, names: Sequence[str]) -> None:
    """Each to an entity in turn; a refusal is tried again, as a sender would, until the message is accepted."""
    at_once = asyncio.Semaphore(AT_ONCE)

    async def one(index: int, name: str) -> None:
        entity = ENTITIES[index % len(ENTITIES)]
        async with at_once:
            for _ in range(60):
                started = asyncio.get_running_loop().time()
                answer = await host.send(entity, f"body of {name}".encode(), **headers_of(entity, name))
                ledger.longest_send_s = max(ledger.longest_send_s, asyncio.get_running_loop().time() - started)
                if answer.status_code == 201:
                    ledger.accepted[name] = entity
                    ledger.routes[answer.headers["x-pair-route"]] += 1
                    return
                ledger.refused[answer.status_code] += 1
                assert answer.status_code == 503, answer.text
                await asyncio.sleep(0.2)
            raise AssertionError(f"{name} was never accepted")

    await asyncio.gather(*(one(index, name) for index, name in enumerate(names)))


async def receive_all(primary: str, ledger: Ledger) -> None:
    """With the SDK's receivers, from every entity of the primary until nothing more comes."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    async with ServiceBusClient.from_connection_string(primary) as client:
        for path in QUEUES:
            await _take(client.get_queue_receiver(path, receive_mode=mode), path, ledger)
        for path in TOPICS:
            await _take(client.get_subscription_receiver(path, SUBSCRIPTION, receive_mode=mode), path, ledger)
    async with ServiceBusClient.from_connection_string(primary, retry_total=0) as client:
        while True:
            receiver = client.get_queue_receiver(
                SESSION_QUEUE, session_id=NEXT_AVAILABLE_SESSION, receive_mode=mode, max_wait_time=2
            )
            try:
                await _take(receiver, SESSION_QUEUE, ledger)
            except OperationTimeoutError:
                return


async def _take(receiver: ServiceBusReceiver, path: str, ledger: Ledger) -> None:
    async with receiver:
        while messages := await receiver.receive_messages(500, max_wait_time=IDLE_S):
            for message in messages:
                ledger.received.setdefault(str(message.message_id), []).append((path, message))


def as_sent(name: str, path: str, message: ServiceBusReceivedMessage) -> list[str]:
    """What differs from what was sent."""
    number = int(name.rpartition("-")[2])
    properties: Any = message.application_properties or {}
    own = {key.decode(): value for key, value in properties.items()}
    differences = {
        "body": (f"body of {name}", str(message)),
        "subject": (f"label {number}", message.subject),
        "correlation": (f"correlation {number}", message.correlation_id),
        "content type": ("application/x-journey", message.content_type),
        "to": ("somebody", message.to),
        "reply to": ("replies", message.reply_to),
        "session": (f"session-{number % SESSIONS}" if path == SESSION_QUEUE else None, message.session_id),
        "number": (number, own.get("Number", own.get("number"))),
        "colour": (b"blue", own.get("Colour", own.get("colour"))),
    }
    problems = [f"{name}: {what} is {is_!r}, not {was!r}" for what, (was, is_) in differences.items() if was != is_]
    problems += [f"{name}: {key} is left over" for key in own if key.startswith(("x-ms-", "x-pair"))]
    ttl = message.time_to_live
    if ttl is None or not timedelta(hours=23) < ttl <= timedelta(days=1):
        problems.append(f"{name}: its time to live is {ttl}")
    return problems
