"""No receiver ever sees a ping, wherever it is sent."""

from __future__ import annotations

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import OperationTimeoutError

from local.broker.descriptions import QueueDescription
from shared.domain.availability import Available
from shared.domain.pair import EntityPath
from shared.telemetry_events import Pinged
from tests.support.send_services import PairOnBroker
from tests.support.syphon_services import instance

ENTITIES = ("plain", "sessions", "topic")


async def received(receiver: ServiceBusReceiver) -> list[str]:
    try:
        async with receiver:
            peeked = await receiver.peek_messages(10)
            return [str(one) for one in [*peeked, *await receiver.receive_messages(10, max_wait_time=1)]]
    except OperationTimeoutError:
        return []  # no session, so no message


async def test_queue_session_queue_topic_and_dead_letter_queues(pair: PairOnBroker) -> None:
    pair.create_entities("plain", backlog=1)
    pair.primary.core.create_queue(
        "sessions", QueueDescription(requires_session=True, dead_lettering_on_message_expiration=True)
    )
    pair.create_topic("topic", "all")
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app:
        await app.unavailable(*ENTITIES)
        assert {EntityPath(path) for path in ENTITIES} == set(await app.runtime.pinger.ping_what_is_due())
        assert 3 == len(app.telemetry.of(Pinged))
        assert all(isinstance(app.runtime.state.availability(EntityPath(path)), Available) for path in ENTITIES)
    dead = ServiceBusSubQueue.DEAD_LETTER
    async with ServiceBusClient.from_connection_string(pair.primary.connection_string, retry_total=0) as client:
        receivers = [
            client.get_queue_receiver("plain"),
            client.get_queue_receiver("plain", sub_queue=dead),
            client.get_queue_receiver("sessions", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1),
            client.get_queue_receiver("sessions", sub_queue=dead),
            client.get_subscription_receiver("topic", "all"),
            client.get_subscription_receiver("topic", "all", sub_queue=dead),
        ]
        assert [[]] * 6 == [await received(receiver) for receiver in receivers]
