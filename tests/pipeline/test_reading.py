"""Published files are read whole; what is no record is kept aside with its reason."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.reading import events_of, published_files, quarantine_of, read_lines
from shared.domain.pair import EntityPath
from shared.telemetry_events import SendRefused, as_line

AT = datetime(2026, 11, 18, 9, 30, 0, 123456, tzinfo=UTC)


def record(sequence: int) -> str:
    event = SendRefused(at=AT, path=EntityPath("orders"), message_id="m", reason="PrimaryFailed", seconds=0.5)
    return as_line(event, instance="one", sequence=sequence)


def changed(sequence: int, **changes: object) -> str:
    fields = {**json.loads(record(sequence)), **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}) + "\n"


def test_records_are_read_and_broken_lines_are_kept_aside_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "date=2026-11-18" / "hour=09"
    folder.mkdir(parents=True)
    (folder / "one-000001.jsonl").write_text(
        record(0)
        + changed(1, future="a field that a newer writer added")
        + '{"v":1,"event":"send.acc'
        + "\n"
        + changed(2, v=2)
        + changed(3, seq=None)
        + changed(4, at="yesterday")
    )
    (folder / ".open-one-000002.jsonl").write_text(record(5))
    (folder / "one-000003.jsonl.tmp").write_text(record(6))
    lines = read_lines(spark, str(tmp_path)).cache()
    events = events_of(lines).orderBy("seq").collect()
    assert [(0, AT, "orders"), (1, AT, "orders")] == [(row.seq, row.at.astimezone(UTC), row.path) for row in events]
    quarantined = {(row.reason.partition(":")[0], row.line[:24]) for row in quarantine_of(lines).collect()}
    assert {
        ("not a record", '{"v":1,"event":"send.acc'),
        ("unknown version 2", '{"v":2,"event":"send.ref'),
        ("incomplete", '{"v":1,"event":"send.ref'),
        ("not a record", '{"v": 1, "event": "send.'),
    } == quarantined


@pytest.mark.parametrize("name", [None, ".open-one.jsonl", "notes.txt"])
def test_a_folder_without_records_is_refused(tmp_path: Path, name: str | None) -> None:
    if name:
        (tmp_path / name).write_text(record(0))
    with pytest.raises(PipelineError, match="there are no records in"):
        published_files(str(tmp_path))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is not a folder"):
        published_files(str(tmp_path / "nowhere"))
