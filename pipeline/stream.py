"""Keeps a report up to date: Structured Streaming takes in each published file once; the tables are the batch's own.

What is incremental is the reading, which costs most. Each batch of files becomes Parquet beside the checkpoint; the
tables are computed from that by the same functions as in a report, so they agree. Nothing depends on the order of
records. The live view looks back for a limited time only (`keep`): behind that watermark, batches are let go, and rows
that come too late for it are dropped, counted, and listed in the table `late`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.errors import PipelineError
from pipeline.job import Say, Wanted, one_line_errors, utc, write_report
from pipeline.kept import UNMERGED_MAX, Kept, Note, Span, check_owner
from pipeline.output import appears_whole, checked_output
from pipeline.reading import published_files, read_compacted, stream_lines, unpublished_files
from pipeline.schemas import LATE

FILES_AT_ONCE = 1_000
KEEP = timedelta(days=7)
#: A live view goes on past records of another version, and says so.
LIVE = Wanted(allow_unknown_versions=True)


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    events: str
    out: str
    checkpoint: str
    #: Look for new files this often, until stopped; None: take in what is there, and end.
    every: timedelta | None = None
    keep: timedelta = KEEP
    files_at_once: int = FILES_AT_ONCE
    wanted: Wanted = LIVE

    def check(self) -> Path:
        if self.keep <= timedelta(0) or self.files_at_once < 1 or (self.every and self.every <= timedelta(0)):
            raise PipelineError("--every, --keep and --files-at-once must be greater than 0")
        if not published_files(self.events)[0]:
            raise PipelineError(f"there are no JSON lines in {self.events}: only they can be streamed")
        target, checkpoint = checked_output(self.out, self.events), Path(self.checkpoint).resolve()
        if target == checkpoint or target in checkpoint.parents or checkpoint in target.parents:
            raise PipelineError(f"--out {self.out} and --checkpoint {self.checkpoint} lie in each other")
        check_owner(checkpoint, self.events)
        return target


def stream(spark: SparkSession, options: StreamOptions, say: Say) -> dict[str, Any]:
    """Takes in what is new and writes the report; the last summary."""
    live = LiveReport(spark, options, say)
    with one_line_errors():
        query = live.start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return live.refresh() if options.every is None or live.summary is None else live.summary


class LiveReport:
    """One run of the stream. Spark calls take_in for each batch, one after the other."""

    def __init__(self, spark: SparkSession, options: StreamOptions, say: Say) -> None:
        self._spark = spark
        self._options = options
        self._say = say
        self._target = options.check()
        self._checkpoint = Path(options.checkpoint)
        self._kept = Kept(self._checkpoint)
        self.summary: dict[str, Any] | None = None

    def start(self) -> StreamingQuery:
        options = self._options
        lines = stream_lines(self._spark, options.events, files_at_once_max=options.files_at_once)
        writer = lines.writeStream.foreachBatch(self.take_in).option(
            "checkpointLocation", str(self._checkpoint / "spark")
        )
        if options.every is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{options.every.total_seconds():g} seconds").start()

    # -- one batch

    def take_in(self, lines: DataFrame, number: int) -> None:
        """Everything about the batch is written under its number, so that doing it again changes nothing."""
        before = self._tidied(number)
        previous = self._kept.note(before[-1]) if before else Note(rows=0, newest=None)
        span = Span(first=number, last=number)
        rows, late, newest = self._write(lines, span, self._watermark(previous))
        so_far = max((time for time in (previous.newest_so_far, newest) if time is not None), default=None)
        note = Note(rows=rows, newest=newest, newest_so_far=so_far, late_so_far=previous.late_so_far + late)
        old = [one for one in self._behind(before, note) if one not in self._behind(before, previous)]
        forgotten = previous.forgotten_so_far + sum(self._kept.note(one).rows for one in old)
        self._kept.complete(span, replace(note, forgotten_so_far=forgotten))
        self._say(f"batch {number}: {rows:,} records taken in" + (f", {late:,} too late" if late else ""))
        if self._options.every is not None:
            self.refresh()

    def _write(self, lines: DataFrame, span: Span, watermark: datetime | None) -> tuple[int, int, datetime | None]:
        """How many rows were taken in, how many came too late, and when the newest of them was recorded."""
        is_late = F.lit(False) if watermark is None else F.coalesce(F.col("at") < F.lit(watermark), F.lit(False))
        marked = lines.withColumn("is_late", is_late).persist()
        try:
            marked.where("not is_late").drop("is_late").write.mode("overwrite").parquet(str(self._kept.lines_of(span)))
            late = F.count_if("is_late")
            found = marked.agg(late.alias("late"), F.count("*").alias("rows"), F.max("at").alias("newest")).collect()[0]
            if found.late:
                rows = marked.where("is_late").select(*LATE.names).coalesce(1)
                rows.write.mode("overwrite").parquet(str(self._kept.late_of(span)))
        finally:
            marked.unpersist()
        return found.rows - found.late, found.late, utc(found.newest)

    def _watermark(self, note: Note) -> datetime | None:
        return None if note.newest_so_far is None else note.newest_so_far - self._options.keep

    def _behind(self, spans: list[Span], note: Note) -> list[Span]:
        """Those that are too old as a whole, seen from a note."""
        watermark = self._watermark(note)
        newest = {span: self._kept.note(span).newest for span in spans}
        return [span for span, time in newest.items() if watermark and time and time < watermark]

    def _tidied(self, number: int) -> list[Span]:
        """What was taken in before this batch, without what is too old, and merged where it became many."""
        spans = self._kept.spans(before=number)
        if spans:
            # The last one stays, however old: its note speaks for all before it.
            self._kept.let_go(self._behind(spans[:-1], self._kept.note(spans[-1])))
            spans = self._kept.spans(before=number)
        if len(spans) <= UNMERGED_MAX:
            return spans
        whole = Span(first=spans[0].first, last=spans[-1].last)
        lines = read_compacted(self._spark, *[str(self._kept.lines_of(span)) for span in spans])
        lines.write.mode("overwrite").parquet(str(self._kept.lines_of(whole)))
        notes = [self._kept.note(span) for span in spans]
        newest = max((note.newest for note in notes if note.newest is not None), default=None)
        self._kept.complete(whole, replace(notes[-1], rows=sum(note.rows for note in notes), newest=newest))
        self._kept.let_go(spans)
        return [whole]

    # -- the report

    def refresh(self) -> dict[str, Any]:
        spans = self._kept.spans()
        if not spans:
            raise PipelineError(f"there are no records in {self._options.events}")
        note = self._kept.note(spans[-1])
        behind = self._behind(spans[:-1], note)
        folders = [str(self._kept.lines_of(span)) for span in spans if span not in behind]
        lines = read_compacted(self._spark, *folders)
        facts = {
            "unpublished_files": unpublished_files(self._options.events),
            "late_rows": note.late_so_far,
            "forgotten_records": note.forgotten_so_far,
        }
        with appears_whole(self._target) as writing:
            self._write_late(writing)
            self.summary = write_report(self._spark, lines, writing, facts, self._options.wanted, self._say)
        self._say(self.summary["proof"]["sentence"] if "proof" in self.summary else f"{self._target}")
        return self.summary

    def _write_late(self, writing: Path) -> None:
        folders = [str(folder) for folder in self._kept.late_folders()]
        rows = self._spark.read.schema(LATE).parquet(*folders) if folders else self._spark.createDataFrame([], LATE)
        rows.coalesce(1).write.parquet(str(writing / "tables" / "late"))
