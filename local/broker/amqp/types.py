"""Python forms of the AMQP 1.0 types that Python itself does not tell apart (part 1, section 1.6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class _Integer(int):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"


class UByte(_Integer):
    __slots__ = ()


class UShort(_Integer):
    __slots__ = ()


class UInt(_Integer):
    __slots__ = ()


class ULong(_Integer):
    __slots__ = ()


class Byte(_Integer):
    __slots__ = ()


class Short(_Integer):
    __slots__ = ()


class Int(_Integer):
    __slots__ = ()


class Timestamp(_Integer):
    """Milliseconds since the Unix epoch."""

    __slots__ = ()


class Float32(float):
    """IEEE 754 binary32; a plain float is a double."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Float32({float(self)!r})"


class Char(str):
    """One Unicode scalar value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Char({str(self)!r})"


class Symbol(str):
    """A name from a constrained domain; equal to the plain string of the same text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Symbol({str(self)!r})"


class _Decimal(bytes):
    """A decimal kept as its wire octets: the broker passes it on and never computes with it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({bytes(self)!r})"


class Decimal32(_Decimal):
    __slots__ = ()


class Decimal64(_Decimal):
    __slots__ = ()


class Decimal128(_Decimal):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Described:
    """A value annotated by a descriptor the engine has no class for."""

    descriptor: Any
    value: Any


class Array(list[Any]):
    """Elements of one type. `code` is the element constructor; None = the widest form of the first element's type."""

    __slots__ = ("code", "descriptor")

    def __init__(self, items: Iterable[Any] = (), code: int | None = None, descriptor: Any = None) -> None:
        super().__init__(items)
        self.code = code
        self.descriptor = descriptor

    def __repr__(self) -> str:
        code = "None" if self.code is None else f"{self.code:#04x}"
        return f"Array({list(self)!r}, code={code}, descriptor={self.descriptor!r})"
