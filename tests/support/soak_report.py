"""What the soak tests measured goes to build/soak.json, where a program can read it.

A soak test adds figures with pytest's own `record_property("messages", 12345)`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

REPORT = Path(__file__).resolve().parents[2] / "build" / "soak.json"
_results: list[dict[str, object]] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "soak" in report.keywords and (report.when == "call" or report.outcome != "passed"):
        _results.append(
            {
                "name": report.nodeid,
                "outcome": report.outcome,
                "seconds": round(report.duration, 1),
                "figures": dict(report.user_properties),
            }
        )


def pytest_sessionfinish() -> None:
    if _results:
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text(json.dumps(_results, indent=2) + "\n")
