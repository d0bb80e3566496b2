"""A handful of faults among a million messages is found, by id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.generate import GenerateOptions, generate
from pipeline.job import ReportOptions, report
from pipeline.plan import Faults, Plan
from tests.pipeline.test_planted_faults import STATUSES, found_ids, silent


@pytest.mark.soak
def test_the_planted_faults_among_a_million_messages_are_found(spark: SparkSession, tmp_path: Path) -> None:
    faults = Faults(lost=17, duplicated=23, waiting=31, expired=13, dead_lettered=11, late=50)
    events, out = tmp_path / "events", tmp_path / "report"
    plan = Plan(messages=1_000_000, faults=faults, seed=7)
    generate(spark, GenerateOptions(out=str(events), plan=plan, broken=9), silent)
    summary = report(spark, ReportOptions(events=str(events), out=str(out)), silent)
    truth = json.loads((events / "truth.json").read_text())
    assert {fate: truth["ids"][fate] for fate in (*STATUSES, "duplicated")} == found_ids(spark, out)
    assert (1_000_000, 9, 0) == (summary["accepted"], summary["quarantined_lines"], summary["missing_records"])
