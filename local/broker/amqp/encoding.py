"""Values to AMQP 1.0 bytes (part 1: types), each in the shortest form of its type. One table keyed by type."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from struct import Struct
from typing import Any

from local.broker.amqp.decoding import MAX_COMPOUND_COUNT, MAX_NESTING, MAX_WIDTHLESS_ELEMENTS, SURROGATES, WIDTHS
from local.broker.amqp.errors import EncodeError
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

Encoder = Callable[[Any, int], bytes]


def encode(value: Any) -> bytes:
    """The value with its constructor, in the shortest form of its type."""
    return encode_nested(value, 0)


def encode_nested(value: Any, depth: int) -> bytes:
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        encoder = _encoder_of_base(type(value))
    try:
        return encoder(value, depth)
    except (struct.error, OverflowError):
        raise EncodeError(f"{value!r} is out of range for AMQP {type(value).__name__}") from None


def _encoder_of_base(kind: type) -> Encoder:
    for base in kind.__mro__[1:]:
        if base in _ENCODERS:
            return _ENCODERS[base]
    raise EncodeError(f"no AMQP type for {kind.__name__}")


def fixed_width(code: int, layout: str) -> Encoder:
    pack = Struct(">B" + layout).pack
    return lambda value, depth: pack(code, value)


_pack_uint = Struct(">BI").pack
_pack_ulong = Struct(">BQ").pack
_pack_int = Struct(">Bi").pack
_pack_long = Struct(">Bq").pack
_pack_compound = Struct(">BII").pack
_SMALL_UINT = [b"\x43"] + [bytes((0x52, n)) for n in range(1, 256)]
_SMALL_ULONG = [b"\x44"] + [bytes((0x53, n)) for n in range(1, 256)]


def encode_uint(value: int) -> bytes:
    return _SMALL_UINT[value] if 0 <= value < 256 else _pack_uint(0x70, value)


def encode_ulong(value: int) -> bytes:
    return _SMALL_ULONG[value] if 0 <= value < 256 else _pack_ulong(0x80, value)


def encode_long(value: int) -> bytes:
    return bytes((0x55, value & 0xFF)) if -128 <= value < 128 else _pack_long(0x81, value)


def _encode_int(value: int) -> bytes:
    return bytes((0x54, value & 0xFF)) if -128 <= value < 128 else _pack_int(0x71, value)


def _variable(code8: int, code32: int, octets: bytes) -> bytes:
    size = len(octets)
    return bytes((code8, size)) + octets if size < 256 else _pack_uint(code32, size) + octets


def encode_binary(value: bytes) -> bytes:
    return _variable(0xA0, 0xB0, value)


def _utf8(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise EncodeError("a lone surrogate has no UTF-8 form") from None


def encode_string(value: str) -> bytes:
    return _variable(0xA1, 0xB1, _utf8(value))


def encode_symbol(value: str) -> bytes:
    return _variable(0xA3, 0xB3, _utf8(value))


def _encode_char(value: str) -> int:
    if len(value) != 1 or ord(value) in SURROGATES:
        raise EncodeError(f"{value!r} is not one Unicode scalar value")
    return ord(value)


def compound(code8: int, code32: int, count: int, body: bytes) -> bytes:
    size = len(body)
    if size < 255 and count < 256:
        return bytes((code8, size + 1, count)) + body
    return _pack_compound(code32, size + 4, count) + body


def encode_list_body(parts: list[bytes]) -> bytes:
    """A list value from its already encoded elements."""
    return compound(0xC0, 0xD0, len(parts), b"".join(parts)) if parts else b"\x45"


def _check_encodable(count: int, depth: int) -> None:
    if count > MAX_COMPOUND_COUNT:
        raise EncodeError(f"{count} elements in one value; clients accept {MAX_COMPOUND_COUNT}")
    if depth >= MAX_NESTING:
        raise EncodeError(f"values nested deeper than {MAX_NESTING}")


def _encode_list(value: list[Any], depth: int) -> bytes:
    _check_encodable(len(value), depth)
    return encode_list_body([encode_nested(item, depth + 1) for item in value])


def _encode_map(value: dict[Any, Any], depth: int) -> bytes:
    _check_encodable(2 * len(value), depth)
    parts = []
    for key, item in value.items():
        parts.append(encode_nested(key, depth + 1))
        parts.append(encode_nested(item, depth + 1))
    return compound(0xC1, 0xD1, len(parts), b"".join(parts))


def _encode_array(value: Array, depth: int) -> bytes:
    return compound(0xE0, 0xF0, len(value), _array_body(value, depth))


def _array_body(value: Array, depth: int) -> bytes:
    _check_encodable(len(value), depth)
    code = value.code
    if code is None:
        if not value:
            return b""  # see _array_items: clients that write it so also read only this form
        code = _element_code(value[0])
    prefix = b"" if value.descriptor is None else b"\x00" + encode_nested(value.descriptor, depth + 1)
    element = _ELEMENTS.get(code)
    if element is None:
        raise EncodeError(f"0x{code:02x} cannot construct array elements")
    if WIDTHS[code] == 0 and len(value) > MAX_WIDTHLESS_ELEMENTS:
        raise EncodeError(f"{len(value)} array elements without content")
    try:
        return prefix + bytes((code,)) + b"".join([element(item, depth + 1) for item in value])
    except (struct.error, TypeError, AttributeError):
        raise EncodeError(f"an array element is not of the type 0x{code:02x} constructs") from None


def _element_code(item: Any) -> int:
    for base in type(item).__mro__:
        if base in _ELEMENT_CODES:
            return _ELEMENT_CODES[base]
    raise EncodeError(f"no AMQP array element type for {type(item).__name__}")


def _encode_described(value: Described, depth: int) -> bytes:
    if depth >= MAX_NESTING:
        raise EncodeError(f"values nested deeper than {MAX_NESTING}")
    return b"\x00" + encode_nested(value.descriptor, depth + 1) + encode_nested(value.value, depth + 1)


def _decimal_octets(width: int) -> Callable[[bytes], bytes]:
    def checked(value: bytes) -> bytes:
        if len(value) != width:
            raise EncodeError(f"a decimal of {width} octets was given {len(value)}")
        return bytes(value)

    return checked


_octets_of_4, _octets_of_8, _octets_of_16 = _decimal_octets(4), _decimal_octets(8), _decimal_octets(16)

_ENCODERS: dict[type, Encoder] = {
    type(None): lambda value, depth: b"\x40",
    bool: lambda value, depth: b"\x41" if value else b"\x42",
    UByte: fixed_width(0x50, "B"),
    UShort: fixed_width(0x60, "H"),
    UInt: lambda value, depth: encode_uint(value),
    ULong: lambda value, depth: encode_ulong(value),
    Byte: fixed_width(0x51, "b"),
    Short: fixed_width(0x61, "h"),
    Int: lambda value, depth: _encode_int(value),
    int: lambda value, depth: encode_long(value),
    Timestamp: fixed_width(0x83, "q"),
    Float32: fixed_width(0x72, "f"),
    float: fixed_width(0x82, "d"),
    Char: lambda value, depth: _pack_uint(0x73, _encode_char(value)),
    Decimal32: lambda value, depth: b"\x74" + _octets_of_4(value),
    Decimal64: lambda value, depth: b"\x84" + _octets_of_8(value),
    Decimal128: lambda value, depth: b"\x94" + _octets_of_16(value),
    uuid.UUID: lambda value, depth: b"\x98" + value.bytes,
    bytes: lambda value, depth: encode_binary(value),
    bytearray: lambda value, depth: encode_binary(bytes(value)),
    memoryview: lambda value, depth: encode_binary(bytes(value)),
    str: lambda value, depth: encode_string(value),
    Symbol: lambda value, depth: encode_symbol(value),
    list: _encode_list,
    tuple: lambda value, depth: _encode_list(list(value), depth),
    dict: _encode_map,
    Array: _encode_array,
    Described: _encode_described,
}


def _packed(layout: str) -> Encoder:
    pack = Struct(">" + layout).pack
    return lambda value, depth: pack(value)


def _sized(layout: str, octets_of: Callable[[Any], bytes]) -> Encoder:
    pack = Struct(">" + layout).pack

    def element(value: Any, depth: int) -> bytes:
        octets = octets_of(value)
        return pack(len(octets)) + octets

    return element


def _wide(encoder: Encoder, wide_code: int) -> Encoder:
    """A compound element: always its 32-bit form, without the constructor."""

    def element(value: Any, depth: int) -> bytes:
        encoded = encoder(value, depth)
        if encoded[0] == wide_code:
            return encoded[1:]
        if encoded == b"\x45":
            return b"\x00\x00\x00\x04\x00\x00\x00\x00"
        body = encoded[3:]
        return _pack_compound(wide_code, len(body) + 4, encoded[2])[1:] + body

    return element


def _narrow(encoder: Encoder, narrow_code: int) -> Encoder:
    """A compound element in its 8-bit form, which must be enough for it."""

    def element(value: Any, depth: int) -> bytes:
        encoded = encoder(value, depth)
        if encoded == b"\x45":
            return b"\x01\x00"
        if encoded[0] != narrow_code:
            raise EncodeError(f"an array element is too large for 0x{narrow_code:02x}")
        return encoded[1:]

    return element


def _constant(expected: Any) -> Encoder:
    def element(value: Any, depth: int) -> bytes:
        if value != expected:
            raise EncodeError(f"{value!r} cannot stand in an array of {expected!r}")
        return b""

    return element


_ELEMENTS: dict[int, Encoder] = {
    0x40: _constant(None),
    0x41: _constant(True),
    0x42: _constant(False),
    0x43: _constant(0),
    0x44: _constant(0),
    0x45: _constant([]),
    0x50: _packed("B"),
    0x51: _packed("b"),
    0x52: _packed("B"),
    0x53: _packed("B"),
    0x54: _packed("b"),
    0x55: _packed("b"),
    0x56: _packed("?"),
    0x60: _packed("H"),
    0x61: _packed("h"),
    0x70: _packed("I"),
    0x71: _packed("i"),
    0x72: _packed("f"),
    0x73: lambda value, depth: _pack_uint(0, _encode_char(value))[1:],
    0x74: lambda value, depth: _octets_of_4(value),
    0x80: _packed("Q"),
    0x81: _packed("q"),
    0x82: _packed("d"),
    0x83: _packed("q"),
    0x84: lambda value, depth: _octets_of_8(value),
    0x94: lambda value, depth: _octets_of_16(value),
    0x98: lambda value, depth: value.bytes,
    0xA0: _sized("B", bytes),
    0xA1: _sized("B", _utf8),
    0xA3: _sized("B", _utf8),
    0xB0: _sized("I", bytes),
    0xB1: _sized("I", _utf8),
    0xB3: _sized("I", _utf8),
    0xC0: _narrow(_encode_list, 0xC0),
    0xC1: _narrow(_encode_map, 0xC1),
    0xD0: _wide(_encode_list, 0xD0),
    0xD1: _wide(_encode_map, 0xD1),
    0xE0: _narrow(_encode_array, 0xE0),
    0xF0: _wide(_encode_array, 0xF0),
}

_ELEMENT_CODES: dict[type, int] = {
    type(None): 0x40,
    bool: 0x56,
    UByte: 0x50,
    UShort: 0x60,
    UInt: 0x70,
    ULong: 0x80,
    Byte: 0x51,
    Short: 0x61,
    Int: 0x71,
    int: 0x81,
    Timestamp: 0x83,
    Float32: 0x72,
    float: 0x82,
    Char: 0x73,
    Decimal32: 0x74,
    Decimal64: 0x84,
    Decimal128: 0x94,
    uuid.UUID: 0x98,
    bytes: 0xB0,
    str: 0xB1,
    Symbol: 0xB3,
    list: 0xD0,
    dict: 0xD1,
    Array: 0xF0,
}
