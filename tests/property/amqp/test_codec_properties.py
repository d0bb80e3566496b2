"""Round trips over all types, and no way for bytes to raise anything but DecodeError."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from local.broker.amqp.codec import DecodeError, decode, encode, skip
from local.broker.amqp.message import RawMessage, encode_properties, split_batch
from local.broker.amqp.performatives import decode_composite
from tests.property.amqp.strategies import identical, values


@given(values)
def test_what_is_encoded_is_decoded_to_the_same_value_of_the_same_type(value: Any) -> None:
    data = encode(value)
    read, end = decode(data)
    assert identical(read, value)
    assert end == len(data)
    assert skip(data) == len(data)
    assert encode(read) == data


@given(values, st.data())
def test_an_encoding_cut_short_is_a_decode_error(value: Any, data: st.DataObject) -> None:
    encoded = encode(value)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    for reader in (decode, skip):
        try:
            reader(encoded[:cut])
        except DecodeError:
            continue
        raise AssertionError(f"{reader.__name__} accepted {cut} of {len(encoded)} octets")


#: Octets that mean something to the decoder turn up often.
_LIVELY = st.lists(
    st.sampled_from(
        [bytes((code,)) for code in (0, 0x40, 0x45, 0x53, 0x70, 0xA0, 0xA1, 0xB0, 0xC0, 0xC1, 0xD0, 0xD1, 0xE0, 0xF0)]
        + [b"\x00\x53\x75", b"\x00\x53\x73", b"\x00\x53\x14", b"\x00\x00\x00\x04", b"\xff\xff\xff\xff"]
    )
    | st.binary(max_size=4),
    max_size=40,
).map(b"".join)


@given(_LIVELY)
@settings(max_examples=500)
def test_any_octets_are_a_value_or_a_decode_error(data: bytes) -> None:
    for reader in (decode, skip, decode_composite, RawMessage.parse, split_batch):
        with suppress(DecodeError):
            reader(data)


@given(_LIVELY)
@settings(max_examples=300)
def test_any_message_that_parses_can_be_looked_into(data: bytes) -> None:
    try:
        message = RawMessage.parse(data)
    except DecodeError:
        return
    assert RawMessage.parse(message.to_payload()).to_payload() == message.to_payload()
    with suppress(DecodeError):
        properties = message.decode_properties()
        assert RawMessage.parse(encode_properties(properties)).decode_properties() == properties
    for view in (
        message.decode_header,
        message.decode_application_properties,
        message.decode_message_annotations,
        message.decode_delivery_annotations,
    ):
        with suppress(DecodeError):
            view()


#: Most octets of Python objects that one octet of input may cost while it is decoded.
_AMPLIFICATION = 300


@given(st.integers(1, 60), st.sampled_from([b"\x45", b"\xc1\x01\x00", b"\xe0\x02\x20\x40", b"\xe0\x02\xff\x40"]))
@settings(max_examples=30, deadline=None)
def test_small_input_cannot_ask_for_large_memory(repeat: int, element: bytes) -> None:
    body = element * repeat * 50
    count = repeat * 50
    data = b"\xd0" + (len(body) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + body
    tracemalloc.start()
    try:
        with suppress(DecodeError):
            decode(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < _AMPLIFICATION * len(data) + 20_000
