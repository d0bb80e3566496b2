"""Fields of a `$management` request, checked: whatever is missing or of the wrong type is refused by its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from .amqp.types import Array, Timestamp
from .errors import ARGUMENT_ERROR, BrokerError

BATCH_ITEMS_MAX = 4000
_ARRAY_TIMESTAMP = 0x83

Body = dict[str, Any]


def required(body: Body, name: str, kind: type | tuple[type, ...]) -> Any:
    value = body.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise BrokerError(ARGUMENT_ERROR, f"'{name}' is missing or has the wrong type.")
    return value


def optional(body: Body, name: str, kind: type) -> Any:
    return None if body.get(name) is None else required(body, name, kind)


def read_numbers(body: Body) -> list[int]:
    values = required(body, "sequence-numbers", list)
    if len(values) > BATCH_ITEMS_MAX or any(not isinstance(v, int) or isinstance(v, bool) for v in values):
        raise BrokerError(ARGUMENT_ERROR, f"'sequence-numbers' must be at most {BATCH_ITEMS_MAX} whole numbers.")
    return list(values)


def read_tokens(body: Body) -> list[bytes]:
    values = required(body, "lock-tokens", list)
    if len(values) > BATCH_ITEMS_MAX or any(not isinstance(v, UUID) for v in values):
        raise BrokerError(ARGUMENT_ERROR, f"'lock-tokens' must be at most {BATCH_ITEMS_MAX} uuids.")
    return [value.bytes_le for value in values]


def read_count(body: Body, name: str, limit: int) -> int:
    return max(0, min(int(required(body, name, int)), limit))


def instants(values: Iterable[float]) -> Array:
    return Array([Timestamp(int(value * 1000)) for value in values], code=_ARRAY_TIMESTAMP)
