"""Long texts in table rows: compressed, and cut to what one property may hold.

A row may be 1 MiB with 64 KiB per binary property, a transaction 4 MiB; see "Understanding the Table service
data model" in Microsoft's documentation.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

PROPERTY_BYTES = 60_000
PROPERTIES_PER_ROW = 12
ROW_BYTES = PROPERTY_BYTES * PROPERTIES_PER_ROW
TEXT_LIMIT_BYTES = PROPERTY_BYTES * 4
TURN_LIMIT_ROWS = 4


class TooLarge(Exception):
    """More than one row or one transaction can hold."""


def cut(data: bytes, size: int) -> list[bytes]:
    """`data` in pieces of at most `size` bytes."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def pack_text(prefix: str, text: str | None) -> dict[str, bytes]:
    """Properties that hold a text; none for None."""
    if text is None:
        return {}
    data = zlib.compress(text.encode("utf-8"), 1)
    if len(data) > TEXT_LIMIT_BYTES:
        raise TooLarge(f"{prefix.lower()} is too large: {len(data)} bytes compressed, at most {TEXT_LIMIT_BYTES}")
    return {f"{prefix}{index}": piece for index, piece in enumerate(cut(data, PROPERTY_BYTES))}


def unpack_text(prefix: str, row: Mapping[str, Any]) -> str | None:
    """The text that pack_text wrote."""
    pieces: list[bytes] = []
    while (piece := row.get(f"{prefix}{len(pieces)}")) is not None:
        pieces.append(piece)
    return zlib.decompress(b"".join(pieces)).decode("utf-8") if pieces else None


def pack_rows(text: str) -> list[dict[str, bytes]]:
    """Properties of as many rows as a text needs."""
    data = zlib.compress(text.encode("utf-8"), 1)
    rows = [
        {f"Data{index}": piece for index, piece in enumerate(cut(row, PROPERTY_BYTES))} for row in cut(data, ROW_BYTES)
    ]
    if len(rows) > TURN_LIMIT_ROWS:
        raise TooLarge(f"one turn's history is too large: {len(data)} bytes compressed")
    return rows


def unpack_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """The text that pack_rows wrote, from all its rows in order."""
    pieces: list[bytes] = []
    for row in rows:
        index = 0
        while (piece := row.get(f"Data{index}")) is not None:
            pieces.append(piece)
            index += 1
    return zlib.decompress(b"".join(pieces)).decode("utf-8")
