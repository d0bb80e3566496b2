"""The audit: a look at everything that is left in every queue of both namespaces, taking nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import ServiceBusError

from local.demo.ledger import Ledger
from local.demo.receivers import POSTS, Post, record
from local.demo.traffic import PLACES, Place
from shared.adapters.receipts import Receipts
from shared.bounded import within

PEEK_AT_ONCE = 250
PEEK_S_MAX = 30.0
#: Messages looked at in one queue; a demo never holds that many.
MESSAGES_MAX = 1_000_000

Seen = list[ServiceBusReceivedMessage]


class AuditFailed(Exception):
    """A queue could not be looked through, so nothing is proved."""


async def audit_primary(connection_string: str, ledger: Ledger, receipts: Receipts) -> None:
    """What lies in its entity has arrived, received or not; what lies in a dead-letter queue has not."""
    began = datetime.now(UTC)
    arrived, dead = await asyncio.gather(
        _look_at(connection_string, *POSTS), _dead_letters(connection_string, *PLACES)
    )
    for post, messages in zip(POSTS, arrived, strict=True):
        for message in messages:
            record(ledger, receipts, post.place, message)
    for message in dead:
        ledger.is_dead_lettered(str(message.message_id))
    for path in sorted({place.path for place in PLACES}):
        receipts.audited(path, since=began)


async def audit_backlog(connection_string: str, queues: list[str], ledger: Ledger, receipts: Receipts) -> None:
    began = datetime.now(UTC)
    places = [Place(queue) for queue in queues]
    waiting, dead = await asyncio.gather(
        _look_at(connection_string, *(Post(place=place) for place in places)),
        _dead_letters(connection_string, *places),
    )
    for queue, messages in zip(queues, waiting, strict=True):
        for message in messages:
            receipts.received(queue, message)
            ledger.waits(str(message.message_id))
        receipts.audited(queue, since=began)
    for message in dead:
        ledger.is_dead_lettered(str(message.message_id))


async def _look_at(connection_string: str, *posts: Post) -> list[Seen]:
    return await asyncio.gather(*(_look(connection_string, post.open, str(post.place)) for post in posts))


async def _dead_letters(connection_string: str, *places: Place) -> Seen:
    def opener(place: Place) -> Callable[[ServiceBusClient], ServiceBusReceiver]:
        return lambda client: _open_dead_letters(client, place)

    found = await asyncio.gather(
        *(_look(connection_string, opener(place), f"the dead-letter queue of {place}") for place in places)
    )
    return [message for messages in found for message in messages]


def _open_dead_letters(client: ServiceBusClient, place: Place) -> ServiceBusReceiver:
    dead_letters = ServiceBusSubQueue.DEAD_LETTER
    if place.subscription is not None:
        return client.get_subscription_receiver(place.path, place.subscription, sub_queue=dead_letters)
    return client.get_queue_receiver(place.path, sub_queue=dead_letters)


async def _look(
    connection_string: str, open_: Callable[[ServiceBusClient], ServiceBusReceiver], name: str
) -> Seen:
    found: Seen = []
    try:
        async with ServiceBusClient.from_connection_string(connection_string) as client, open_(client) as receiver:
            while len(found) < MESSAGES_MAX:
                after = 1 + (found[-1].sequence_number or 0) if found else 0
                batch = await within(PEEK_S_MAX, receiver.peek_messages(PEEK_AT_ONCE, sequence_number=after))
                if not batch:
                    return found
                found += batch
    except (ServiceBusError, TimeoutError) as error:
        raise AuditFailed(f"{name} could not be looked through: {str(error) or type(error).__name__}") from error
    raise AuditFailed(f"{name} holds more than {MESSAGES_MAX} messages, the most that an audit looks at")
