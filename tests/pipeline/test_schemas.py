"""The columns of records are the fields of the events, and neither can change without the other."""

from __future__ import annotations

import dataclasses
import types
import typing
from datetime import datetime

from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, TimestampType

from pipeline.schemas import EVENTS, HEAD, VERSION
from shared.telemetry_events import SCHEMA_VERSION, TelemetryEvent

COLUMN_OF: dict[type, DataType] = {
    str: StringType(),
    int: LongType(),
    float: DoubleType(),
    bool: BooleanType(),
    datetime: TimestampType(),
}


def plain(hint: object) -> type:
    """EntityPath | None is str to a table."""
    if typing.get_args(hint):
        (hint,) = [one for one in typing.get_args(hint) if one is not types.NoneType]
    hint = getattr(hint, "__supertype__", hint)
    assert isinstance(hint, type)
    return hint


def test_every_field_of_every_event_has_a_column_of_its_type() -> None:
    fields = {
        (field.name, COLUMN_OF[plain(typing.get_type_hints(kind)[field.name])])
        for kind in typing.get_args(TelemetryEvent)
        for field in dataclasses.fields(kind)
    }
    columns = {(column.name, column.dataType) for column in EVENTS.fields if column.name not in HEAD[:-1]}
    assert fields == columns


def test_the_version_is_the_contracts() -> None:
    assert VERSION == SCHEMA_VERSION
