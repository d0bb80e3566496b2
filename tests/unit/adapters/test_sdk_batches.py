"""Batches whose messages are encoded once are those that the SDK makes itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._pyamqp.message import BatchMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.aio._transport._pyamqp_transport_async import PyamqpTransportAsync
from azure.servicebus.amqp import AmqpAnnotatedMessage

from shared.adapters import servicebus
from shared.adapters.sdk_batches import Batch, measure, transfer
from shared.adapters.sdk_messages import outgoing_from
from shared.domain.pair import EntityPath

LATER = datetime(2026, 12, 1, tzinfo=UTC)
MESSAGES: dict[str, list[object]] = {
    "one": [ServiceBusMessage(b"x", message_id="m")],
    "small and large": [ServiceBusMessage(b"x" * size, message_id=str(size)) for size in (0, 100, 255, 256, 70_000)],
    "keys": [ServiceBusMessage("x", message_id=f"m{number}", session_id="s", partition_key="s") for number in range(3)],
    "properties": [
        ServiceBusMessage(
            "za\u017c\u00f3\u0142\u0107",
            message_id="m",
            application_properties={"text": "t", "number": 1, "flag": True, "float": 1.5},
            scheduled_enqueue_time_utc=LATER,
            subject="s",
            correlation_id="c",
        )
    ],
    "bodies": [
        AmqpAnnotatedMessage(value_body={"a": [1, 2]}, properties={"message_id": "a"}),
        AmqpAnnotatedMessage(sequence_body=[[1, "b"]], properties={"message_id": "b"}),
    ],
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_batch_has_the_bytes_and_the_size_that_the_sdk_gives_it(name: str) -> None:
    ours, theirs = Batch(ServiceBusMessageBatch(262_144)), ServiceBusMessageBatch(262_144)
    assert ours.add([outgoing_from(message) for message in MESSAGES[name]])
    for message in MESSAGES[name]:
        theirs.add_message(message)  # type: ignore[arg-type]
    assert theirs._message == ours.load._message
    assert (theirs.size_in_bytes, len(theirs)) == (ours.load.size_in_bytes, len(ours.load))
    assert theirs.size_in_bytes == measure(MESSAGES[name])


def test_the_sdk_could_build_the_batch_again_from_its_messages() -> None:
    """A sender does so with a batch that it takes for another transport's; nothing may be missing then."""
    batch = Batch(ServiceBusMessageBatch(262_144))
    batch.add([outgoing_from(message) for message in MESSAGES["keys"]])
    again = ServiceBusMessageBatch(262_144)
    again._from_list(batch.load._messages)
    assert batch.load._message == again._message


def test_a_parcel_goes_in_whole_or_not_at_all() -> None:
    batch = Batch(ServiceBusMessageBatch(1_000))
    parcel = [outgoing_from(ServiceBusMessage(b"x" * 400, message_id=f"m{number}")) for number in range(3)]
    assert not batch.add(parcel)
    assert 0 == len(batch.load)
    assert batch.add(parcel[:2])
    assert not batch.add(parcel[2:])
    assert 2 == len(batch.load)


def test_with_tracing_the_sdk_adds_the_messages_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[object] = []
    batch = Batch(ServiceBusMessageBatch(1_000))
    monkeypatch.setattr(batch, "_is_traced", True)
    monkeypatch.setattr(batch.load, "add_message", added.append)
    message = ServiceBusMessage(b"x", message_id="m", time_to_live=timedelta(seconds=9))
    assert batch.add([outgoing_from(message)])
    assert [message] == added


def test_a_partition_key_is_found_however_it_was_set() -> None:
    by_sdk = outgoing_from(ServiceBusMessage(b"x", message_id="m", partition_key="k"))
    properties, annotations = {"message_id": "m"}, {"x-opt-partition-key": "k"}
    by_hand = outgoing_from(AmqpAnnotatedMessage(data_body=b"x", properties=properties, annotations=annotations))
    assert ["k", "k"] == [by_sdk.partition_key, by_hand.partition_key]


class Wire:
    """Stands where the SDK hands a message to its transport, and keeps what it is given."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, dict[str, object]]] = []

    async def send(self, message: Any, **options: object) -> None:
        encoded = bytearray()
        parts = message._message
        encode_payload(encoded, BatchMessage(*parts) if isinstance(parts, list) else parts)
        self.calls.append((bytes(encoded), options))


@pytest.mark.parametrize("name", ["a message", "a message of the wire", "a batch"])
async def test_a_transfer_is_what_send_messages_hands_to_the_transport(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch(ServiceBusMessageBatch(262_144, amqp_transport=PyamqpTransportAsync))
    batch.add([outgoing_from(message) for message in MESSAGES["keys"]])
    load = {
        "a message": MESSAGES["properties"][0],
        "a message of the wire": MESSAGES["bodies"][0],
        "a batch": batch.load,
    }[name]
    wire = Wire()
    text = "Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=b"
    async with ServiceBusClient.from_connection_string(text) as client:
        sender = client.get_queue_sender("orders")
        monkeypatch.setattr(sender, "_send", wire.send)
        monkeypatch.setattr(sender._config, "try_timeout", 7.0)  # so that it shows whether it is passed on
        await sender.send_messages(load)  # type: ignore[arg-type]
        await transfer(sender, load)
        await sender.close()
        with pytest.raises(ValueError, match="shutdown"):
            await transfer(sender, load)
    by_the_sdk, by_us = wire.calls
    assert by_the_sdk == by_us


async def test_whoever_traces_gets_the_spans_of_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servicebus, "is_traced", lambda: True)
    text = "Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=b"
    async with ServiceBusClient.from_connection_string(text) as client:
        link = servicebus.SdkLink(client, EntityPath("orders"))
        assert link._transfer == link._sender.send_messages
