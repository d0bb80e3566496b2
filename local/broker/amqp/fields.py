"""Typed fields of described lists (part 1, section 1.4): one reader and one writer per field type.

A reader takes the offset of a constructor and gives (plain Python value or None for null, next offset); a field of
another type is a DecodeError. Readers may raise IndexError, struct.error or UnicodeDecodeError on short or bad
input: whoever starts reading wraps the call in `reading`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from struct import Struct
from typing import Any, NamedTuple

from local.broker.amqp.decoding import check_compound, decode_at
from local.broker.amqp.encoding import encode, encode_string, encode_symbol, encode_uint, encode_ulong
from local.broker.amqp.errors import DecodeError, EncodeError
from local.broker.amqp.types import Array, Symbol, ULong

Reader = Callable[[bytes, int], tuple[Any, int]]
Writer = Callable[[Any], bytes]

NULL = b"\x40"

_u16 = Struct(">H").unpack_from
_u32 = Struct(">I").unpack_from
_u64 = Struct(">Q").unpack_from
_i64 = Struct(">q").unpack_from
_two_u32 = Struct(">II").unpack_from


class FieldType(NamedTuple):
    """How one kind of field is read and written; the writer is never given None."""

    read: Reader
    write: Writer


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn the ways in which short or garbled input surfaces into one DecodeError that names what was read."""
    try:
        yield
    except (IndexError, struct.error):
        raise DecodeError(f"{what} ends before its last octet") from None
    except UnicodeDecodeError:
        raise DecodeError(f"{what} holds a string that is not valid UTF-8") from None


def _wrong(expected: str, code: int) -> DecodeError:
    return DecodeError(f"constructor 0x{code:02x} where {expected} is due")


def read_boolean(buf: bytes, pos: int) -> tuple[Any, int]:
    code = buf[pos]
    if code == 0x42:
        return False, pos + 1
    if code == 0x41:
        return True, pos + 1
    if code == 0x40:
        return None, pos + 1
    if code == 0x56 and buf[pos + 1] < 2:
        return buf[pos + 1] == 1, pos + 2
    raise _wrong("a boolean", code)


def read_ubyte(buf: bytes, pos: int) -> tuple[Any, int]:
    code = buf[pos]
    if code == 0x50:
        return buf[pos + 1], pos + 2
    if code == 0x40:
        return None, pos + 1
    raise _wrong("a ubyte", code)


def read_ushort(buf: bytes, pos: int) -> tuple[Any, int]:
    code = buf[pos]
    if code == 0x60:
        return _u16(buf, pos + 1)[0], pos + 3
    if code == 0x40:
        return None, pos + 1
    raise _wrong("a ushort", code)


def read_uint(buf: bytes, pos: int) -> tuple[Any, int]:
    code = buf[pos]
    if code == 0x52:
        return buf[pos + 1], pos + 2
    if code == 0x43:
        return 0, pos + 1
    if code == 0x70:
        return _u32(buf, pos + 1)[0], pos + 5
    if code == 0x40:
        return None, pos + 1
    raise _wrong("a uint", code)


def read_ulong(buf: bytes, pos: int) -> tuple[Any, int]:
    code = buf[pos]
    if code == 0x53:
        return buf[pos + 1], pos + 2
    if code == 0x44:
        return 0, pos + 1
    if code == 0x80:
        return _u64(buf, pos + 1)[0], pos + 9
    if code == 0x40:
        return None, pos + 1
    raise _wrong("a ulong", code)


def read_timestamp(buf: bytes, pos: int) -> tuple[Any, int]:
    code = buf[pos]
    if code == 0x83:
        return _i64(buf, pos + 1)[0], pos + 9
    if code == 0x40:
        return None, pos + 1
    raise _wrong("a timestamp", code)


def _octets(buf: bytes, pos: int, code8: int, code32: int, expected: str) -> tuple[bytes | None, int]:
    code = buf[pos]
    if code == code8:
        start = pos + 2
        end = start + buf[pos + 1]
    elif code == 0x40:
        return None, pos + 1
    elif code == code32:
        start = pos + 5
        end = start + _u32(buf, pos + 1)[0]
    else:
        raise _wrong(expected, code)
    if end > len(buf):
        raise DecodeError("a declared size reaches beyond the data")
    return buf[start:end], end


def read_binary(buf: bytes, pos: int) -> tuple[Any, int]:
    return _octets(buf, pos, 0xA0, 0xB0, "a binary")


def read_string(buf: bytes, pos: int) -> tuple[Any, int]:
    octets, pos = _octets(buf, pos, 0xA1, 0xB1, "a string")
    return (None if octets is None else octets.decode()), pos


def read_symbol(buf: bytes, pos: int) -> tuple[Any, int]:
    octets, pos = _octets(buf, pos, 0xA3, 0xB3, "a symbol")
    return (None if octets is None else octets.decode()), pos


def read_symbols(buf: bytes, pos: int) -> tuple[Any, int]:
    """A field with multiple="true": null, one symbol or an array of symbols (part 1, section 1.4)."""
    value, pos = decode_at(buf, pos)
    if value is None:
        return None, pos
    if isinstance(value, Symbol):
        return (str(value),), pos
    if isinstance(value, Array) and all(isinstance(item, Symbol) for item in value):
        return tuple(str(item) for item in value), pos
    raise DecodeError("a field of symbols holds something else")


def read_map(buf: bytes, pos: int) -> tuple[Any, int]:
    value, pos = decode_at(buf, pos)
    if value is None or isinstance(value, dict):
        return value, pos
    raise DecodeError("a map field holds something else")


def read_any(buf: bytes, pos: int) -> tuple[Any, int]:
    return decode_at(buf, pos)


def read_message_id(buf: bytes, pos: int) -> tuple[Any, int]:
    """A message-id keeps its AMQP type: replies must repeat it exactly."""
    code = buf[pos]
    if code in (0xA1, 0xB1):
        return read_string(buf, pos)
    if code in (0x40, 0x44, 0x53, 0x80, 0x98, 0xA0, 0xB0):
        return decode_at(buf, pos)
    raise _wrong("a message id", code)


def read_fields(buf: bytes, pos: int, readers: Sequence[Reader]) -> tuple[list[Any], int]:
    """The elements of the list at `pos`; fields left off at its end are None (part 1, section 1.4)."""
    code = buf[pos]
    if code == 0xC0:
        end = pos + 2 + buf[pos + 1]
        count = buf[pos + 2]
        pos += 3
    elif code == 0x45:
        return [None] * len(readers), pos + 1
    elif code == 0xD0:
        size, count = _two_u32(buf, pos + 1)
        end = pos + 5 + size
        pos += 9
    else:
        raise _wrong("a list", code)
    check_compound(buf, end, count, 0)
    missing = len(readers) - count
    if missing < 0:
        raise DecodeError(f"{count} fields where at most {len(readers)} are defined")
    values = []
    for _, reader in zip(range(count), readers, strict=False):
        value, pos = reader(buf, pos)
        values.append(value)
    if pos != end:
        raise DecodeError("a list's size does not fit its fields")
    if missing:
        values.extend([None] * missing)
    return values, pos


def read_descriptor(buf: bytes, pos: int, codes_by_symbol: dict[str, int]) -> tuple[int | None, int]:
    """The numeric descriptor of the described value at `pos` (None = unknown) and the offset of its value."""
    if buf[pos] != 0:
        raise _wrong("a described value", buf[pos])
    if buf[pos + 1] == 0x53:
        return buf[pos + 2], pos + 3
    descriptor, pos = decode_at(buf, pos + 1)
    if isinstance(descriptor, ULong):
        return int(descriptor), pos
    if isinstance(descriptor, Symbol):
        return codes_by_symbol.get(descriptor), pos
    return None, pos


def _write_ranged(layout: str, code: int) -> Writer:
    pack = Struct(">B" + layout).pack

    def write(value: int) -> bytes:
        try:
            return pack(code, value)
        except struct.error:
            raise EncodeError(f"{value!r} does not fit the field") from None

    return write


def _checked(write: Callable[[int], bytes]) -> Writer:
    def checked(value: int) -> bytes:
        try:
            return write(value)
        except struct.error:
            raise EncodeError(f"{value!r} does not fit the field") from None

    return checked


def write_boolean(value: bool) -> bytes:
    return b"\x41" if value else b"\x42"


def _write_symbols(value: Sequence[str]) -> bytes:
    return encode(Array([Symbol(item) for item in value], 0xB3)) if value else NULL


def write_symbol_map(value: dict[Any, Any]) -> bytes:
    """The `fields` type: plain string keys are written as the symbols the type demands."""
    return encode({Symbol(key) if type(key) is str else key: item for key, item in value.items()})


BOOLEAN = FieldType(read_boolean, write_boolean)
UBYTE = FieldType(read_ubyte, _write_ranged("B", 0x50))
USHORT = FieldType(read_ushort, _write_ranged("H", 0x60))
UINT = FieldType(read_uint, _checked(encode_uint))
ULONG = FieldType(read_ulong, _checked(encode_ulong))
TIMESTAMP = FieldType(read_timestamp, _write_ranged("q", 0x83))
BINARY = FieldType(read_binary, encode)
STRING = FieldType(read_string, encode_string)
SYMBOL = FieldType(read_symbol, encode_symbol)
SYMBOLS = FieldType(read_symbols, _write_symbols)
FIELDS = FieldType(read_map, write_symbol_map)
MAP = FieldType(read_map, encode)
ANY = FieldType(read_any, encode)
MESSAGE_ID = FieldType(read_message_id, encode)
