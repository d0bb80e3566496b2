"""A message that took the detour is, byte for byte, the message that went straight to the primary."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.amqp import AmqpAnnotatedMessage

from local.broker.amqp.types import Symbol, Timestamp
from local.broker.descriptions import QueueDescription
from shared.adapters.sdk_messages import outgoing_from, received_message, sdk_message
from shared.domain.availability import Event
from shared.domain.envelope import unwrap
from shared.domain.pair import EntityPath
from shared.paired_sender import PairedSender
from tests.support.send_services import PairOnBroker

ORDERS = EntityPath("orders")
SCHEDULED = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def long(value: int) -> dict[str, object]:
    """How the SDK is told an AMQP type that Python does not have."""
    return {"TYPE": "LONG", "VALUE": value}


PROPERTIES = {
    "int": 7,
    "negative": -2_000_000_000,
    "big": 2**40,
    "small long": long(5),
    "float": 2.5,
    "true": True,
    "false": False,
    "bytes": b"\xff\x00\xfe",
    "textual bytes": b"text",
    "when": datetime(2026, 11, 18, 12, 0, 0, 123_000, tzinfo=UTC),
    "uuid": uuid.UUID("0683ec86-1b0a-40b0-aa12-6ce5bbed3f1d"),
    "span": timedelta(hours=1, microseconds=3),
    "text": "żółć 漢字 🚀",
    "żółć": "a name beyond ASCII",
    "empty": "",
    "null": None,
}


def annotated(**body: Any) -> AmqpAnnotatedMessage:
    return AmqpAnnotatedMessage(
        **body,
        header={"time_to_live": 3_600_000, "durable": True, "priority": 7},
        properties={
            "message_id": "m-1",
            "user_id": b"me",
            "to": "to",
            "subject": "subject",
            "reply_to": "reply",
            "correlation_id": uuid.UUID("30e419d9-db58-472a-9565-4ccf02288fe2"),
            "content_type": "text/plain",
            "content_encoding": "utf-8",
            "group_id": "session",
            "group_sequence": 3,
            "reply_to_group_id": "reply-session",
        },
        application_properties=dict(PROPERTIES),
        annotations={
            "x-opt-partition-key": "session",
            "x-opt-scheduled-enqueue-time": SCHEDULED,
            "x-opt-mine": {"TYPE": "SYMBOL", "VALUE": b"kept"},
        },
        delivery_annotations={"x-opt-delivery": 12},
        footer={"x-opt-footer": "foot"},
    )


MESSAGES = {
    "data": lambda: annotated(data_body=[b"one", b"", b"three"]),
    "sequence": lambda: annotated(sequence_body=[[1, "a", long(3)], [b"b", None], []]),
    "map": lambda: annotated(value_body={"text": "a", "bytes": b"b", "list": [1, long(2), "c", {"d": True}]}),
    "text": lambda: annotated(value_body="żółć"),
    "bytes": lambda: annotated(value_body=b"\xff"),
    "number": lambda: annotated(value_body=42),
    "time": lambda: annotated(value_body=SCHEDULED),
    "nothing": lambda: annotated(value_body=None),
    "plain": lambda: ServiceBusMessage("plain", message_id="m-1", time_to_live=timedelta(hours=1), subject="s"),
    "bare": lambda: ServiceBusMessage(b"bare", message_id="m-1"),
}


async def test_straight_and_by_detour_are_the_same_bytes(pair: PairOnBroker) -> None:
    pair.create_entities(*MESSAGES, backlog=1)
    async with PairedSender(pair.settings(BACKLOG_QUEUE_COUNT="1"), create_queues=False) as bus:
        for kind, message in MESSAGES.items():
            await bus.send(kind, message())
        for kind, message in MESSAGES.items():
            await bus.runtime.state.mark(EntityPath(kind), Event.MARKED_UNAVAILABLE, "rehearsal")
            await bus.send(kind, message())
    await forward_all(pair)
    for kind in MESSAGES:
        straight, detoured = (sections(message) for message in pair.in_primary(kind))
        assert straight == detoured, kind


async def forward_all(pair: PairOnBroker) -> None:
    """What the syphon does with each message: receive, unwrap, send on."""
    (queue,) = pair.backlog_paths(1)
    source = ServiceBusClient.from_connection_string(pair.secondary.connection_string)
    target = ServiceBusClient.from_connection_string(pair.primary.connection_string)
    async with source, target, source.get_queue_receiver(queue) as receiver:
        for _ in range(len(pair.in_backlog())):
            (received,) = await receiver.receive_messages(1, max_wait_time=5)
            unwrapped = unwrap(received_message(received.raw_amqp_message))
            async with target.get_queue_sender(unwrapped.destination) as sender:
                await sender.send_messages(sdk_message(unwrapped.message))
            await receiver.complete_message(received)


def sections(message: Any) -> dict[str, Any]:
    """Every section as its bytes, but for times that the SDK takes from the clock at each send."""
    raw = message.content.sections()
    properties = raw.decode_properties()
    return {
        "properties": properties._replace(creation_time=None, absolute_expiry_time=None),
        "application": raw.application_properties,
        "body": raw.body,
        "footer": raw.footer,
        # A map has no order, and the scheduled time returns at its end.
        "annotations": {name: (type(value), value) for name, value in raw.decode_message_annotations().items()},
        "delivery annotations": message.content.delivery_annotations,
        "ttl": message.content.time_to_live,
        "scheduled": message.content.scheduled_at,
        "header": message.content.header_fields,
    }


async def test_while_it_waits_the_envelope_is_what_the_original_client_wrote(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    async with PairedSender(pair.settings(), create_queues=False) as bus:
        await bus.runtime.state.mark(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
        await bus.send("orders", MESSAGES["data"]())
    (waiting,) = pair.in_backlog()
    properties = waiting.content.sections().decode_application_properties()
    transfer = {name: value for name, value in properties.items() if name.startswith("x-ms-")}
    ttl = transfer.pop("x-ms-timetolive")
    assert transfer == {
        "x-ms-path": "orders",
        "x-ms-sessionid": "session",
        "x-ms-scheduledenqueuetimeutc": Timestamp(int(SCHEDULED.timestamp() * 1000)),
    }
    assert Symbol("com.microsoft:timespan") == ttl.descriptor
    assert 35_990_000_000 < ttl.value <= 36_000_000_000
    assert (None, None, None) == (
        waiting.content.session_id,
        waiting.content.time_to_live,
        waiting.content.scheduled_at,
    )
    assert "session" == waiting.content.partition_key


async def test_a_received_message_can_be_sent_on_unharmed(pair: PairOnBroker) -> None:
    pair.create_entities("orders", "copies")
    client = ServiceBusClient.from_connection_string(pair.primary.connection_string)
    message = ServiceBusMessage("text", message_id="m", application_properties={"a": "b"}, partition_key="k")
    async with PairedSender(pair.settings(), create_queues=False) as bus, client:
        await bus.send("orders", message)
        async with client.get_queue_receiver("orders") as receiver:
            (received,) = await receiver.receive_messages(1, max_wait_time=5)
            assert "m" == outgoing_from(received).message_id
            await bus.send("copies", received)
    (original,), (copy,) = pair.in_primary("orders"), pair.in_primary("copies")
    assert sections(original) == sections(copy)


async def test_a_session_queue_takes_diverted_sessions(pair: PairOnBroker) -> None:
    pair.create_entities(backlog=1)
    pair.primary.core.create_queue("orders", QueueDescription(requires_session=True))
    async with PairedSender(pair.settings(BACKLOG_QUEUE_COUNT="1"), create_queues=False) as bus:
        await bus.runtime.state.mark(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
        await bus.send("orders", ServiceBusMessage("x", session_id="s"))
    await forward_all(pair)
    (message,) = pair.in_primary("orders")
    assert "s" == message.content.session_id
