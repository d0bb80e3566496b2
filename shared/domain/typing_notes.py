"""Notes on AMQP types that a receiver would otherwise lose.

The SDK decodes strings, symbols and binary all to bytes, every number to int or float, timestamps to milliseconds, and
drops descriptors. A message that waits in a backlog queue therefore carries a note of the types that cannot be guessed,
so that it can be sent on exactly as it was. `note_of` writes a note, `apply_note` gives decoded values their types.

A note is JSON: the name of a scalar type; `["list", items]` or `["map", pairs]`, where items is one note for all
elements or a list of one for each; `["described", descriptor, note]`. No note (null) means the type is what `guess`
makes of the decoded value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from shared.domain.message import AmqpValue, Described, Typed

Note: TypeAlias = Any

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MAX = 2**63 - 1
TIMESPAN = "com.microsoft:timespan"
TICKS_PER_MICROSECOND = 10  # .NET counts time in tenths of a microsecond


def ticks(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * TICKS_PER_MICROSECOND


def note_of(value: AmqpValue) -> Note:
    """What to remember of a value's type; None where a receiver guesses it right."""
    match value:
        case None | bool() | str() | float() | int():
            return None
        case bytes() | bytearray():
            return "binary"
        case datetime():
            return "timestamp"
        case Decimal():
            return "decimal128"
        case timedelta():
            return ["described", TIMESPAN, "long"]
        case Typed(kind=kind, value=inner):
            return _note_of_typed(kind, inner)
        case Described(descriptor=descriptor, value=inner):
            return ["described", descriptor, note_of(inner)]
        case list() | tuple():
            return ["list", _items_note([note_of(item) for item in value])]
        case dict():
            return ["map", _items_note([[note_of(key), note_of(item)] for key, item in value.items()])]
        case _:
            return None  # a UUID, which comes back as one


def readable(value: AmqpValue) -> AmqpValue:
    """The value with decimals as text: the SDK writes them, but a message that holds one cannot be received by it."""
    match value:
        case Decimal():
            return str(value)
        case Typed(kind="decimal128", value=inner):
            return str(inner)
        case Typed(kind="array", value=items) if any(note_of(item) == "decimal128" for item in items):
            return [readable(item) for item in items]
        case Described(descriptor=descriptor, value=inner):
            return Described(descriptor, readable(inner))
        case list() | tuple():
            return [readable(item) for item in value]
        case dict():
            return {readable(key): readable(item) for key, item in value.items()}
        case _:
            return value


def _note_of_typed(kind: str, inner: AmqpValue) -> Note:
    if kind == "long" and not INT_MIN <= inner <= INT_MAX:
        return None
    if kind == "array":
        return ["array", _items_note([note_of(item) for item in inner])]
    return kind


def _items_note(notes: list[Note]) -> Note:
    """One note for all where they agree, which keeps the note of a long list short."""
    if all(note == notes[0] for note in notes[1:]):
        return {"each": notes[0]} if notes else None
    return notes


def notes_of(section: Mapping[str, AmqpValue]) -> dict[str, Note]:
    """The notes of a map section, only where there is something to note."""
    return {name: note for name, value in section.items() if (note := note_of(value)) is not None}


def guess(value: AmqpValue) -> AmqpValue:
    """The likeliest type of a decoded value: text where bytes are text, a long where an int is too small.

    What is too large for a long was an unsigned one, and as anything else it could not be sent.
    """
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return value
        case bool():
            return value
        case int() if value > LONG_MAX:
            return Typed("ulong", value)
        case int() if not INT_MIN <= value <= INT_MAX:
            return Typed("long", value)
        case list():
            return [guess(item) for item in value]
        case dict():
            return {guess(key): guess(item) for key, item in value.items()}
        case _:
            return value


def apply_note(note: Note, value: AmqpValue) -> AmqpValue:
    """The decoded value with its type as the note says; ValueError when the note is not one of ours."""
    match note:
        case None:
            return guess(value)
        case "binary":
            return value
        case "symbol":
            return Typed(note, value.decode())
        case "decimal128":
            return Typed(note, _decimal(value))
        case str():
            return Typed(note, value)
        case ["described", str() as descriptor, inner]:
            return Described(descriptor, apply_note(inner, value))
        case ["list", items]:
            return [apply_note(one, item) for one, item in _pair_up(items, value)]
        case ["array", items]:
            return Typed("array", [apply_note(one, item) for one, item in _pair_up(items, value)])
        case ["map", items]:
            pairs = _pair_up(items, list(value.items()))
            return {apply_note(key_note, key): apply_note(one, item) for (key_note, one), (key, item) in pairs}
        case _:
            raise ValueError(f"not a note on AMQP types: {note!r}")


def _decimal(value: AmqpValue) -> Decimal:
    try:
        return Decimal(value.decode())
    except ArithmeticError:
        raise ValueError("a note on AMQP types speaks of a decimal that is none") from None


def _pair_up(items: Note, values: Sequence[AmqpValue]) -> list[tuple[Note, AmqpValue]]:
    match items:
        case None:
            return [(None, value) for value in values]
        case {"each": note}:
            return [(note, value) for value in values]
        case list() if len(items) == len(values):
            return list(zip(items, values, strict=True))
        case _:
            raise ValueError(f"a note on AMQP types does not fit its value: {len(values)} elements")
