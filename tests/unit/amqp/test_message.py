"""Messages as raw sections."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from local.broker.amqp.codec import DecodeError, encode
from local.broker.amqp.message import (
    APPLICATION_PROPERTIES,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    MAX_BODY_SECTIONS,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
    RawMessage,
    encode_header,
    encode_properties,
    encode_section_map,
    split_batch,
)
from local.broker.amqp.types import Symbol, UInt, ULong


def data_section(content: bytes) -> bytes:
    return b"\x00\x53\x75" + encode(content)


HEADER = encode_header(Header(durable=True, priority=4, ttl=1000, first_acquirer=False, delivery_count=0))
PROPERTIES = encode_properties(Properties(message_id="m1", subject="s"))
DELIVERY = encode_section_map(DELIVERY_ANNOTATIONS, {Symbol("x-opt-lock-token"): uuid.UUID(int=7)})
ANNOTATIONS = encode_section_map(MESSAGE_ANNOTATIONS, {Symbol("x-opt-sequence-number"): 5})
APPLICATION = encode_section_map(APPLICATION_PROPERTIES, {"a": UInt(1)})
FOOT = encode_section_map(FOOTER, {Symbol("hash"): b"h"})
BODY = data_section(b"one") + data_section(b"two")


def test_sections_are_kept_bit_for_bit_in_any_order() -> None:
    expected = HEADER + DELIVERY + ANNOTATIONS + PROPERTIES + APPLICATION + BODY + FOOT
    message = RawMessage.parse(HEADER + ANNOTATIONS + PROPERTIES + APPLICATION + BODY + FOOT + DELIVERY)
    assert message.header == HEADER
    assert message.delivery_annotations == DELIVERY
    assert message.body == BODY
    assert message.footer == FOOT
    assert message.to_payload() == expected
    assert RawMessage.parse(memoryview(expected)).to_payload() == expected  # type: ignore[arg-type]


def test_views_decode_what_is_there() -> None:
    message = RawMessage.parse(HEADER + DELIVERY + ANNOTATIONS + PROPERTIES + APPLICATION + BODY)
    assert message.decode_header() == Header(True, 4, 1000, False, 0)
    assert message.decode_properties() == Properties(message_id="m1", subject="s")
    assert message.decode_application_properties() == {"a": 1}
    assert type(message.decode_application_properties()["a"]) is UInt
    assert message.decode_message_annotations() == {"x-opt-sequence-number": 5}
    assert message.decode_delivery_annotations() == {"x-opt-lock-token": uuid.UUID(int=7)}


def test_an_empty_message_has_empty_views() -> None:
    message = RawMessage.parse(b"")
    assert message.to_payload() == b""
    assert message.decode_header() == Header()
    assert message.decode_properties() == Properties()
    assert message.decode_application_properties() == {}


@pytest.mark.parametrize(
    "body",
    [
        data_section(b""),
        data_section(b"x" * 5000),
        b"\x00\x53\x76" + encode([1, "x"]) + b"\x00\x53\x76" + encode([]),
        b"\x00\x53\x77" + encode({"a": [None]}),
        b"\x00\x53\x77" + encode(None),
        b"",
    ],
)
def test_every_kind_of_body_survives(body: bytes) -> None:
    assert RawMessage.parse(PROPERTIES + body).body == body


@pytest.mark.parametrize("message_id", ["text", uuid.UUID(int=9), b"octets", ULong(7), ULong(0), ULong(2**60), None])
def test_a_message_id_keeps_its_type(message_id: Any) -> None:
    encoded = encode_properties(Properties(message_id=message_id, correlation_id=message_id))
    read = RawMessage.parse(encoded).decode_properties()
    assert (type(read.message_id), read.message_id) == (type(message_id), message_id)
    assert read.correlation_id == message_id


def test_all_properties_survive_a_round_trip() -> None:
    properties = Properties(
        "id", b"user", "to", "subject", "reply", "corr", "text/plain", "gzip", 1, 2, "group", 3, "reply-group"
    )
    assert RawMessage.parse(encode_properties(properties)).decode_properties() == properties


def test_long_descriptors_are_rewritten_to_the_form_clients_read() -> None:
    wide = b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73" + PROPERTIES[3:]
    symbolic = b"\x00\xa3\x1famqp:application-properties:map" + APPLICATION[3:]
    message = RawMessage.parse(wide + symbolic)
    assert message.properties == PROPERTIES
    assert message.application_properties == APPLICATION


def test_a_null_map_section_is_an_absent_one() -> None:
    assert RawMessage.parse(b"\x00\x53\x72\x40" + ANNOTATIONS).message_annotations == ANNOTATIONS


@pytest.mark.parametrize(
    "payload",
    [
        b"junk",
        b"\x00",
        b"\x00\x53",
        b"\x00\x53\x75",
        b"\x00\x53\x79\x40",  # not a section
        b"\x00\x53\x10\x45",  # a frame body
        b"\x00\xa3\x01x\x40",
        b"\x00\xa0\x01x\x40",
        b"\x00\x53\x70\xc1\x01\x00",  # header must be a list
        b"\x00\x53\x74\x45",  # application-properties must be a map
        b"\x00\x53\x75\xa1\x00",  # data must be binary
        b"\x00\x53\x75\xa0\x05x",  # cut off
        b"\x00\x53\x75\xb0\xff\xff\xff\xff",
        PROPERTIES + PROPERTIES,
        data_section(b"a") + b"\x00\x53\x77\x40",
        b"\x00\x53\x77\x40\x00\x53\x77\x40",
        PROPERTIES + b"\x00",
    ],
)
def test_junk_is_refused(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        RawMessage.parse(payload)


@pytest.mark.parametrize(
    "section",
    [
        b"\x00\x53\x73\xc0\x03\x01\x54\x01",  # message-id as an int
        b"\x00\x53\x73\xc0\x05\x02\x40\xa1\x01x",  # user-id as a string
        b"\x00\x53\x73\xc0\x0f\x0e" + b"\x40" * 14,  # fourteen fields
        b"\x00\x53\x73\xc0\x02\x02\x40",  # fewer fields than counted
    ],
)
def test_bad_properties_are_refused_when_looked_at(section: bytes) -> None:
    message = RawMessage.parse(section)
    with pytest.raises(DecodeError):
        message.decode_properties()


def test_a_batch_is_split_into_its_messages() -> None:
    inner = [PROPERTIES + data_section(b"x" * size) for size in (1, 300)]
    batch = PROPERTIES + ANNOTATIONS + b"".join(data_section(item) for item in inner)
    assert split_batch(batch) == inner
    assert split_batch(PROPERTIES) == []


def test_a_batch_without_data_sections_is_refused() -> None:
    with pytest.raises(DecodeError):
        split_batch(b"\x00\x53\x77\x40")


def test_the_number_of_body_sections_is_bounded() -> None:
    sections = data_section(b"") * (MAX_BODY_SECTIONS + 1)
    with pytest.raises(DecodeError):
        RawMessage.parse(sections)
    with pytest.raises(DecodeError):
        split_batch(sections)
