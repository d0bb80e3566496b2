"""Values to and from bytes: the encodings of part 1 and the limits that keep bad input harmless."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from local.broker.amqp.codec import (
    MAX_COMPOUND_COUNT,
    MAX_NESTING,
    MAX_WIDTHLESS_ELEMENTS,
    DecodeError,
    EncodeError,
    decode,
    encode,
    skip,
)
from local.broker.amqp.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

_UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")

#: value, the bytes we write for it, other bytes that mean the same
SHAPES: list[tuple[Any, str, list[str]]] = [
    (None, "40", []),
    (True, "41", ["5601"]),
    (False, "42", ["5600"]),
    (UByte(255), "50ff", []),
    (UShort(258), "600102", []),
    (UInt(0), "43", ["5200", "7000000000"]),
    (UInt(255), "52ff", ["70000000ff"]),
    (UInt(256), "7000000100", []),
    (ULong(0), "44", ["5300", "800000000000000000"]),
    (ULong(18), "5312", ["800000000000000012"]),
    (ULong(2**63), "808000000000000000", []),
    (Byte(-1), "51ff", []),
    (Short(-2), "61fffe", []),
    (Int(-3), "54fd", ["71fffffffd"]),
    (Int(128), "7100000080", []),
    (-4, "55fc", ["81fffffffffffffffc"]),
    (2**40, "810000010000000000", []),
    (Float32(1.5), "723fc00000", []),
    (1.5, "823ff8000000000000", []),
    (Char("é"), "73000000e9", []),
    (Timestamp(1000), "8300000000000003e8", []),
    (_UUID, "9800112233445566778899aabbccddeeff", []),
    (Decimal32(b"abcd"), "7461626364", []),
    (Decimal64(b"abcdefgh"), "846162636465666768", []),
    (Decimal128(b"abcdefghijklmnop"), "946162636465666768696a6b6c6d6e6f70", []),
    (b"\x01\x02", "a0020102", ["b0000000020102"]),
    ("é", "a102c3a9", ["b100000002c3a9"]),
    (Symbol("a:b"), "a303613a62", ["b300000003613a62"]),
    ([], "45", ["c00100", "d00000000400000000"]),
    ([True, None], "c003024140", ["d000000006000000024140"]),
    ({}, "c10100", ["d10000000400000000"]),
    ({"k": UInt(1)}, "c10602a1016b5201", ["d10000000900000002a1016b5201"]),
    (Described(Symbol("d"), "v"), "00a30164a10176", []),
]


def same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


@pytest.mark.parametrize(("value", "canonical", "others"), SHAPES)
def test_a_value_is_written_in_its_shortest_form_and_read_in_every_form(
    value: Any, canonical: str, others: list[str]
) -> None:
    assert encode(value) == bytes.fromhex(canonical)
    for form in (canonical, *others):
        data = bytes.fromhex(form)
        read, end = decode(b"\xff" + data + b"\xff", 1)
        assert same(read, value)
        assert end == 1 + len(data)
        assert skip(b"\xff" + data + b"\xff", 1) == 1 + len(data)


def test_long_values_take_the_wide_forms() -> None:
    for value in ("x" * 256, b"x" * 256, Symbol("x" * 256), [True] * 300, {f"key{n}": n for n in range(200)}):
        data = encode(value)
        assert data[0] in (0xB0, 0xB1, 0xB3, 0xD0, 0xD1)
        assert same(decode(data)[0], value)
        assert skip(data) == len(data)


@pytest.mark.parametrize(
    ("array", "data"),
    [
        (Array([1, 2]), "e01202810000000000000001" + "0000000000000002"),
        (Array([_UUID]), "e0120198" + _UUID.hex),
        (Array([Symbol("a"), Symbol("b")], 0xA3), "e00602a301610162"),
        (Array([True, False]), "e00402560100"),
        (Array([UInt(0), UInt(0)], 0x43), "e0020243"),
        (Array([], 0x81), "e0020081"),
        (Array(), "e00100"),
        (Array([["x"]], 0xC0), "e00701c00401a10178"),
        (Array([[]], 0xD0), "e00a01d00000000400000000"),
        (Array([Array([UByte(1)])]), "e00c01f00000000600000001" + "5001"),
        (Array(["x"], 0xA1, Symbol("d")), "e0080100a30164a10178"),
    ],
)
def test_arrays_share_one_element_constructor(array: Array, data: str) -> None:
    assert encode(array).hex() == data
    read, end = decode(bytes.fromhex(data))
    assert isinstance(read, Array)
    assert list(read) == list(array)
    assert end == len(data) // 2
    assert encode(read).hex() == data


@pytest.mark.parametrize(
    "data",
    [
        "",  # nothing
        "50",  # fixed width cut off
        "7000",
        "83000000",
        "98" + "00" * 15,
        "94" + "00" * 15,
        "a0",  # size cut off
        "a005aabb",  # content cut off
        "b000000005aa",
        "b0ffffffff",
        "a102c328",  # not UTF-8
        "a302c328",
        "5602",  # boolean octet
        "7300110000",  # beyond Unicode
        "730000d800",  # surrogate
        "c0",
        "c0ff0141",  # list longer than the data
        "c0030141",  # size larger than the elements
        "c0010141",  # size smaller than the elements
        "c0020241",  # count larger than the elements
        "c1030141",  # key without a value
        "c104024541",  # size mismatch
        "c103024541",  # a list as a key
        "c10502c1010041",  # a map as a key
        "d0ffffffffffffffff",
        "d000000004ffffffff",  # four billion elements in no octets
        "f00000000500ffffff40",  # sixteen million nulls in no octets
        "e003024041",  # array size mismatch
        "e0040100004045",  # two descriptors
        "e00201ff",  # unknown element constructor
        "00",  # described by nothing
        "0040",  # descriptor without a value
        "3f",  # unassigned constructors
        "46",
        "99",
        "ff",
    ],
)
def test_bad_input_is_a_decode_error(data: str) -> None:
    with pytest.raises(DecodeError):
        decode(bytes.fromhex(data))


def test_nesting_is_bounded_both_ways() -> None:
    deep: Any = []
    for _ in range(MAX_NESTING - 1):
        deep = [deep]
    assert decode(encode(deep))[0] == deep
    with pytest.raises(EncodeError):
        encode([deep, [deep]])
    data = b"\x40"
    for _ in range(MAX_NESTING + 1):
        data = b"\xd0" + (len(data) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + data
    with pytest.raises(DecodeError):
        decode(data)


@pytest.mark.parametrize("octet", [b"\x00", b"\xc0\xff\x01", b"\xe0\xff\x01"])
def test_endless_nesting_does_not_exhaust_the_stack(octet: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(octet * 5000)
    if octet == b"\x00":
        with pytest.raises(DecodeError):
            skip(octet * 5000)


def test_element_counts_are_bounded_both_ways() -> None:
    fits: list[None] = [None] * MAX_COMPOUND_COUNT
    assert decode(encode(fits))[0] == fits
    with pytest.raises(EncodeError):
        encode([*fits, None])
    data = b"\xd0" + (MAX_COMPOUND_COUNT + 5).to_bytes(4, "big") + (MAX_COMPOUND_COUNT + 1).to_bytes(4, "big")
    with pytest.raises(DecodeError):
        decode(data + b"\x40" * (MAX_COMPOUND_COUNT + 1))


def test_array_elements_that_take_no_octets_are_bounded() -> None:
    assert len(decode(encode(Array([None] * MAX_WIDTHLESS_ELEMENTS)))[0]) == MAX_WIDTHLESS_ELEMENTS
    with pytest.raises(EncodeError):
        encode(Array([None] * (MAX_WIDTHLESS_ELEMENTS + 1)))


@pytest.mark.parametrize(
    "value",
    [
        UByte(256),
        UByte(-1),
        UInt(2**32),
        ULong(-1),
        Int(2**31),
        2**63,
        Timestamp(2**63),
        Char("ab"),
        Char(""),
        Char("\ud800"),
        "\ud800",
        Decimal32(b"abc"),
        object(),
        {1, 2},
        Array([1, "x"]),
        Array(["x" * 256], 0xA1),
        Array([["x" * 256]], 0xC0),
        Array([True], 0x42),
        Array([1], 0x46),
        Array([object()]),
        Float32(1e300),
    ],
)
def test_a_value_without_an_amqp_form_is_our_own_error(value: Any) -> None:
    with pytest.raises(EncodeError):
        encode(value)


def test_input_may_be_any_buffer() -> None:
    data = encode({"a": [1, b"x"]})
    assert decode(memoryview(data))[0] == {"a": [1, b"x"]}
    assert decode(bytearray(data))[0] == {"a": [1, b"x"]}
    with pytest.raises(DecodeError):
        decode(data, -1)


def test_types_say_what_they_are() -> None:
    values = [UInt(1), Symbol("s"), Float32(1), Char("c"), Decimal32(b"abcd"), Array([1], 0x81), Described(ULong(1), 2)]
    assert [repr(value) for value in values] == [
        "UInt(1)",
        "Symbol('s')",
        "Float32(1.0)",
        "Char('c')",
        "Decimal32(b'abcd')",
        "Array([1], code=0x81, descriptor=None)",
        "Described(descriptor=ULong(1), value=2)",
    ]
