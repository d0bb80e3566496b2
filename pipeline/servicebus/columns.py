"""Columns of a DataFrame that is written, and what of a message each of them is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DayTimeIntervalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from pipeline.servicebus.errors import ColumnRefused, RowNotSent
from shared.domain.envelope import TTL_FOREVER_MS
from shared.domain.message import (
    PARTITION_KEY,
    SCHEDULED_ENQUEUE_TIME,
    DataBody,
    Header,
    Message,
    Properties,
    Typed,
)

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_TEXT = (StringType,)
_NUMBERS = (ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType)
#: Each column with the types it may have.
COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    "body": (StringType, BinaryType),
    "entity": _TEXT,
    "message_id": _TEXT,
    "session_id": _TEXT,
    "partition_key": _TEXT,
    "subject": _TEXT,
    "content_type": _TEXT,
    "correlation_id": _TEXT,
    "reply_to": _TEXT,
    "reply_to_session_id": _TEXT,
    "to": _TEXT,
    "time_to_live": (*_NUMBERS, DayTimeIntervalType),
    "scheduled_enqueue_time": (TimestampType,),
    "application_properties": (MapType,),
}
_PROPERTY_VALUES = (StringType, BinaryType, BooleanType, TimestampType, *_NUMBERS)
#: Columns that are properties of the message by another name.
_PROPERTIES = {
    "subject": "subject",
    "content_type": "content_type",
    "correlation_id": "correlation_id",
    "reply_to": "reply_to",
    "reply_to_session_id": "reply_to_group_id",
    "to": "to",
    "session_id": "group_id",
}
_KINDS: dict[type[DataType], str] = {
    LongType: "long",
    IntegerType: "int",
    ShortType: "short",
    ByteType: "byte",
    FloatType: "float",
}


@dataclass(frozen=True, kw_only=True)
class Columns:
    names: tuple[str, ...]
    #: The AMQP type of application properties, where Python's own type of the value does not tell it.
    property_kind: str | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row on its way: `number` counts within its Spark partition, from 0."""

    number: int
    entity: str
    message_id: str
    message: Message


def check_columns(schema: StructType, *, entity: str | None, derives_ids: bool, how: str) -> Columns:
    """ColumnRefused names the first thing to change; `how` says what an id could come from besides its column."""
    types = {field.name: field.dataType for field in schema.fields}
    for name, found in types.items():
        if name not in COLUMNS:
            raise ColumnRefused(f"column {name} is not known; drop it or rename it: known are {', '.join(COLUMNS)}")
        if not isinstance(found, COLUMNS[name]):
            takes = " or ".join(kind.typeName() for kind in COLUMNS[name])
            raise ColumnRefused(f"column {name} is of type {found.simpleString()}; it takes {takes}")
    if "body" not in types:
        raise ColumnRefused("there is no column body; a message has one, of type string or binary (null: no body)")
    if ("entity" in types) == (entity is not None):
        both = "are both given; keep one of them" if entity is not None else "are both missing; give one of them"
        raise ColumnRefused(f"option entity and column entity {both}: they name the queue or topic to send to")
    if "message_id" not in types and not derives_ids:
        raise ColumnRefused(how)
    return Columns(names=tuple(types), property_kind=_property_kind(types.get("application_properties")))


def _property_kind(found: DataType | None) -> str | None:
    if found is None:
        return None
    assert isinstance(found, MapType)
    if not isinstance(found.keyType, StringType) or not isinstance(found.valueType, _PROPERTY_VALUES):
        raise ColumnRefused(
            f"column application_properties is of type {found.simpleString()}; it takes a map from string to "
            + ", ".join(kind.typeName() for kind in _PROPERTY_VALUES)
        )
    return _KINDS.get(type(found.valueType))


@dataclass(frozen=True, kw_only=True)
class Ids:
    """Where the rows' ids and entities come from when no column tells."""

    #: Followed by the row's number; None: a row without an id is refused.
    prefix: str | None
    entity: str | None
    partition: int


def rows_of(batch: RecordBatch, first: int, columns: Columns, ids: Ids) -> Iterator[Row]:
    values = [batch.column(index).to_pylist() for index in range(batch.num_columns)]
    for number, cells in enumerate(zip(*values, strict=True), start=first):
        yield row_of(dict(zip(columns.names, cells, strict=True)), number, columns, ids)


def row_of(cells: Mapping[str, Any], number: int, columns: Columns, ids: Ids) -> Row:
    where = f"row {number} of partition {ids.partition}"
    message_id = cells.get("message_id")
    if message_id is None:
        if ids.prefix is None:
            raise RowNotSent(f"{where} has no message_id; without one a retried task would send it under a new id")
        message_id = f"{ids.prefix}-{number}"
    entity = cells.get("entity") or ids.entity
    if entity is None:
        raise RowNotSent(f"{where}, message id '{message_id}', has no entity")
    try:
        message = _message(cells, message_id, columns)
    except ValueError as error:
        raise RowNotSent(f"{where}, message id '{message_id}', was not sent: {error}") from None
    return Row(number=number, entity=entity, message_id=message_id, message=message)


def _message(cells: Mapping[str, Any], message_id: str, columns: Columns) -> Message:
    body = cells["body"]
    properties = {field: cells[name] for name, field in _PROPERTIES.items() if cells.get(name) is not None}
    annotations = {
        PARTITION_KEY: cells.get("partition_key"),
        SCHEDULED_ENQUEUE_TIME: _timestamp(cells.get("scheduled_enqueue_time")),
    }
    return Message(
        body=None if body is None else DataBody((body.encode() if isinstance(body, str) else bytes(body),)),
        header=Header(time_to_live_ms=_time_to_live_ms(cells.get("time_to_live"))),
        properties=Properties(message_id=message_id, **properties),
        annotations={name: value for name, value in annotations.items() if value is not None},
        application_properties=_application_properties(cells.get("application_properties"), columns.property_kind),
    )


def _timestamp(value: datetime | None) -> Typed | None:
    return None if value is None else Typed("timestamp", round(value.timestamp() * 1000))


def _time_to_live_ms(value: float | timedelta | None) -> int | None:
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not 0 < seconds <= timedelta.max.total_seconds():
        raise ValueError("its time_to_live is not a number of seconds above 0")
    return min(max(int(seconds * 1000), 1), TTL_FOREVER_MS)


def _application_properties(pairs: Any, kind: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs or ():
        if value is None:
            found[name] = None
        elif isinstance(value, datetime):
            found[name] = _timestamp(value)
        else:
            found[name] = value if kind is None else Typed(kind, value)
    return found
