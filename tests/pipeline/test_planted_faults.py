"""A report on made-up records finds exactly what was planted in them."""

from __future__ import annotations

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipeline.generate import GenerateOptions, generate
from pipeline.job import CompactOptions, ReportOptions, Wanted, compact, report
from pipeline.plan import Faults, Plan
from pipeline.schemas import HEAD
from shared.telemetry_events import TelemetryEvent

#: Enough of each for some to be of a topic.
FAULTS = Faults(lost=37, duplicated=41, waiting=31, expired=33, dead_lettered=35, late=6)
STATUSES = {"lost": "lost", "waiting": "waiting", "expired": "expired", "dead_lettered": "dead-lettered"}


def silent(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "events"
    plan = Plan(messages=2_000, faults=FAULTS, seed=5)
    generate(spark, GenerateOptions(out=str(folder), plan=plan, broken=2), silent)
    return folder


def test_made_up_records_keep_to_the_contract(made: Path) -> None:
    kinds = {kind.name: dataclasses.fields(kind) for kind in typing.get_args(TelemetryEvent)}
    seen = set()
    for file in made.rglob("made-*.jsonl"):
        for line in file.read_text().splitlines():
            record = json.loads(line)
            seen.add((record["event"], tuple(sorted(record.keys() - set(HEAD)))))
    for name, columns in seen:
        fields = kinds[name]
        needed = {field.name for field in fields if field.default is dataclasses.MISSING} - {"at", "backlog_queue"}
        assert (set(), set()) == (needed - set(columns), set(columns) - {field.name for field in fields})


def found_ids(spark: SparkSession, out: Path) -> dict[str, list[str]]:
    table = spark.read.parquet(str(out / "tables" / "deliveries"))
    rows = table.groupBy("status").agg(F.collect_list("message_id").alias("ids")).collect()
    by_status = {row.status: sorted(row.ids) for row in rows}
    found = {fate: by_status.get(status, []) for fate, status in STATUSES.items()}
    twice = table.where("duplicated").select("message_id").collect()
    return {**found, "duplicated": sorted(row.message_id for row in twice)}


def test_the_report_finds_exactly_the_planted_ids(spark: SparkSession, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    report(spark, ReportOptions(events=str(made), out=str(out)), silent)
    truth: dict[str, Any] = json.loads((made / "truth.json").read_text())
    summary = json.loads((out / "summary.json").read_text())
    ids = truth["ids"]
    assert {fate: ids[fate] for fate in (*STATUSES, "duplicated")} == found_ids(spark, out)
    assert sorted(ids["lost"]) == sorted(summary["lost_ids"])
    counts = ("accepted", "delivered", "lost", "duplicated", "waiting", "expired", "dead_lettered", "quarantined_lines")
    assert {name: truth[name] for name in counts} == {name: summary[name] for name in counts}
    assert ("lost", 0, 0) == (summary["proof"]["word"], summary["missing_records"], summary["repeated_records"])


def test_parquet_gives_the_same_report_and_repeated_records_count_once(
    spark: SparkSession, made: Path, tmp_path: Path
) -> None:
    """The same records as JSON lines and as Parquet in one folder: all of them are there twice."""
    both = tmp_path / "both"
    compact(spark, CompactOptions(events=str(made), out=str(both)), silent)
    for file in sorted(made.rglob("made-*.jsonl")):
        (both / file.name).write_bytes(file.read_bytes())
    out = tmp_path / "report"
    summary = report(
        spark, ReportOptions(events=str(both), out=str(out), wanted=Wanted(tables=frozenset({"deliveries"}))), silent
    )
    truth = json.loads((made / "truth.json").read_text())
    assert {fate: truth["ids"][fate] for fate in (*STATUSES, "duplicated")} == found_ids(spark, out)
    repeated = sum(len(file.read_text().splitlines()) for file in both.glob("made-*.jsonl"))
    assert (repeated, 2_000) == (summary["repeated_records"], summary["accepted"])
