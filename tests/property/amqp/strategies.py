"""Every AMQP value there is."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

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


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)

#: One strategy per primitive type, so that arrays can be of one of them.
PRIMITIVES: list[st.SearchStrategy[Any]] = [
    st.none(),
    st.booleans(),
    _unsigned(8).map(UByte),
    _unsigned(16).map(UShort),
    _unsigned(32).map(UInt),
    _unsigned(64).map(ULong),
    _signed(8).map(Byte),
    _signed(16).map(Short),
    _signed(32).map(Int),
    _signed(64),
    _signed(64).map(Timestamp),
    st.floats(width=32, allow_nan=False).map(Float32),
    st.floats(allow_nan=False),
    st.characters(exclude_categories=["Cs"]).map(Char),
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.binary(min_size=16, max_size=16).map(Decimal128),
    st.uuids(),
    st.binary(max_size=300),
    _TEXT,
    _TEXT.map(Symbol),
]
primitives = st.one_of(PRIMITIVES)
arrays = st.one_of([st.lists(primitive, max_size=20).map(Array) for primitive in PRIMITIVES])
# Python takes 1, 1.0, True and UInt(1) for one key, AMQP does not: text keys avoid the difference.
values: st.SearchStrategy[Any] = st.recursive(
    primitives | arrays,
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(_TEXT | _TEXT.map(Symbol), inner, max_size=6)
        | st.builds(Described, _unsigned(64).map(ULong) | _TEXT.map(Symbol), inner)
        | st.lists(st.lists(inner, max_size=3), min_size=1, max_size=3).map(Array)
    ),
    max_leaves=25,
)


def identical(left: Any, right: Any) -> bool:
    """Equal in value and in every type, all the way down; floats by their bits."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(identical, left, right))
    if isinstance(left, dict):
        return identical(list(left), list(right)) and identical(list(left.values()), list(right.values()))
    if isinstance(left, Described):
        return identical(left.descriptor, right.descriptor) and identical(left.value, right.value)
    if isinstance(left, float):
        return struct.pack(">d", left) == struct.pack(">d", right)
    return bool(left == right)
