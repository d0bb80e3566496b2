"""Columns of a DataFrame and the message that a row becomes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
)

from pipeline.servicebus.columns import Columns, Ids, check_columns, row_of
from pipeline.servicebus.errors import ColumnRefused, RowNotSent
from pipeline.servicebus.writing import HOW_TO_NAME_ROWS
from shared.domain.message import DataBody, Header, Message, Properties, Typed

NAMED = Ids(prefix="run-3", entity="orders", partition=3)
STRICT = Ids(prefix=None, entity="orders", partition=3)
COLUMNS = Columns(names=("body",))


TYPES = {
    "string": StringType(),
    "long": LongType(),
    "int": IntegerType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "timestamp_ntz": TimestampNTZType(),
    "int array": ArrayType(IntegerType()),
}


def check(columns: str, *, properties: str | None = None, entity: str | None = "orders") -> Columns:
    """Columns as `name type, ...`, and the type of application properties if there are any."""
    schema = StructType()
    for column in columns.split(", "):
        name, kind = column.split(" ")
        schema = schema.add(name, TYPES[kind])
    if properties is not None:
        schema = schema.add("application_properties", MapType(StringType(), TYPES[properties]))
    return check_columns(schema, entity=entity, derives_ids=False, how=HOW_TO_NAME_ROWS)


@pytest.mark.parametrize(
    ("schema", "entity", "complaint"),
    [
        ("body string, message_id string, sequence_number long", "orders", "column sequence_number is not known; drop"),
        ("message_id string", "orders", "there is no column body"),
        ("body string", "orders", "there is no column message_id; a task that Spark runs again would send its rows"),
        ("body long, message_id string", "orders", "column body is of type bigint; it takes string or binary"),
        ("body string, message_id long", "orders", "column message_id is of type bigint; it takes string"),
        ("body string, message_id string", None, "option entity and column entity are both missing"),
        ("body string, message_id string, entity string", "orders", "option entity and column entity are both given"),
        ("body string, message_id string, scheduled_enqueue_time timestamp_ntz", "orders", "it takes timestamp"),
    ],
)
def test_a_column_that_has_no_place_in_a_message_is_refused_by_name(
    schema: str, entity: str | None, complaint: str
) -> None:
    with pytest.raises(ColumnRefused, match=complaint):
        check(schema, entity=entity)


def test_application_properties_of_a_type_that_amqp_maps_do_not_take_here_are_refused() -> None:
    complaint = "column application_properties is of type map<string,array<int>>; it takes a map from string to"
    with pytest.raises(ColumnRefused, match=complaint):
        check("body string, message_id string", properties="int array")


def test_the_ids_of_rows_come_from_their_column_or_from_where_they_are() -> None:
    assert "m" == row_of({"body": "x", "message_id": "m"}, 7, COLUMNS, NAMED).message_id
    assert "run-3-7" == row_of({"body": "x", "message_id": None}, 7, COLUMNS, NAMED).message_id
    with pytest.raises(RowNotSent, match="row 7 of partition 3 has no message_id"):
        row_of({"body": "x", "message_id": None}, 7, COLUMNS, STRICT)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"body": "ż"}, {"body": DataBody(("ż".encode(),))}),
        ({"body": None}, {}),
        ({"body": None, "time_to_live": 1.5}, {"header": Header(time_to_live_ms=1500)}),
        ({"body": None, "time_to_live": timedelta(minutes=1)}, {"header": Header(time_to_live_ms=60_000)}),
        ({"body": None, "partition_key": "k"}, {"annotations": {"x-opt-partition-key": "k"}}),
        (
            {"body": None, "scheduled_enqueue_time": datetime(2030, 1, 1, tzinfo=UTC)},
            {"annotations": {"x-opt-scheduled-enqueue-time": Typed("timestamp", 1_893_456_000_000)}},
        ),
    ],
)
def test_a_cell_becomes_its_part_of_the_message(cells: dict[str, Any], expected: dict[str, Any]) -> None:
    row = row_of({"message_id": "m", **cells}, 0, COLUMNS, STRICT)
    assert Message(properties=Properties(message_id="m"), **expected) == row.message


def test_application_properties_keep_the_type_of_their_column() -> None:
    for kind, value, expected in (
        ("string", "5", "5"),
        ("long", 5, Typed("long", 5)),
        ("int", 5, Typed("int", 5)),
        ("double", 0.5, 0.5),
        ("boolean", True, True),
        ("binary", b"\xff", b"\xff"),
    ):
        columns = check("body string, message_id string", properties=kind)
        cells = {"body": None, "message_id": "m", "application_properties": [("name", value), ("none", None)]}
        message = row_of(cells, 0, columns, STRICT).message
        assert {"name": expected, "none": None} == message.application_properties


@pytest.mark.parametrize("time_to_live", [0, -1.0, float("nan"), timedelta(0)])
def test_a_time_to_live_that_is_none_fails_the_row_by_its_id(time_to_live: Any) -> None:
    with pytest.raises(RowNotSent, match="message id 'm', was not sent: its time_to_live is not a number of seconds"):
        row_of({"body": "secret body", "message_id": "m", "time_to_live": time_to_live}, 0, COLUMNS, STRICT)
