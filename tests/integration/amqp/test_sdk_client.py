"""The real Azure SDK, sync and async, talking to the engine over a socket."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from azure.servicebus import ServiceBusClient as SyncClient
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import MessageSizeExceededError, MessagingEntityNotFoundError

from local.broker.amqp import BATCH_MESSAGE_FORMAT
from local.broker.amqp.codec import encode
from local.broker.amqp.message import (
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
    encode_header,
    encode_properties,
    encode_section_map,
)
from local.broker.amqp.performatives import Accepted, Modified, Rejected
from local.broker.amqp.types import Symbol, Timestamp
from tests.integration.amqp.sink import Sink, running_sink

#: Far beyond the year in which a lock of these tests could run out.
_LOCKED_UNTIL = Timestamp(4_102_444_800_000)


def message_for_receiver(message_id: str, body: bytes) -> tuple[bytes, bytes]:
    """A delivery-tag (the lock token, as Service Bus writes it) and a message locked by it."""
    token = uuid.uuid5(uuid.NAMESPACE_URL, message_id)
    payload = (
        encode_header(Header(delivery_count=0))
        + encode_section_map(DELIVERY_ANNOTATIONS, {Symbol("x-opt-lock-token"): token})
        + encode_section_map(
            MESSAGE_ANNOTATIONS,
            {
                Symbol("x-opt-sequence-number"): 1,
                Symbol("x-opt-enqueued-time"): Timestamp(1_700_000_000_000),
                Symbol("x-opt-locked-until"): _LOCKED_UNTIL,
            },
        )
        + encode_properties(Properties(message_id=message_id))
        + b"\x00\x53\x75"
        + encode(body)
    )
    return token.bytes_le, payload


def bodies(sink: Sink) -> list[bytes]:
    """Content of the single data section of each message received."""
    return [message.body[5:] if message.body[3] == 0xA0 else message.body[8:] for message in sink.received]


async def test_the_async_client_sends_single_messages_batches_and_large_ones() -> None:
    large = b"x" * 900_000
    async with running_sink() as (sink, connection_string):
        client = ServiceBusClient.from_connection_string(connection_string)
        async with client, client.get_queue_sender("queue") as sender:
            for number in range(5):
                await sender.send_messages(ServiceBusMessage(b"single %d" % number))
            await sender.send_messages([ServiceBusMessage(b"batched %d" % number) for number in range(3)])
            await sender.send_messages(ServiceBusMessage(large))
        assert bodies(sink) == [
            *(b"single %d" % number for number in range(5)),
            *(b"batched %d" % number for number in range(3)),
            large,
        ]
        assert sink.formats == [0] * 5 + [BATCH_MESSAGE_FORMAT, 0]


async def test_the_sync_client_sends_single_messages_and_batches() -> None:
    async with running_sink() as (sink, connection_string):

        def send() -> None:
            client = SyncClient.from_connection_string(connection_string)
            with client, client.get_topic_sender("topic") as sender:
                sender.send_messages(ServiceBusMessage("one", subject="s", application_properties={"n": 1}))
                sender.send_messages([ServiceBusMessage("two"), ServiceBusMessage("three")])

        await asyncio.to_thread(send)
        assert bodies(sink) == [b"one", b"two", b"three"]
        assert sink.received[0].decode_properties().subject == "s"
        assert sink.received[0].decode_application_properties() == {"n": 1}


async def test_more_messages_than_one_grant_of_credit_go_through() -> None:
    async with running_sink() as (sink, connection_string):
        client = ServiceBusClient.from_connection_string(connection_string)
        async with client, client.get_queue_sender("queue") as sender:
            for number in range(1_200):
                await sender.send_messages(ServiceBusMessage(b"%d" % number))
        assert bodies(sink) == [b"%d" % number for number in range(1_200)]


async def test_the_client_receives_and_settles_with_every_outcome() -> None:
    async with running_sink() as (sink, connection_string):
        large = b"y" * 1_500_000
        sink.outgoing.extend(message_for_receiver(f"m{number}", b"body") for number in range(4))
        sink.outgoing.append(message_for_receiver("large", large))
        client = ServiceBusClient.from_connection_string(connection_string)
        async with client, client.get_queue_receiver("queue") as receiver:
            received = []
            for _ in range(5):
                received += await receiver.receive_messages(max_message_count=1, max_wait_time=10)
            assert [message.message_id for message in received] == ["m0", "m1", "m2", "m3", "large"]
            assert b"".join(received[4].body) == large
            assert received[0].lock_token == uuid.uuid5(uuid.NAMESPACE_URL, "m0")
            await receiver.complete_message(received[0])
            await receiver.abandon_message(received[1])
            await receiver.defer_message(received[2])
            await receiver.dead_letter_message(received[3], reason="why", error_description="because")
        accepted, abandoned, deferred, dead = sink.settled
        assert accepted == Accepted()
        assert abandoned == Modified(True, False)
        assert deferred == Modified(True, True)
        assert isinstance(dead, Rejected)
        assert dead.error is not None
        assert dead.error.condition == "com.microsoft:dead-letter"
        assert dead.error.info == {"DeadLetterReason": "why", "DeadLetterErrorDescription": "because"}


async def test_the_sync_client_receives_settled_messages() -> None:
    async with running_sink() as (sink, connection_string):
        sink.send_settled = True
        sink.outgoing.extend(message_for_receiver(f"m{number}", b"body") for number in range(20))

        def receive() -> list[str | None]:
            client = SyncClient.from_connection_string(connection_string)
            mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
            with client, client.get_queue_receiver("queue", receive_mode=mode) as receiver:
                messages = receiver.receive_messages(max_message_count=20, max_wait_time=10)
                return [message.message_id for message in messages]

        assert await asyncio.to_thread(receive) == [f"m{number}" for number in range(20)]
        assert sink.settled == []


async def test_a_refused_link_reaches_the_application_as_the_condition_says() -> None:
    async with running_sink() as (sink, connection_string):
        sink.refuse_with = "amqp:not-found"
        client = ServiceBusClient.from_connection_string(connection_string)
        async with client:
            with pytest.raises(MessagingEntityNotFoundError):
                async with client.get_queue_sender("queue"):
                    pass
        assert all(connection.closed for connection in sink.connections)


async def test_a_rejected_message_reaches_the_application_as_the_condition_says() -> None:
    async with running_sink() as (sink, connection_string):
        sink.reject_with = "amqp:link:message-size-exceeded"
        client = ServiceBusClient.from_connection_string(connection_string)
        async with client, client.get_queue_sender("queue") as sender:
            with pytest.raises(MessageSizeExceededError):
                await sender.send_messages(ServiceBusMessage(b"x"))
