"""How fast does Spark report on the app's records, does the time grow with their number, and what would DuckDB take?

PIPELINE_BENCH_EVENTS=5000000 measures reports of five and of ten million records, in half an hour.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks import Compared, Figure, compare
from benchmarks._pipeline_sql import DELIVERIES
from pipeline.deliveries import deliveries
from pipeline.generate import GenerateOptions, generate
from pipeline.job import CompactOptions, ReportOptions, Wanted, compact, report
from pipeline.plan import Faults, Plan
from pipeline.reading import events_of, read_compacted
from pipeline.session import spark_session
from pipeline.stream import StreamOptions, stream

EVENTS = int(os.environ.get("PIPELINE_BENCH_EVENTS", "100000"))
#: Records of one made-up message, on average: accepted, received, some of them diverted or of a topic.
EVENTS_PER_MESSAGE = 2.2
LARGE = 1_000_000
ROUNDS = 2 if EVENTS < LARGE else 1
STREAM_EVENTS = min(2 * EVENTS, 200_000)
GROWTH_MAX = 2.2
STREAM_GOAL = 5_000
FAULTS = Faults(lost=5, duplicated=7, waiting=11, expired=3, dead_lettered=4)


def silent(_: str) -> None:
    pass


def measure() -> Iterator[Figure]:
    folder = Path(tempfile.mkdtemp(prefix="pipeline-bench-"))
    spark = spark_session(settings={})
    try:
        single, double = _made(spark, folder, 1), _made(spark, folder, 2)
        once = [_compacted(spark, where) for where in (single, double)]
        _report(spark, single)()  # Java compiles what is called often: the first report of a session is no measure
        yield _growth("JSON lines", compare(_report(spark, double), _report(spark, single), rounds=ROUNDS))
        yield _growth("Parquet", compare(_report(spark, once[1]), _report(spark, once[0]), rounds=ROUNDS))
        yield _against_duckdb(spark, once[1])
        yield _memory(spark)
        yield _streaming(spark, double if 2 * EVENTS == STREAM_EVENTS else _made(spark, folder, STREAM_EVENTS / EVENTS))
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _made(spark: SparkSession, folder: Path, times: float) -> Path:
    out = folder / f"events-{times}"
    plan = Plan(messages=int(times * EVENTS / EVENTS_PER_MESSAGE), faults=FAULTS, seed=1)
    generate(spark, GenerateOptions(out=str(out), plan=plan), silent)
    return out


def _compacted(spark: SparkSession, events: Path) -> Path:
    out = events.with_name(f"{events.name}-parquet")
    compact(spark, CompactOptions(events=str(events), out=str(out)), silent)
    return out


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _report(spark: SparkSession, events: Path) -> Callable[[], float]:
    options = ReportOptions(events=str(events), out=str(events.with_name(f"{events.name}-report")))
    return lambda: _seconds(lambda: report(spark, options, silent))


def _growth(source: str, result: Compared) -> Figure:
    return Figure(
        name=f"whole report of {2 * EVENTS:,} records, {source}",
        value=2 * EVENTS / result.ours,
        unit="records/s",
        yardstick="half as many: seconds for twice over seconds for once",
        yardstick_value=EVENTS / result.yardstick,
        ratio=result.ratio,
        goal=f"<= {GROWTH_MAX:g}",
        met=result.ratio <= GROWTH_MAX,
    )


def _against_duckdb(spark: SparkSession, events: Path) -> Figure:
    answers: dict[str, set[tuple[object, ...]]] = {}

    def by_spark() -> None:
        table = deliveries(events_of(read_compacted(spark, str(events))))
        counts = table.groupBy("status").agg(F.count("*"), F.count_if("duplicated"))
        answers["spark"] = {tuple(row) for row in counts.collect()}

    def by_duckdb() -> None:
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {os.cpu_count()}")
            connection.execute(f"CREATE VIEW lines AS SELECT * FROM read_parquet('{events}/*.parquet')")
            answers["duckdb"] = set(connection.execute(DELIVERIES).fetchall())

    _seconds(by_spark)
    result = compare(lambda: _seconds(by_spark), lambda: _seconds(by_duckdb), rounds=ROUNDS)
    if answers["spark"] != answers["duckdb"]:
        raise AssertionError(f"Spark and DuckDB disagree: {answers}")
    return Figure(
        name=f"deliveries of {2 * EVENTS:,} records, Parquet, warm",
        value=result.ours,
        unit="s",
        yardstick="DuckDB, same answer",
        yardstick_value=result.yardstick,
        ratio=result.ratio,
    )


def _memory(spark: SparkSession) -> Figure:
    """The most that Spark's Java process has had at a time, all reports taken together."""
    java: Any = spark.sparkContext._jvm
    status = Path(f"/proc/{java.java.lang.ProcessHandle.current().pid()}/status").read_text()
    (peak_kb,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return Figure(
        name=f"most memory of Spark's process, up to {2 * EVENTS:,} records", value=int(peak_kb) / 1024, unit="MB"
    )


def _streaming(spark: SparkSession, events: Path) -> Figure:
    options = StreamOptions(
        events=str(events),
        out=str(events.with_name("live")),
        checkpoint=str(events.with_name("state")),
        files_at_once=2,
        wanted=Wanted(allow_unknown_versions=True, tables=frozenset({"deliveries"})),
    )
    speed = STREAM_EVENTS / _seconds(lambda: stream(spark, options, silent))
    return Figure(
        name=f"stream of {STREAM_EVENTS:,} records in batches of two files, with the deliveries",
        value=speed,
        unit="records/s",
        goal=f">= {STREAM_GOAL:,}",
        met=speed >= STREAM_GOAL,
    )
