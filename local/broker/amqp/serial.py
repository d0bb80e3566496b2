"""Sequence numbers that wrap at 2**32 (part 2, section 2.8.10, after RFC 1982)."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_HALF = 0x80000000


def serial_add(number: int, amount: int) -> int:
    return (number + amount) & _MASK


def serial_difference(left: int, right: int) -> int:
    """left - right, taken as the shorter way round: from -2**31 to 2**31 - 1."""
    difference = (left - right) & _MASK
    return difference - (_MASK + 1) if difference >= _HALF else difference
