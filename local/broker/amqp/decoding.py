"""AMQP 1.0 bytes to values (part 1: types).

Decoding trusts nothing: every size is checked against the buffer, nesting and element counts are bounded, and every
failure is a DecodeError. One table indexed by the constructor octet does the work.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from struct import Struct
from typing import Any

from local.broker.amqp.errors import DecodeError
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

#: Deepest value accepted or produced; the Python and .NET clients use the same bound.
MAX_NESTING = 64
#: Most elements in one list, map (keys + values) or array; clients refuse more.
MAX_COMPOUND_COUNT = 65_536
#: An array whose elements take no octets (null, true, uint0 ...) costs memory that no bytes paid for.
MAX_WIDTHLESS_ELEMENTS = 32

Decoder = Callable[[bytes, int, int], tuple[Any, int]]

_u16 = Struct(">H").unpack_from
_i16 = Struct(">h").unpack_from
_u32 = Struct(">I").unpack_from
_i32 = Struct(">i").unpack_from
_u64 = Struct(">Q").unpack_from
_i64 = Struct(">q").unpack_from
_f32 = Struct(">f").unpack_from
_f64 = Struct(">d").unpack_from
_i8 = Struct(">b").unpack_from
_two_u32 = Struct(">II").unpack_from

SURROGATES = range(0xD800, 0xE000)


def decode(buf: bytes | bytearray | memoryview, offset: int = 0) -> tuple[Any, int]:
    """The value at `offset` and the offset after it."""
    data = buf if type(buf) is bytes else bytes(buf)
    if offset < 0:
        raise DecodeError("negative offset")
    try:
        return _DECODERS[data[offset]](data, offset + 1, 0)
    except (IndexError, struct.error):
        raise DecodeError("the value ends before its last octet") from None
    except UnicodeDecodeError:
        raise DecodeError("a string is not valid UTF-8") from None


def decode_at(data: bytes, offset: int) -> tuple[Any, int]:
    """As decode, for callers that hold bytes and translate IndexError, struct.error and UnicodeDecodeError."""
    return _DECODERS[data[offset]](data, offset + 1, 0)


def skip(buf: bytes | memoryview, offset: int = 0) -> int:
    """The offset after the value at `offset`, looking only at its outermost size."""
    pending = 1
    total = len(buf)
    try:
        while pending:
            width = WIDTHS[buf[offset]]
            offset += 1
            if width >= 0:
                offset += width
            elif width == _SIZE8:
                offset += 1 + buf[offset]
            elif width == _SIZE32:
                offset += 4 + _u32(buf, offset)[0]
            elif width == _DESCRIBED:
                pending += 2
                if pending > MAX_NESTING:
                    raise DecodeError("descriptors nested too deeply")
            else:
                raise DecodeError(f"unknown constructor 0x{buf[offset - 1]:02x}")
            pending -= 1
    except (IndexError, struct.error):
        raise DecodeError("the value ends before its last octet") from None
    if offset > total:
        raise DecodeError("the value ends before its last octet")
    return offset


def _truncated() -> DecodeError:
    return DecodeError("a declared size reaches beyond the data")


def _null(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return None, pos


def _true(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return True, pos


def _false(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return False, pos


def _boolean(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    octet = buf[pos]
    if octet > 1:
        raise DecodeError(f"boolean octet 0x{octet:02x}")
    return octet == 1, pos + 1


def _uint0(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return UInt(0), pos


def _ulong0(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return ULong(0), pos


def _ubyte(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return UByte(buf[pos]), pos + 1


def _byte(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return Byte(_i8(buf, pos)[0]), pos + 1


def _ushort(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return UShort(_u16(buf, pos)[0]), pos + 2


def _short(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return Short(_i16(buf, pos)[0]), pos + 2


def _smalluint(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return UInt(buf[pos]), pos + 1


def _uint(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return UInt(_u32(buf, pos)[0]), pos + 4


def _smallint(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return Int(_i8(buf, pos)[0]), pos + 1


def _int(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return Int(_i32(buf, pos)[0]), pos + 4


def _smallulong(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return ULong(buf[pos]), pos + 1


def _ulong(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return ULong(_u64(buf, pos)[0]), pos + 8


def _smalllong(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return _i8(buf, pos)[0], pos + 1


def _long(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return _i64(buf, pos)[0], pos + 8


def _timestamp(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return Timestamp(_i64(buf, pos)[0]), pos + 8


def _float(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return Float32(_f32(buf, pos)[0]), pos + 4


def _double(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return _f64(buf, pos)[0], pos + 8


def _char(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    point = _u32(buf, pos)[0]
    if point > 0x10FFFF or point in SURROGATES:
        raise DecodeError(f"char 0x{point:x} is not a Unicode scalar value")
    return Char(chr(point)), pos + 4


def _octets(buf: bytes, pos: int, width: int) -> bytes:
    end = pos + width
    if end > len(buf):
        raise _truncated()
    return buf[pos:end]


def _decimal32(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return Decimal32(_octets(buf, pos, 4)), pos + 4


def _decimal64(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return Decimal64(_octets(buf, pos, 8)), pos + 8


def _decimal128(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return Decimal128(_octets(buf, pos, 16)), pos + 16


def _uuid(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return uuid.UUID(bytes=_octets(buf, pos, 16)), pos + 16


def _binary8(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    start = pos + 1
    end = start + buf[pos]
    if end > len(buf):
        raise _truncated()
    return buf[start:end], end


def _binary32(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    start = pos + 4
    end = start + _u32(buf, pos)[0]
    if end > len(buf):
        raise _truncated()
    return buf[start:end], end


def _string8(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    start = pos + 1
    end = start + buf[pos]
    if end > len(buf):
        raise _truncated()
    return buf[start:end].decode(), end


def _string32(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    start = pos + 4
    end = start + _u32(buf, pos)[0]
    if end > len(buf):
        raise _truncated()
    return buf[start:end].decode(), end


# Symbols are ASCII by the standard, but the Python client writes annotation keys as UTF-8: read what it writes.
def _symbol8(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    start = pos + 1
    end = start + buf[pos]
    if end > len(buf):
        raise _truncated()
    return Symbol(buf[start:end].decode()), end


def _symbol32(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    start = pos + 4
    end = start + _u32(buf, pos)[0]
    if end > len(buf):
        raise _truncated()
    return Symbol(buf[start:end].decode()), end


def _list0(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return [], pos


def _list8(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return _list_items(buf, pos + 2, pos + 1 + buf[pos], buf[pos + 1], depth)


def _list32(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    size, count = _two_u32(buf, pos)
    return _list_items(buf, pos + 8, pos + 4 + size, count, depth)


def _map8(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return _map_items(buf, pos + 2, pos + 1 + buf[pos], buf[pos + 1], depth)


def _map32(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    size, count = _two_u32(buf, pos)
    return _map_items(buf, pos + 8, pos + 4 + size, count, depth)


def _array8(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    return _array_items(buf, pos + 2, pos + 1 + buf[pos], buf[pos + 1], depth)


def _array32(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    size, count = _two_u32(buf, pos)
    return _array_items(buf, pos + 8, pos + 4 + size, count, depth)


def check_compound(buf: bytes, end: int, count: int, depth: int) -> None:
    if end > len(buf):
        raise _truncated()
    if count > MAX_COMPOUND_COUNT:
        raise DecodeError(f"{count} elements in one value; at most {MAX_COMPOUND_COUNT} are accepted")
    if depth >= MAX_NESTING:
        raise DecodeError(f"values nested deeper than {MAX_NESTING}")


def _list_items(buf: bytes, pos: int, end: int, count: int, depth: int) -> tuple[list[Any], int]:
    check_compound(buf, end, count, depth)
    decoders = _DECODERS
    depth += 1
    items: list[Any] = []
    for _ in range(count):
        item, pos = decoders[buf[pos]](buf, pos + 1, depth)
        items.append(item)
    if pos != end:
        raise DecodeError("a list's size does not fit its elements")
    return items, pos


def _map_items(buf: bytes, pos: int, end: int, count: int, depth: int) -> tuple[dict[Any, Any], int]:
    check_compound(buf, end, count, depth)
    if count & 1:
        raise DecodeError("a map has a key without a value")
    decoders = _DECODERS
    depth += 1
    items: dict[Any, Any] = {}
    for _ in range(count >> 1):
        key, pos = decoders[buf[pos]](buf, pos + 1, depth)
        value, pos = decoders[buf[pos]](buf, pos + 1, depth)
        try:
            items[key] = value
        except TypeError:
            raise DecodeError("a map key is a list, a map or an array") from None
    if pos != end:
        raise DecodeError("a map's size does not fit its elements")
    return items, pos


def _array_items(buf: bytes, pos: int, end: int, count: int, depth: int) -> tuple[Array, int]:
    check_compound(buf, end, count, depth)
    if pos == end and count == 0:
        return Array(), pos  # the Python client writes an empty array without its element constructor
    depth += 1
    code = buf[pos]
    descriptor = None
    pos += 1
    if code == 0:
        descriptor, pos = _DECODERS[buf[pos]](buf, pos + 1, depth)
        code = buf[pos]
        pos += 1
        if code == 0:
            raise DecodeError("an array element constructor with two descriptors is not supported")
    if WIDTHS[code] == 0 and count > MAX_WIDTHLESS_ELEMENTS:
        raise DecodeError(f"{count} array elements without content; at most {MAX_WIDTHLESS_ELEMENTS} are accepted")
    decoder = _DECODERS[code]
    items = []
    for _ in range(count):
        item, pos = decoder(buf, pos, depth)
        items.append(item)
    if pos != end:
        raise DecodeError("an array's size does not fit its elements")
    return Array(items, code, descriptor), pos


def _described(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    if depth >= MAX_NESTING:
        raise DecodeError(f"values nested deeper than {MAX_NESTING}")
    depth += 1
    descriptor, pos = _DECODERS[buf[pos]](buf, pos + 1, depth)
    value, pos = _DECODERS[buf[pos]](buf, pos + 1, depth)
    return Described(descriptor, value), pos


def _unknown(buf: bytes, pos: int, depth: int) -> tuple[Any, int]:
    raise DecodeError(f"unknown constructor 0x{buf[pos - 1]:02x}")


_BY_CODE: dict[int, Decoder] = {
    0x00: _described,
    0x40: _null,
    0x41: _true,
    0x42: _false,
    0x43: _uint0,
    0x44: _ulong0,
    0x45: _list0,
    0x50: _ubyte,
    0x51: _byte,
    0x52: _smalluint,
    0x53: _smallulong,
    0x54: _smallint,
    0x55: _smalllong,
    0x56: _boolean,
    0x60: _ushort,
    0x61: _short,
    0x70: _uint,
    0x71: _int,
    0x72: _float,
    0x73: _char,
    0x74: _decimal32,
    0x80: _ulong,
    0x81: _long,
    0x82: _double,
    0x83: _timestamp,
    0x84: _decimal64,
    0x94: _decimal128,
    0x98: _uuid,
    0xA0: _binary8,
    0xA1: _string8,
    0xA3: _symbol8,
    0xB0: _binary32,
    0xB1: _string32,
    0xB3: _symbol32,
    0xC0: _list8,
    0xC1: _map8,
    0xD0: _list32,
    0xD1: _map32,
    0xE0: _array8,
    0xF0: _array32,
}
_DECODERS: list[Decoder] = [_BY_CODE.get(code, _unknown) for code in range(256)]

# Octets after the constructor: a fixed number, or one of these when a size field (or a descriptor) comes first.
_SIZE8, _SIZE32, _DESCRIBED, _UNASSIGNED = -1, -2, -3, -4
_FIXED_WIDTHS = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
_SIZED_WIDTHS = {0xA: _SIZE8, 0xB: _SIZE32, 0xC: _SIZE8, 0xD: _SIZE32, 0xE: _SIZE8, 0xF: _SIZE32}


def _width_of(code: int) -> int:
    if code == 0:
        return _DESCRIBED
    if code not in _BY_CODE:
        return _UNASSIGNED
    return (_FIXED_WIDTHS | _SIZED_WIDTHS)[code >> 4]


WIDTHS: list[int] = [_width_of(code) for code in range(256)]
