"""Bad input gets one line that names what is wrong, an exit code that says so, and changes nothing."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.cli import main
from pipeline.errors import PipelineError
from pipeline.job import ReportOptions, Wanted, report

RECORD = {"v": 1, "event": "telemetry.stopped", "instance": "one", "seq": 0, "at": "2026-11-18T09:00:00+00:00"}


def silent(_: str) -> None:
    pass


@pytest.fixture
def events(tmp_path: Path) -> Path:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "one.jsonl").write_text(json.dumps(RECORD) + "\n")
    return folder


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A report of before, which must stay as it is."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "summary.json").write_text("earlier")
    return out


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert 1 == main(arguments)
    shown = capsys.readouterr()
    assert "" == shown.out
    (line,) = shown.err.splitlines()
    return line.removeprefix("pipeline: ")


def test_folders_that_cannot_be_used_are_refused_before_spark_starts(
    capsys: pytest.CaptureFixture[str], events: Path, earlier: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")

    def refusal(where: Path, out: Path, *more: str) -> str:
        return complaint(capsys, "report", "--events", str(where), "--out", str(out), *more)

    assert "is not a folder" in refusal(tmp_path / "nowhere", earlier)
    assert "there are no records in" in refusal(empty, earlier)
    assert "lie in each other" in refusal(events, events / "report")
    assert "is not ours" in refusal(events, mine)
    assert "is a file" in refusal(events, mine / "thesis.txt")
    assert "spark.key=value" in refusal(events, earlier, "--conf", "memory")
    assert "there is no table nonsense" in refusal(events, earlier, "--tables", "nonsense")
    assert ("earlier", "years of work") == ((earlier / "summary.json").read_text(), (mine / "thesis.txt").read_text())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--messages", "10", "--lost", "11"], "11 faults do not fit into 10 messages"),
        (["--messages", "0"], "at least 1"),
        (["--messages", "5", "--lost", "-1"], "negative"),
        (["--messages", "5", "--broken", "-1"], "negative"),
    ],
)
def test_plans_that_make_no_sense_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], text: str
) -> None:
    assert text in complaint(capsys, "generate", "--out", str(tmp_path / "made"), *arguments)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("arguments", [[], ["reprot"], ["report", "--events", "x"], ["stream", "--every", "soon"]])
def test_wrong_options_are_explained(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert 2 == stopped.value.code
    assert "usage: python -m pipeline" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "stream", "compact", "generate"])
def test_every_command_teaches_its_options(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert 0 == stopped.value.code
    assert "--out DIR" in capsys.readouterr().out


def test_a_report_that_fails_on_the_way_leaves_the_earlier_one(
    spark: SparkSession, events: Path, earlier: Path
) -> None:
    options = ReportOptions(events=str(events), out=str(earlier), wanted=Wanted(tables=frozenset({"deliveries"})))

    def refusal() -> str:
        with pytest.raises(PipelineError) as refused:
            report(spark, options, silent)
        assert "earlier" == (earlier / "summary.json").read_text()
        assert {"events", "out"} == set(os.listdir(earlier.parent))
        return str(refused.value)

    (events / "two.jsonl").write_text(json.dumps({**RECORD, "v": 2, "seq": 1}) + "\n")
    assert "1 records have an unknown version 2" in refusal()
    (events / "two.jsonl").unlink()
    (events / "half.jsonl.gz").write_bytes(gzip.compress(os.urandom(10_000))[:3_000])
    line = refusal()
    assert (True, 1) == ("half.jsonl.gz" in line, len(line.splitlines()))
    (events / "half.jsonl.gz").unlink()
    (events / "one.jsonl").write_text("not a record\n")
    assert "there are no records to report on" in refusal()
