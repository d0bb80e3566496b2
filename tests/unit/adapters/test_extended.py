"""The quick way of wrapping a message gives, byte for byte, what the long one gives, or leaves it to that."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.sdk_batches import encode, native
from shared.adapters.sdk_messages import extended, outgoing_from
from shared.domain.envelope import transfer_properties, wrap
from shared.domain.message import Outgoing, outgoing
from shared.domain.pair import EntityPath

ORDERS = EntityPath("sales/orders")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

short = st.text(max_size=20)
values = st.one_of(
    short,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=20),
    st.uuids(),
    st.just(NOON),
    st.just(timedelta(minutes=5)),
)
# Names of transfer properties are refused before anything is wrapped.
properties = st.dictionaries(st.text(min_size=1, max_size=20).filter(lambda name: not name.startswith("x-")), values)
messages = st.builds(
    ServiceBusMessage,
    st.one_of(short, st.binary(max_size=50)),
    application_properties=st.one_of(st.none(), properties),
    session_id=st.one_of(st.none(), short),
    message_id=st.one_of(st.none(), st.text(min_size=1, max_size=20)),
    time_to_live=st.one_of(st.none(), st.just(timedelta(minutes=1))),
    subject=st.one_of(st.none(), short),
    correlation_id=st.one_of(st.none(), short),
    content_type=st.one_of(st.none(), short),
    to=st.one_of(st.none(), short),
    reply_to=st.one_of(st.none(), short),
)


def the_long_way(message: Outgoing, trace: str | None = None) -> bytes:
    return bytes(encode(native(outgoing(wrap(message.read(), ORDERS, trace=trace)))))


def the_quick_way(message: Outgoing, trace: str | None = None) -> bytes | None:
    quick = extended(message, transfer_properties(ORDERS, trace))
    return None if quick is None else bytes(encode(native(quick)))


@given(messages, st.sampled_from([None, TRACE]))
def test_both_ways_give_the_same_bytes(message: ServiceBusMessage, trace: str | None) -> None:
    quick = the_quick_way(outgoing_from(message), trace)
    assert quick is None or quick == the_long_way(outgoing_from(message), trace)


@pytest.mark.parametrize(
    "message",
    [
        ServiceBusMessage(b"four apples"),
        ServiceBusMessage("apples", message_id="m", application_properties={"count": 4, "ripe": True}, subject="s"),
        AmqpAnnotatedMessage(data_body=[b"four", b"apples"], properties={"message_id": "m"}),
    ],
    ids=["plain", "with properties", "annotated"],
)
def test_what_most_messages_are_goes_the_quick_way(message: object) -> None:
    before = bytes(encode(message))
    parcel = outgoing_from(message)
    assert the_quick_way(parcel) == the_long_way(parcel)
    assert before == bytes(encode(message)), "the sender's own message is left as it was"


def test_reading_it_again_gives_what_is_sent() -> None:
    quick = extended(outgoing_from(ServiceBusMessage(b"x", application_properties={"a": 1})), {"x-ms-path": "orders"})
    assert quick is not None
    assert {"a": 1, "x-ms-path": "orders"} == quick.read().application_properties == quick.property_names


@pytest.mark.parametrize(
    "changes",
    [
        {"session_id": "s"},
        {"partition_key": "k"},
        {"time_to_live": timedelta(minutes=1)},
        {"scheduled_enqueue_time_utc": NOON},
        {"application_properties": {"id": uuid.UUID(int=1)}},
        {"application_properties": {b"name": "in bytes"}},
        {"application_properties": {"at": NOON}},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_what_has_to_be_noted_or_moved_goes_the_long_way(changes: dict[str, Any]) -> None:
    assert extended(outgoing_from(ServiceBusMessage(b"x", **changes)), {"x-ms-path": "orders"}) is None


@pytest.mark.parametrize(
    "sections",
    [
        {"value_body": "a value"},
        {"sequence_body": [[1, 2]]},
        {"data_body": b"x", "footer": {"sum": 1}},
        {"data_body": b"x", "delivery_annotations": {"via": "b"}},
        {"data_body": b"x", "header": {"priority": 4}},
    ],
    ids=lambda sections: "-".join(sections),
)
def test_sections_that_the_long_way_treats_go_the_long_way(sections: dict[str, Any]) -> None:
    message = AmqpAnnotatedMessage(properties={"message_id": "m"}, **sections)
    assert extended(outgoing_from(message), {"x-ms-path": "orders"}) is None
