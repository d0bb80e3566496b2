"""Receivers at every place of the primary: ordinary SDK clients that complete what they get, and write receipts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import ServiceBusError

from local.demo.app_client import pause
from local.demo.ledger import Ledger
from local.demo.traffic import PLACES, SESSIONS, SHIPMENTS, Arrival, Place
from shared.adapters.receipts import Receipts
from shared.bounded import within

_LOGGER = logging.getLogger(__name__)

AT_ONCE = 50
WAIT_S = 1.0
#: One call into the SDK; a connection that fell silent would hold it for minutes.
CALL_S_MAX = 6.0
CLOSE_S_MAX = 3.0
RECONNECT_S = 1.0
#: What the SDK raises when a connection breaks under it.
BROKEN = (ServiceBusError, OSError, TimeoutError, ValueError, TypeError, AttributeError, KeyError)


@dataclass(frozen=True, kw_only=True)
class Post:
    """Where one receiver stands."""

    place: Place
    session: str | None = None

    def open(self, client: ServiceBusClient) -> ServiceBusReceiver:
        if self.place.subscription is not None:
            return client.get_subscription_receiver(self.place.path, self.place.subscription)
        if self.session is not None:
            return client.get_queue_receiver(self.place.path, session_id=self.session)
        return client.get_queue_receiver(self.place.path)


POSTS = (
    *(Post(place=place) for place in PLACES if place != SHIPMENTS),
    *(Post(place=SHIPMENTS, session=session) for session in SESSIONS),
)


class Receivers:
    def __init__(self, connection_string: str, ledger: Ledger, receipts: Receipts) -> None:
        self._connection_string = connection_string
        self._ledger = ledger
        self._receipts = receipts
        self._stop = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for post in POSTS:
                group.create_task(self._serve(post), name=f"receiver of {post.place}")

    def stop(self) -> None:
        self._stop.set()

    async def _serve(self, post: Post) -> None:
        """One connection after the other: an outage breaks receivers as well, and they come back."""
        while not self._stop.is_set():
            client = ServiceBusClient.from_connection_string(self._connection_string, retry_total=0)
            receiver = post.open(client)
            try:
                await within(CALL_S_MAX, receiver.__aenter__())
                await self._receive(receiver, post.place)
            except BROKEN as error:
                _LOGGER.info("the receiver of %s lost its connection: %r", post.place, error)
                await pause(RECONNECT_S, self._stop)
            finally:
                await quietly(receiver.close())
                await quietly(client.close())

    async def _receive(self, receiver: ServiceBusReceiver, place: Place) -> None:
        while not self._stop.is_set():
            for message in await within(CALL_S_MAX, receiver.receive_messages(AT_ONCE, WAIT_S)):
                record(self._ledger, self._receipts, place, message)
                await within(CALL_S_MAX, receiver.complete_message(message))


def record(ledger: Ledger, receipts: Receipts, place: Place, message: ServiceBusReceivedMessage) -> None:
    """In the demo's books, and as a receipt for the report."""
    receipts.received(place.path, message, subscription=place.subscription)
    ledger.arrived(place, arrival_of(message))


def arrival_of(message: ServiceBusReceivedMessage) -> Arrival:
    return Arrival(
        id=str(message.message_id),
        sequence_number=message.sequence_number or 0,
        body=str(message),
        label=message.subject,
        session=message.session_id,
        key=message.partition_key,
        properties={_text(name): _text(value) for name, value in (message.application_properties or {}).items()},
    )


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


async def quietly(closing: Awaitable[None]) -> None:
    """What cannot say good-bye is dropped with its connection."""
    try:
        await within(CLOSE_S_MAX, closing)
    except BROKEN as error:
        _LOGGER.debug("a client did not close: %r", error)
