"""No receiver ever sees a ping, wherever it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from uuid import uuid4

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import OperationTimeoutError

from local.broker.descriptions import QueueDescription, RuleDescription, SubscriptionDescription, TopicDescription
from local.broker.namespace import Namespace
from local.broker.receivable import Receivable
from shared.domain.availability import Available
from shared.domain.pair import EntityPath
from shared.domain.ping import PING_TIME_TO_LIVE
from shared.telemetry_events import Pinged
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_services import instance

ENTITIES = ("plain", "sessions", "partitioned", "topic")
SUBSCRIPTIONS = {"topic/all": "all", "topic/sessions": "sessions"}
QUEUES = ("plain", "sessions", "partitioned")
WITH_SESSIONS = ("sessions", "topic/sessions")
ORDINARY = "application/an-ordinary-message"
#: Longer than pinging takes on a busy machine; nothing waits for its end, since every receiver gets a message.
RECEIVE_SECONDS = 20


def create_places(core: Namespace) -> dict[str, Receivable]:
    """What can be received from. Whatever expires stays to be seen, as a dead letter."""
    keeps = {"dead_lettering_on_message_expiration": True}
    core.create_queue("plain", QueueDescription(**keeps))
    core.create_queue("sessions", QueueDescription(requires_session=True, **keeps))
    core.create_queue("partitioned", QueueDescription(enable_partitioning=True, **keeps))
    core.create_topic("topic", TopicDescription())
    for place, name in SUBSCRIPTIONS.items():
        description = SubscriptionDescription(requires_session=place in WITH_SESSIONS, **keeps)
        core.create_subscription("topic", name, description, RuleDescription(name="$Default"))
    subscriptions = {place: core.subscription("topic", name) for place, name in SUBSCRIPTIONS.items()}
    return {**{name: core.queue(name) for name in QUEUES}, **subscriptions}


def receiver_at(client: ServiceBusClient, place: str, **options: object) -> ServiceBusReceiver:
    if place in SUBSCRIPTIONS:
        return client.get_subscription_receiver("topic", SUBSCRIPTIONS[place], **options)
    return client.get_queue_receiver(place, **options)


async def first_seen(client: ServiceBusClient, place: str) -> list[str | None]:
    """Content types of the first message that comes, and of what is left to be looked at after it."""
    options = {"session_id": NEXT_AVAILABLE_SESSION} if place in WITH_SESSIONS else {}
    try:
        async with receiver_at(client, place, max_wait_time=RECEIVE_SECONDS, **options) as receiver:
            received = await receiver.receive_messages(1)
            for message in received:
                await receiver.complete_message(message)
            return [message.content_type for message in [*received, *await receiver.peek_messages(10)]]
    except OperationTimeoutError:
        return []  # no session, so no message


async def dead_letters(client: ServiceBusClient, place: str) -> list[str | None]:
    async with receiver_at(client, place, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        return [message.content_type for message in await receiver.peek_messages(10)]


def is_waited_at(place: Receivable) -> bool:
    """A receiver has credit there, or waits for a session to be had."""
    return any(one.credit > 0 for one in place.main._consumers) or place.main.book.first_waiter() is not None


@asynccontextmanager
async def all_that_is_seen(pair: PairOnBroker, places: Mapping[str, Receivable]) -> AsyncIterator[dict[str, set[str]]]:
    """A receive is under way at every place meanwhile; what each saw, and its dead letters, once all life is over."""
    seen: dict[str, set[str]] = {}
    async with ServiceBusClient.from_connection_string(pair.primary.connection_string, retry_total=0) as client:
        async with asyncio.TaskGroup() as group:
            receiving = {place: group.create_task(first_seen(client, place)) for place in places}
            await until(lambda: all(is_waited_at(place) for place in places.values()), seconds=20, what="receives")
            yield seen
        await until(lambda: not any(place.main.message_count for place in places.values()), seconds=20, what="an end")
        dead = await asyncio.gather(*(dead_letters(client, place) for place in places))
        for place, expired in zip(places, dead, strict=True):
            seen[place] = {str(kind) for kind in [*receiving[place].result(), *expired]}


async def send_ordinary(pair: PairOnBroker) -> None:
    """Like a ping in everything but its content type."""
    async with ServiceBusClient.from_connection_string(pair.primary.connection_string) as client:
        for path in ENTITIES:
            async with client.get_queue_sender(path) as sender:
                session = str(uuid4())
                await sender.send_messages(
                    ServiceBusMessage(b"", content_type=ORDINARY, session_id=session, time_to_live=PING_TIME_TO_LIVE)
                )


async def test_receivers_that_wait_see_the_message_after_the_pings_and_no_ping(pair: PairOnBroker) -> None:
    """Receivers get messages in order, so a ping that was delivered would be what they see first."""
    places = create_places(pair.primary.core)
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, all_that_is_seen(pair, places) as seen:
        await app.unavailable(*ENTITIES)
        assert {EntityPath(path) for path in ENTITIES} == set(await app.runtime.pinger.ping_what_is_due())
        assert len(ENTITIES) == len(app.telemetry.of(Pinged))
        assert all(isinstance(app.runtime.state.availability(EntityPath(path)), Available) for path in ENTITIES)
        await send_ordinary(pair)
    assert {place: {ORDINARY} for place in places} == seen
