"""The report: refused by name where it cannot be made, and read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.demo import report
from local.demo.report import ReportFailed, read_report, require_pipeline, step_in


def test_a_missing_pipeline_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ReportFailed, match="package pipeline, which is not here; --no-report"):
        require_pipeline(tmp_path)
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "__main__.py").touch()
    require_pipeline(tmp_path)


@pytest.mark.parametrize(
    ("line", "step"),
    [("report:  11.2 s  table instances", "table instances"), ("Setting log level", None), ("report: 1 s", None)],
)
def test_progress_is_told_from_noise(line: str, step: str | None) -> None:
    assert step == step_in(line)


def test_a_whole_report_is_read(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"lost": 0}')
    (tmp_path / "report.html").write_text("<html>")
    assert ({"lost": 0}, tmp_path / "report.html") == (read_report(tmp_path).summary, read_report(tmp_path).page)


@pytest.mark.parametrize(
    ("summary", "page", "complaint"),
    [
        (None, "<html>", "cannot be read"),
        ("{", "<html>", "cannot be read"),
        ("[]", "<html>", "not a JSON object"),
        ("{}", None, "made no"),
    ],
)
def test_half_a_report_is_none(tmp_path: Path, summary: str | None, page: str | None, complaint: str) -> None:
    for name, text in (("summary.json", summary), ("report.html", page)):
        if text is not None:
            (tmp_path / name).write_text(text)
    with pytest.raises(ReportFailed, match=complaint):
        read_report(tmp_path)


def test_a_summary_beyond_all_measure_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "SUMMARY_BYTES_MAX", 5)
    (tmp_path / "summary.json").write_text('{"lost": 0}')
    with pytest.raises(ReportFailed, match="larger than 5 bytes"):
        read_report(tmp_path)
