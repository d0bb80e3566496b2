"""Runs the tables over the records and writes the report: Parquet, one page of HTML, and a summary for programs."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, overload

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline import report as page
from pipeline.cost_report import costs_of
from pipeline.costs import Usage
from pipeline.errors import PipelineError
from pipeline.instances import counted_once
from pipeline.output import MARK, appears_whole, checked_output
from pipeline.prices import Prices, default_prices
from pipeline.proof import proof
from pipeline.reading import (
    OTHER_VERSION,
    events_of,
    published_files,
    quarantine_of,
    read_compacted,
    read_lines,
    unpublished_files,
)
from pipeline.schemas import PROBLEM, VERSION
from pipeline.tables import SHOWN_ROWS_MAX, TABLES

ERROR_CHARS_MAX = 400
STAGED = ".staged"
PAGE = "report.html"
#: Spark leaves it in a folder that it wrote whole.
SUCCESS = "_SUCCESS"
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a report should hold."""

    #: Lines of another version are kept aside, and the proof has a hole, instead of an error.
    allow_unknown_versions: bool = False
    #: What things cost; None: the prices that come with the pipeline.
    prices: Prices | None = None
    #: Only these tables, and no page; None: everything.
    tables: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if unknown := sorted((self.tables or frozenset()) - TABLES.keys()):
            raise PipelineError(f"there is no table {unknown[0]}; there are {', '.join(TABLES)}")


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    events: str
    out: str
    wanted: Wanted = Wanted()

    def check(self) -> Path:
        published_files(self.events)
        return checked_output(self.out, self.events)


@dataclass(frozen=True, kw_only=True)
class CompactOptions:
    events: str
    out: str

    def check(self) -> Path:
        if not published_files(self.events)[0]:
            raise PipelineError(f"there are no JSON lines in {self.events} to compact")
        return checked_output(self.out, self.events, mark=SUCCESS)


def say_on_stderr(command: str) -> Say:
    """Progress for people: what is being done, and since when."""
    started = time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"{command}: {time.monotonic() - started:5.1f} s  {text}\n")
        sys.stderr.flush()

    return say


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """What Spark says about a file or a table, without its traceback."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        java = getattr(error, "java_exception", None)
        text = str(java if java is not None else error)
        line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
        raise PipelineError(f"Spark failed: {line[:ERROR_CHARS_MAX]}") from error


def report(spark: SparkSession, options: ReportOptions, say: Say) -> dict[str, Any]:
    """Writes the report of all records below a folder. The summary."""
    target = options.check()
    has_json, has_parquet = published_files(options.events)
    with appears_whole(target) as writing, one_line_errors():
        staged = []
        if has_json:
            say(f"reading the records of {options.events}")
            staged = [str(writing / STAGED)]
            read_lines(spark, options.events).write.parquet(staged[0])
        lines = read_compacted(spark, *staged, *([options.events] if has_parquet else []))
        facts = {"unpublished_files": unpublished_files(options.events)}
        summary = write_report(spark, lines, writing, facts, options.wanted, say)
        shutil.rmtree(writing / STAGED, ignore_errors=True)
    say(f"{target}  {summary['proof']['sentence'] if 'proof' in summary else ''}")
    return summary


def compact(spark: SparkSession, options: CompactOptions, say: Say) -> dict[str, Any]:
    """Records as Parquet, broken lines among them, for reports to come."""
    target = options.check()
    with appears_whole(target) as writing, one_line_errors():
        say(f"reading the records of {options.events}")
        read_lines(spark, options.events).write.mode("overwrite").parquet(str(writing))
        lines = read_compacted(spark, str(writing)).count()
    return {"lines": lines, "out": str(target)}


def write_report(
    spark: SparkSession, lines: DataFrame, folder: Path, facts: Mapping[str, int], wanted: Wanted, say: Say
) -> dict[str, Any]:
    """The tables, the page and the summary of what was read, into an empty folder."""
    quarantined = _set_aside(lines, folder, wanted.allow_unknown_versions)
    events = events_of(lines)
    say("table instances")
    summary, writers = _write_table(spark, "instances", events, folder)
    if not summary["events"]:
        raise PipelineError(f"there are no records to report on: {quarantined} lines, none of them a record")
    if summary["repeated_records"]:
        say(f"{summary['repeated_records']:,} records are there twice and count once")
        events = counted_once(events)
    summary = {"quarantined_lines": quarantined, **facts, **summary}
    shown = {"instances": writers}
    for name in TABLES:
        if name not in shown and (wanted.tables is None or name in wanted.tables):
            say(f"table {name}")
            part, shown[name] = _write_table(spark, name, events, folder)
            summary |= part
    if "deliveries" in shown:
        summary["proof"] = proof(summary)
    if "usage" in summary:
        summary["costs"] = costs_of(Usage(**summary["usage"]), wanted.prices or default_prices())
    plain = json.loads(json.dumps(summary, default=_plain))
    if wanted.tables is None:
        (folder / PAGE).write_text(page.render(plain, shown), encoding="utf-8")
    (folder / MARK).write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
    return summary


def _write_table(
    spark: SparkSession, name: str, events: DataFrame, folder: Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the table adds to the summary, and the rows that people are shown."""
    table, place = TABLES[name], str(folder / "tables" / name)
    _built(spark, name, events, folder).write.parquet(place)
    written = spark.read.parquet(place)
    shown = (table.shown(written) if table.shown else written).limit(SHOWN_ROWS_MAX)
    summary = table.summarise(written) if table.summarise else {}
    return dict(summary), [row.asDict(recursive=True) for row in shown.collect()]


def _built(spark: SparkSession, name: str, events: DataFrame, folder: Path) -> DataFrame:
    """The table, of what it needs: read back where that is written, worked out where it is not wanted itself."""
    table = TABLES[name]
    places = [(need, folder / "tables" / need) for need in table.needs]
    needed = [
        spark.read.parquet(str(place)) if place.exists() else _built(spark, need, events, folder)
        for need, place in places
    ]
    return table.build(events, *needed)


def _set_aside(lines: DataFrame, folder: Path, allow_unknown_versions: bool) -> int:
    """Writes the lines that are no records to a table of their own. How many there are."""
    problems = {row[PROBLEM]: row["count"] for row in lines.groupBy(PROBLEM).count().collect()}
    problems.pop(None, None)
    unknown = {text: count for text, count in problems.items() if text.startswith(OTHER_VERSION)}
    if unknown and not allow_unknown_versions:
        example = lines.where(F.col(PROBLEM).startswith(OTHER_VERSION)).select("file").first()
        raise PipelineError(
            f"{sum(unknown.values())} records have an {next(iter(unknown))} (this pipeline reads {VERSION}), the first "
            f"in {example.file if example else '?'}; a proof without them proves nothing: update the pipeline, or "
            "keep them aside with --allow-unknown-versions"
        )
    quarantine_of(lines).coalesce(1).write.parquet(str(folder / "tables" / "quarantine"))
    return sum(problems.values())


@overload
def utc(time: datetime) -> datetime: ...
@overload
def utc(time: datetime | None) -> datetime | None: ...
def utc(time: datetime | None) -> datetime | None:
    """Spark hands out times of this machine's zone without saying so."""
    return None if time is None else time.astimezone(UTC)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return utc(value).isoformat()
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no place in a summary")
