"""AMQP values as JSON: what a receiver's decoder would leave of them, in a form that can be written into a note.

Delivery annotations belong to one delivery (AMQP messaging 3.2.2), and a message that is only looked at has none: what
a sender wrote there is noted beside its types, so that it can be restored however the message was read.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from shared.domain.message import AmqpValue, Described, Typed
from shared.domain.typing_notes import ticks

Plain = Any
_MILLISECOND = timedelta(milliseconds=1)


def plain(value: AmqpValue) -> Plain:
    """JSON for the value; its AMQP type is noted elsewhere."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return {"b": value.encode().hex()}
        case bytes() | bytearray():
            return {"b": bytes(value).hex()}
        case datetime():
            return (value - datetime.fromtimestamp(0, value.tzinfo)) // _MILLISECOND
        case timedelta():
            return ticks(value)
        case Decimal():
            return plain(str(value))
        case Typed(value=inner) | Described(value=inner):
            return plain(inner)
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            return {"m": [[plain(key), plain(item)] for key, item in value.items()]}
        case _:
            return {"u": str(value)}  # a UUID


def decoded(value: Plain) -> AmqpValue:
    """The value as a receiver would have decoded it; ValueError when it is not of our writing."""
    match value:
        case None | bool() | int() | float():
            return value
        case {"b": str() as text}:
            return bytes.fromhex(text)
        case {"u": str() as text}:
            return Typed("uuid", text)
        case {"m": list() as pairs}:
            return {decoded(key): decoded(item) for key, item in pairs}
        case list():
            return [decoded(item) for item in value]
        case _:
            raise ValueError("not a value of a note")
