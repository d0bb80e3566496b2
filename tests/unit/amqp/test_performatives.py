"""Described lists: always full length on output, tolerant and typed on input."""

from __future__ import annotations

from typing import Any

import pytest

from local.broker.amqp.codec import DecodeError, EncodeError, decode, encode
from local.broker.amqp.frames import encode_disposition
from local.broker.amqp.performatives import (
    Accepted,
    AmqpError,
    Attach,
    Begin,
    Close,
    Coordinator,
    Declare,
    Declared,
    Detach,
    Discharge,
    Disposition,
    End,
    Flow,
    Modified,
    Open,
    Received,
    Rejected,
    Released,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Source,
    Target,
    TransactionalState,
    Transfer,
    decode_composite,
    encode_composite,
)
from local.broker.amqp.types import Array, Described, Symbol, UInt, ULong

_ERROR = AmqpError("amqp:not-found", "text", {Symbol("key"): "value"})
EXAMPLES: list[tuple[Any, int]] = [
    (Open("c", "h", 512, 7, 1000, ("en",), ("de", "fr"), ("a",), ("b",), {Symbol("k"): 1}), 10),
    (Begin(None, 1, 2, 3), 8),
    (Begin(4, 1, 2, 3, 5, ("a",), ("b",), {Symbol("k"): None}), 8),
    (Attach("n", 1, True), 14),
    (
        Attach("n", 1, False, 0, 1, Source("a"), Target("b"), {b"t": None}, True, 3, 2**40, ("x",), ("y",), {}),
        14,
    ),
    (Flow(None, 1, 2, 3), 11),
    (Flow(0, 1, 2, 3, 4, 5, 6, 7, True, True, {Symbol("k"): 1}), 11),
    (Transfer(1), 11),
    (Transfer(1, 2, b"t", 3, True, True, 1, Received(1, 2), True, True, True), 11),
    (Disposition(True, 1), 6),
    (Disposition(False, 1, 2, True, Modified(True, True, {Symbol("k"): 1}), True), 6),
    (Detach(1), 3),
    (Detach(1, True, _ERROR), 3),
    (End(_ERROR), 1),
    (Close(), 1),
    (Source("a", 1, "never", 2, True, {Symbol("k"): 1}, "move", {Symbol("f"): None}, Accepted(), ("o",), ("c",)), 11),
    (Target("a", 1, "never", 2, True, {Symbol("k"): 1}, ("c",)), 7),
    (Coordinator(("amqp:local-transactions",)), 1),
    (Accepted(), 0),
    (Rejected(_ERROR), 1),
    (Released(), 0),
    (Modified(), 3),
    (Declare(), 1),
    (Discharge(b"t", True), 2),
    (Declared(b"t"), 1),
    (TransactionalState(b"t", Rejected(_ERROR)), 2),
    (SaslMechanisms(("ANONYMOUS",)), 1),
    (SaslInit("PLAIN", b"x", "h"), 3),
    (SaslChallenge(b"x"), 1),
    (SaslResponse(b"x"), 1),
    (SaslOutcome(0), 2),
]


@pytest.mark.parametrize(("performative", "field_count"), EXAMPLES)
def test_every_list_is_written_full_length_and_read_back(performative: Any, field_count: int) -> None:
    data = encode_composite(performative)
    described, _ = decode(data)
    assert data[1] == 0x53
    assert len(described.value) == field_count
    assert decode_composite(data) == (performative, len(data))


@pytest.mark.parametrize(("performative", "_count"), EXAMPLES)
def test_every_list_cut_short_is_a_decode_error(performative: Any, _count: int) -> None:
    data = encode_composite(performative)
    for cut in range(len(data)):
        with pytest.raises(DecodeError):
            decode_composite(data[:cut])


def test_an_error_always_has_three_fields_with_something_in_info() -> None:
    """Without them the Python client hangs, or loses the reason."""
    for error in (AmqpError("amqp:not-found"), AmqpError("amqp:not-found", None, {}), _ERROR):
        for holder in (Close(error), Detach(0, True, error), Rejected(error), End(error)):
            described, _ = decode(encode_composite(holder))
            condition, description, info = described.value[-1].value
            assert condition == "amqp:not-found"
            assert isinstance(description, str)
            assert info


def test_fields_left_off_take_their_defaults() -> None:
    opened, _ = decode_composite(b"\x00\x53\x10" + encode(["c"]))
    assert opened == Open("c")
    nulled, _ = decode_composite(b"\x00\x53\x10" + encode(["c", None, None, None]))
    assert nulled.max_frame_size == 4_294_967_295
    assert nulled.channel_max == 65_535


@pytest.mark.parametrize("descriptor", [ULong(0x24), Symbol("amqp:accepted:list")])
def test_descriptors_may_be_numbers_or_names(descriptor: Any) -> None:
    wide = b"\x00\x80" + (0x24).to_bytes(8, "big") + b"\x45"
    assert decode_composite(wide) == (Accepted(), len(wide))
    assert decode_composite(encode(Described(descriptor, [])))[0] == Accepted()


def test_an_unknown_delivery_state_is_kept_as_it_is() -> None:
    state = Described(ULong(0x99), [1])
    data = encode_composite(Disposition(True, 1, 1, True, state))
    assert decode_composite(data)[0].state == state


def test_one_symbol_stands_for_an_array_of_one() -> None:
    data = b"\x00\x53\x40" + encode([Symbol("ANONYMOUS")])
    assert decode_composite(data)[0] == SaslMechanisms(("ANONYMOUS",))


@pytest.mark.parametrize(
    "fields",
    [
        (0x10, []),  # container-id is mandatory
        (0x10, [None]),
        (0x10, [Symbol("c")]),  # a symbol where a string is due
        (0x10, ["c", None, "big"]),
        (0x10, ["c", None, None, UInt(1)]),  # a uint where a ushort is due
        (0x10, ["c"] + [None] * 10),  # more fields than defined
        (0x10, {}),  # not a list
        (0x10, ["c"] + [None] * 4 + [["en"]]),  # a list where symbols are due
        (0x10, ["c"] + [None] * 4 + [Array(["en"])]),
        (0x10, ["c"] + [None] * 8 + [[]]),
        (0x11, [None, UInt(1), UInt(1)]),
        (0x12, ["n", UInt(0), None]),
        (0x12, ["n", UInt(0), True, UInt(1)]),
        (0x12, ["n", UInt(0), True, None, None, "address"]),  # a source must be described
        (0x12, ["n", UInt(0), True, None, None, Described(ULong(0x29), [])]),  # a target as source
        (0x14, ["x"]),
        (0x14, [UInt(0), UInt(0), "tag"]),
        (0x15, [True]),
        (0x15, [True, UInt(1), None, None, Described(ULong(0x10), ["c"])]),
        (0x15, [True, UInt(1), None, None, Described(ULong(0x34), [b"t", Described(ULong(0x34), [b"t"])])]),
        (0x16, [UInt(1), True, Described(ULong(0x1D), [])]),
    ],
)
def test_wrong_or_missing_fields_are_decode_errors(fields: tuple[int, Any]) -> None:
    code, values = fields
    with pytest.raises(DecodeError):
        decode_composite(bytes((0, 0x53, code)) + encode(values))


def test_values_that_do_not_fit_are_our_own_error() -> None:
    for performative in (Open("c", channel_max=70_000), Flow(0, 2**32, 0, 0), Attach("n", -1, True)):
        with pytest.raises(EncodeError):
            encode_composite(performative)
    with pytest.raises(EncodeError):
        encode_composite("text")


@pytest.mark.parametrize("length", [0, 100, *range(180, 230), 1000])
def test_the_quick_disposition_equals_the_general_one(length: int) -> None:
    for state in (Rejected(AmqpError("amqp:x", "y" * length)), Accepted(), Released(), None):
        frame = encode_disposition(3, True, 70_000, state)
        assert int.from_bytes(frame[:4], "big") == len(frame)
        assert frame[4:8] == b"\x02\x00\x00\x03"
        read, end = decode_composite(frame, 8)
        assert end == len(frame)
        assert (read.role, read.first, read.last, read.settled) == (True, 70_000, 70_000, True)
        assert type(read.state) is type(state)
