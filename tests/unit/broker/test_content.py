"""Messages are read once, kept as they came, and refused when they break a limit."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from local.broker.amqp.encoding import encode
from local.broker.amqp.message import (
    DELIVERY_ANNOTATIONS,
    Header,
    RawMessage,
    encode_header,
    encode_section_map,
)
from local.broker.amqp.types import Symbol, Timestamp, ULong
from local.broker.content import KEY_LENGTH_MAX, ONE_PROPERTY_BYTES_MAX, PROPERTY_BYTES_MAX, Content
from local.broker.delivery import encode_delivery, encode_peek
from local.broker.errors import ARGUMENT_ERROR, ARGUMENT_OUT_OF_RANGE, DECODE_ERROR, BrokerError
from local.broker.store import MessageState, StoredMessage
from tests.support.broker import message, payload

BODIES = {
    "one data section": b"\x00\x53\x75\xa0\x02hi",
    "several data sections": b"\x00\x53\x75\xa0\x01a" + b"\x00\x53\x75\xa0\x01b",
    "a sequence": b"\x00\x53\x76" + encode([1, "two", None]),
    "several sequences": (b"\x00\x53\x76" + encode([1])) * 3,
    "a value": b"\x00\x53\x77" + encode({"a": [1.5, True], "b": uuid.UUID(int=7)}),
    "a null value": b"\x00\x53\x77\x40",
    "no body": b"",
}
FOOTER = encode_section_map(0x78, {Symbol("x-sum"): 7})


def stored(content: Content, *, locked: bool = False) -> StoredMessage:
    held = StoredMessage(5, content, enqueued_at=1_700_000_000.5)
    if locked:
        held.lock_token, held.locked_until = bytes(range(16)), 1_700_000_060.25
    return held


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_every_kind_of_body_is_passed_on_bit_for_bit(body: bytes) -> None:
    head = payload(b"", message_id="7", application={"n": 1})[: -len(b"\x00\x53\x75\xb0\x00\x00\x00\x00")]
    content = Content.parse(head + body + FOOTER)
    assert head + body + FOOTER == content.bare
    assert encode_delivery(stored(content)).endswith(head + body + FOOTER)


def test_a_delivery_carries_the_brokers_own_annotations_and_no_more() -> None:
    content = message(annotations={"x-opt-partition-key": "p", "own": 7})
    raw = RawMessage.parse(encode_delivery(stored(content, locked=True)))
    assert {
        "x-opt-sequence-number": 5,
        "x-opt-enqueued-time": Timestamp(1_700_000_000_500),
        "x-opt-partition-key": "p",
        "own": 7,
        "x-opt-locked-until": Timestamp(1_700_000_060_250),
    } == raw.decode_message_annotations()
    assert {"x-opt-lock-token": uuid.UUID(bytes_le=bytes(range(16)))} == raw.decode_delivery_annotations()
    assert 0 == raw.decode_header().delivery_count


def test_a_deleting_delivery_has_no_lock() -> None:
    raw = RawMessage.parse(encode_delivery(stored(message())))
    assert {"x-opt-sequence-number", "x-opt-enqueued-time"} == set(raw.decode_message_annotations())
    assert ({}, True) == (raw.decode_delivery_annotations(), raw.delivery_annotations != b"")


@pytest.mark.parametrize("state", [MessageState.DEFERRED, MessageState.SCHEDULED])
def test_a_peek_tells_the_state_of_what_waits_elsewhere(state: MessageState) -> None:
    held = stored(message())
    held.state = state
    raw = RawMessage.parse(encode_peek(held))
    assert int(state) == raw.decode_message_annotations()["x-opt-message-state"]
    assert b"" == raw.delivery_annotations


def test_forwarded_messages_tell_where_they_come_from() -> None:
    held = stored(message())
    held.enqueue_sequence_number, held.dead_letter_source, held.delivery_count = 3, "täglich", 300
    raw = RawMessage.parse(encode_delivery(held))
    annotations = raw.decode_message_annotations()
    assert (3, "täglich") == (annotations["x-opt-enqueue-sequence-number"], annotations["x-opt-deadletter-source"])
    assert 300 == raw.decode_header().delivery_count


def test_many_annotations_survive() -> None:
    own = {f"key-{index:03}": "v" * 20 for index in range(200)}
    raw = RawMessage.parse(encode_delivery(stored(message(annotations=dict(own)), locked=True)))
    assert own.items() <= raw.decode_message_annotations().items()


def test_stale_annotations_of_a_message_that_is_sent_again_are_dropped() -> None:
    received = encode_delivery(stored(message(annotations={"own": 1}), locked=True))
    again = Content.parse(received)
    assert (1, 0) == (again.annotation_count, again.delivery_annotation_count)


def test_delivery_annotations_of_the_sender_are_passed_on_even_when_they_come_last() -> None:
    content = Content.parse(payload() + encode_section_map(DELIVERY_ANNOTATIONS, {Symbol("own"): 1}))
    raw = RawMessage.parse(encode_delivery(stored(content, locked=True)))
    assert {"own", "x-opt-lock-token"} == set(raw.decode_delivery_annotations())


@pytest.mark.parametrize(
    "header",
    [
        Header(durable=True, priority=9, ttl=12_500, first_acquirer=True, delivery_count=3),
        Header(ttl=12_500),
        Header(priority=0),
        Header(durable=False, first_acquirer=False),
        Header(),
    ],
)
@pytest.mark.parametrize("is_wide", [False, True])
def test_header_fields_of_the_sender_are_passed_on_but_for_the_count(header: Header, is_wide: bool) -> None:
    section = encode_header(header)
    if is_wide and section[3] == 0xC0:
        section = (
            section[:3] + b"\xd0" + (section[4] + 3).to_bytes(4, "big") + section[5].to_bytes(4, "big") + section[6:]
        )
    raw = RawMessage.parse(encode_delivery(stored(Content.parse(section + payload()))))
    assert header._replace(delivery_count=0) == raw.decode_header()


def test_a_shortened_time_to_live_is_written_into_the_header() -> None:
    content = message(ttl_s=100).with_ttl_at_most(50.0)
    raw = RawMessage.parse(encode_delivery(stored(content)))
    assert (50.0, 50_000) == (content.time_to_live, raw.decode_header().ttl)
    assert (
        0xFFFFFFFF == RawMessage.parse(encode_delivery(stored(message().with_ttl_at_most(10.0**9)))).decode_header().ttl
    )


def test_added_properties_keep_the_types_of_the_others() -> None:
    application = {
        "i": 1,
        "s": "x",
        "b": b"y",
        "f": 1.5,
        "t": Timestamp(5),
        "u": uuid.UUID(int=1),
        "z": True,
        "n": None,
    }
    changed = message(application=dict(application)).with_application_properties({"more": 1})
    decoded = changed.sections().decode_application_properties()
    assert {**application, "more": 1} == decoded
    assert Timestamp is type(decoded["t"])


@pytest.mark.parametrize(
    ("value", "text"), [("id", "id"), (b"id", "id"), (ULong(7), "7"), (uuid.UUID(int=1), str(uuid.UUID(int=1)))]
)
def test_message_ids_of_every_type_are_text_to_the_broker(value: object, text: str) -> None:
    assert text == message(message_id=value).message_id


@pytest.mark.parametrize("name", ["message_id", "group_id", "reply_to_group_id"])
def test_keys_have_a_longest_length(name: str) -> None:
    fields: dict[str, Any] = {name: "x" * KEY_LENGTH_MAX}
    message(**fields)
    with pytest.raises(BrokerError) as refusal:
        message(**{name: fields[name] + "x"})
    assert ARGUMENT_OUT_OF_RANGE == refusal.value.condition


def test_a_partition_key_has_a_longest_length() -> None:
    with pytest.raises(BrokerError, match="partition key"):
        message(annotations={"x-opt-partition-key": "x" * (KEY_LENGTH_MAX + 1)})


@pytest.mark.parametrize("annotations", [{"x-opt-partition-key": [1]}, {"x-opt-scheduled-enqueue-time": "soon"}])
def test_annotations_of_the_wrong_type_are_refused(annotations: dict[str, object]) -> None:
    with pytest.raises(BrokerError) as refusal:
        message(annotations=annotations)
    assert ARGUMENT_ERROR == refusal.value.condition


def test_one_property_has_a_largest_size() -> None:
    message(application={"a": "x" * (ONE_PROPERTY_BYTES_MAX - 10)})
    with pytest.raises(BrokerError, match="'a' is longer"):
        message(application={"a": "x" * (ONE_PROPERTY_BYTES_MAX + 1)})


def test_all_properties_together_have_a_largest_size() -> None:
    parts = {f"k{index}": "x" * 1000 for index in range(PROPERTY_BYTES_MAX // 1000 + 1)}
    with pytest.raises(BrokerError) as refusal:
        message(application=dict(parts))
    assert ARGUMENT_OUT_OF_RANGE == refusal.value.condition
    message(b"x" * 2 * PROPERTY_BYTES_MAX)


@pytest.mark.parametrize(
    "wrong",
    [b"\x00\x53\x75\xb0\xff\xff\xff\xff", b"\x00\x53\x99\x40", b"\x00", b"hello", b"\x00\x53\x72\xc1\x03\x01\xa3\x00"],
)
def test_what_is_no_message_is_refused_as_such(wrong: bytes) -> None:
    with pytest.raises(BrokerError) as refusal:
        Content.parse(wrong)
    assert DECODE_ERROR == refusal.value.condition
