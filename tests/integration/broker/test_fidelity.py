"""What a sender put in comes out bit for bit: bodies of every kind, typed properties, annotations."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType, AmqpMessageHeader, AmqpMessageProperties

from local.broker.entities import Queue
from tests.integration.broker.conftest import Connect, receive_until

MakeQueue = Callable[..., Queue]
LARGE = bytes(range(256)) * 900


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("data_body", b"", [b""]),
        ("data_body", [b"one", b"two", b""], [b"one", b"two", b""]),
        ("data_body", LARGE, [LARGE]),
        ("sequence_body", [[1, b"two", None], [3.5, True]], [[1, b"two", None], [3.5, True]]),
        ("value_body", {b"key": [1, 2], b"other": {b"x": None}}, {b"key": [1, 2], b"other": {b"x": None}}),
        ("value_body", "text", b"text"),
        ("value_body", None, None),
    ],
)
async def test_every_kind_of_body(
    connect: Connect, make_queue: MakeQueue, kind: str, given: Any, expected: Any
) -> None:
    queue = make_queue()
    message = AmqpAnnotatedMessage(**{kind: given})
    async with connect() as client:
        async with client.get_queue_sender("orders") as sender:
            await sender.send_messages(message)
        (stored,) = queue.main.messages()
        async with client.get_queue_receiver("orders") as receiver:
            (got,) = await receive_until(receiver, 1)
    body = got.body if kind == "value_body" else list(got.body)
    assert expected == body
    wanted = AmqpMessageBodyType.VALUE if given is None else AmqpMessageBodyType[kind.split("_")[0].upper()]
    assert wanted == got.body_type
    assert stored.content.bare.endswith(stored.content.sections().body)


async def test_typed_properties_annotations_and_header(connect: Connect, make_queue: MakeQueue) -> None:
    make_queue()
    application = {
        "text": "täglich",
        "int": 7,
        "negative": -5,
        "float": 1.5,
        "true": True,
        "uuid": uuid.UUID(int=7),
        "time": datetime(2024, 2, 29, 12, 30, 1, tzinfo=UTC),
        "none": None,
    }
    message = AmqpAnnotatedMessage(
        data_body=b"x",
        header=AmqpMessageHeader(durable=True, priority=7, time_to_live=60_000),
        properties=AmqpMessageProperties(
            message_id="id",
            user_id=b"me",
            to="to",
            subject="subject",
            reply_to="reply",
            correlation_id="cor",
            content_type="text/plain",
            content_encoding="utf-8",
            group_id="group",
            group_sequence=3,
            reply_to_group_id="reply group",
        ),
        application_properties=dict(application),
        annotations={"own": "annotation", "number": 5},
        delivery_annotations={"mine": 6},
        footer={"sum": 9},
    )
    async with connect() as client:
        async with client.get_queue_sender("orders") as sender:
            await sender.send_messages(message)
        async with client.get_queue_receiver("orders") as receiver:
            (got,) = await receive_until(receiver, 1)
    raw = got.raw_amqp_message
    expected = {name.encode(): value for name, value in application.items()}
    expected[b"text"] = "täglich".encode()  # type: ignore[assignment]
    expected[b"time"] = int(application["time"].timestamp() * 1000)  # type: ignore[union-attr, assignment]
    assert expected == raw.application_properties
    assert (True, 7, 60_000, 0) == (
        raw.header.durable,
        raw.header.priority,
        raw.header.time_to_live,
        raw.header.delivery_count,
    )
    properties = raw.properties
    assert (
        b"id",
        b"me",
        b"to",
        b"subject",
        b"reply",
        b"cor",
        b"text/plain",
        b"utf-8",
        b"group",
        3,
        b"reply group",
    ) == (
        properties.message_id,
        properties.user_id,
        properties.to,
        properties.subject,
        properties.reply_to,
        properties.correlation_id,
        properties.content_type,
        properties.content_encoding,
        properties.group_id,
        properties.group_sequence,
        properties.reply_to_group_id,
    )
    assert (b"annotation", 5) == (raw.annotations[b"own"], raw.annotations[b"number"])
    assert {b"mine", b"x-opt-lock-token"} == set(raw.delivery_annotations)
    assert {b"sum": 9} == raw.footer
    own = {b"own", b"number", b"x-opt-sequence-number", b"x-opt-enqueued-time", b"x-opt-locked-until"}
    assert own == set(raw.annotations)


async def test_system_properties_survive_forwarding_and_dead_lettering(connect: Connect, make_queue: MakeQueue) -> None:
    make_queue("orders")
    make_queue("source", forward_to="orders")
    message = ServiceBusMessage(
        b"x",
        message_id="id",
        session_id="s",
        partition_key="s",
        subject="sub",
        to="to",
        reply_to="r",
        reply_to_session_id="rs",
        correlation_id="c",
        content_type="t",
        time_to_live=timedelta(hours=1),
        application_properties={"n": 1},
    )
    names = ["message_id", "session_id", "partition_key", "subject", "to", "reply_to", "reply_to_session_id"]
    names += ["correlation_id", "content_type", "time_to_live"]
    async with connect() as client:
        async with client.get_queue_sender("source") as sender:
            await sender.send_messages(message)
        async with client.get_queue_receiver("orders") as receiver:
            (got,) = await receive_until(receiver, 1)
            assert [getattr(message, name) for name in names] == [getattr(got, name) for name in names]
            await receiver.dead_letter_message(got, reason="r")
        async with client.get_queue_receiver("orders", sub_queue="deadletter") as receiver:
            (dead,) = await receive_until(receiver, 1)
            assert [getattr(message, name) for name in names] == [getattr(dead, name) for name in names]
            assert 1 == dead.application_properties[b"n"]
