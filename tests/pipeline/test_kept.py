"""What a stream keeps: done again after a kill it changes nothing, and what falls behind is counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline import stream as stream_module
from pipeline.kept import Kept, Note
from pipeline.reading import read_compacted
from pipeline.schemas import COMPACTED
from pipeline.stream import LiveReport, StreamOptions

START = datetime(2026, 11, 1, tzinfo=UTC)
KEEP = timedelta(days=2)


def silent(_: str) -> None:
    pass


def lines(spark: SparkSession, *days: int) -> DataFrame:
    head = {"v": 1, "event": "telemetry.started", "instance": "one"}
    rows = [{**head, "seq": day, "at": START + timedelta(days=day), "file": f"{day}.jsonl"} for day in days]
    return spark.createDataFrame([tuple(row.get(name) for name in COMPACTED.names) for row in rows], COMPACTED)


def test_batches_done_again_and_merged_leave_the_same_records_and_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "UNMERGED_MAX", 2)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "some.jsonl").write_text("{}\n")
    options = StreamOptions(
        events=str(tmp_path / "events"), out=str(tmp_path / "out"), checkpoint=str(tmp_path / "state"), keep=KEEP
    )
    live, kept = LiveReport(spark, options, silent), Kept(tmp_path / "state")

    def seen() -> tuple[list[int], Note]:
        spans = kept.spans()
        found = read_compacted(spark, *[str(kept.lines_of(span)) for span in spans]).select("seq").collect()
        return sorted(row.seq for row in found), kept.note(spans[-1])

    for number, days in enumerate([(0,), (1, 2), (2,), (3,)]):
        live.take_in(lines(spark, *days), number)
        once = seen()
        live.take_in(lines(spark, *days), number)
        assert once == seen()
    # The first three were merged before batch 3, so none of them is old as a whole.
    assert ([0, 1, 2, 2, 3], 0, 0) == (seen()[0], seen()[1].late_so_far, seen()[1].forgotten_so_far)
    live.take_in(lines(spark, 0, 9), 4)
    live.take_in(lines(spark, 0, 9), 4)
    note = seen()[1]
    assert (1, 5) == (note.late_so_far, note.forgotten_so_far)
    live.take_in(lines(spark, 9, 10), 5)
    live.take_in(lines(spark, 9, 10), 5)
    records, note = seen()
    assert ([9, 9, 10], 1, 5) == (records, note.late_so_far, note.forgotten_so_far)
