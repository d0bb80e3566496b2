"""The live view agrees with the report, goes on exactly where it was killed, and drops nothing silently."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.generate import GenerateOptions, generate
from pipeline.job import ReportOptions, Wanted, report
from pipeline.plan import Faults, Plan
from pipeline.stream import StreamOptions, stream
from tests.support.app_process import ROOT

FAULTS = Faults(lost=2, duplicated=3, waiting=4, expired=1, dead_lettered=2, late=5)
FILES = 4
KILL_SECONDS_MAX = 100
POLL_SECONDS = 0.02
WANTED = Wanted(allow_unknown_versions=True, tables=frozenset({"deliveries"}))


def silent(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records in a few files, so that they come in several batches; the late ones lie apart."""
    folder = tmp_path_factory.mktemp("stream")
    plan = Plan(messages=1_000, faults=FAULTS, seed=9)
    generate(spark, GenerateOptions(out=str(folder / "events"), plan=plan, broken=1), silent)
    (made,) = (folder / "events").rglob("made-*.jsonl")
    lines = made.read_text().splitlines(keepends=True)
    for number in range(FILES):
        made.with_name(f"part-{number}.jsonl").write_text("".join(lines[number::FILES]))
    made.unlink()
    (folder / "late").mkdir()
    for file in (folder / "events").rglob("late-*.jsonl"):
        file.rename(folder / "late" / file.name)
    return folder


def table(spark: SparkSession, out: Path, name: str = "deliveries") -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.read.parquet(str(out / "tables" / name)).fillna("").collect())


def kill_in_the_middle(options: StreamOptions) -> None:
    """Runs the command and kills Spark once it has taken in a batch, and before the last one."""
    command = [sys.executable, "-m", "pipeline", "stream", "--events", options.events, "--out", options.out]
    command += ["--checkpoint", options.checkpoint, "--files-at-once", str(options.files_at_once)]
    notes = Path(options.checkpoint) / "lines"
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        deadline = time.monotonic() + KILL_SECONDS_MAX
        while process.poll() is None and time.monotonic() < deadline and not list(notes.glob("*/_note.json")):
            time.sleep(POLL_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    assert -signal.SIGKILL == process.returncode


def test_the_live_view_equals_the_report_also_after_a_kill_and_says_what_came_too_late(
    spark: SparkSession, made: Path, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    shutil.copytree(made / "events", events)
    options = StreamOptions(
        events=str(events),
        out=str(tmp_path / "live"),
        checkpoint=str(tmp_path / "state"),
        files_at_once=1,
        wanted=WANTED,
    )
    kill_in_the_middle(options)
    assert not (tmp_path / "live").exists()
    live = stream(spark, options, silent)
    batch = report(spark, ReportOptions(events=str(events), out=str(tmp_path / "report"), wanted=WANTED), silent)
    assert table(spark, tmp_path / "report") == table(spark, tmp_path / "live")
    assert batch["proof"] == live["proof"]
    assert (995, 2, 0) == (live["accepted"], live["lost"], live["late_rows"])

    shutil.copytree(made / "late", events / "hour=late")
    late = stream(spark, options, silent)
    rows = [json.loads(line) for file in (made / "late").iterdir() for line in file.read_text().splitlines()]
    assert (995, len(rows)) == (late["accepted"], late["late_rows"])
    assert len(rows) == len(table(spark, tmp_path / "live", "late"))
    assert "too late" in late["proof"]["sentence"]


def test_a_checkpoint_is_not_used_for_other_records(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jsonl").write_text("{}\n")
    state = str(tmp_path / "state")
    StreamOptions(events=str(tmp_path / "one"), out=str(tmp_path / "out"), checkpoint=state).check()
    with pytest.raises(PipelineError, match="belongs to"):
        StreamOptions(events=str(tmp_path / "other"), out=str(tmp_path / "out"), checkpoint=state).check()
