"""The columns of a record: the fields of all events of shared/telemetry_events.py side by side, null where not used.

Spelled out, so that a reader of the tables sees them here; a test compares them with the events.
"""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

#: The version of the contract that this pipeline reads. Fields that it does not know are ignored.
VERSION = 1
#: Columns that every record has.
HEAD = ("v", "event", "instance", "seq", "at")
#: The text of a line that is no record; a column of what was parsed, not of an event.
BROKEN = "broken"
#: Why a line is no record, or null.
PROBLEM = "problem"
#: Where a line was read.
FILE = "file"


def _struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


_text, _long, _double, _flag, _time = StringType(), LongType(), DoubleType(), BooleanType(), TimestampType()

EVENTS = _struct(
    # every record
    v=_long,
    event=_text,
    instance=_text,
    seq=_long,
    at=_time,
    # messages and where they are
    path=_text,
    message_id=_text,
    backlog_queue=_text,
    queue=_text,
    subscription=_text,
    sequence_number=_long,
    enqueued_at=_time,
    delivery_count=_long,
    body_bytes=_long,
    key_hash=_text,
    partition=_long,
    # how it went
    seconds=_double,
    waited_seconds=_double,
    attempt=_long,
    possible_duplicate=_flag,
    indefinite=_flag,
    succeeded=_flag,
    pings=_long,
    messages=_long,
    events=_long,
    # why
    reason=_text,
    description=_text,
    failure=_text,
    detail=_text,
    # states
    before=_text,
    after=_text,
    side=_text,
    by=_text,
    in_rotation=_flag,
    reachable=_flag,
    since=_time,
    until=_time,
    # the writer
    flush_seconds=_double,
    backlog_queue_count=_long,
    ping_primary_interval_seconds=_double,
)

#: What the JSON reader is asked for: the columns of a record, and the line itself where it is none.
LINES = StructType([*EVENTS.fields, StructField(BROKEN, _text)])

#: Every line as it is kept in Parquet: parsed, with what is wrong with it and where it was read.
COMPACTED = StructType([*LINES.fields, StructField(PROBLEM, _text), StructField(FILE, _text)])

#: Records that came too late for a live view.
LATE = StructType([COMPACTED[name] for name in (FILE, *HEAD, "path", "message_id")])

#: Lines that are no records, kept aside.
QUARANTINE = _struct(file=_text, line=_text, reason=_text)
