"""Hooks of every test run: what soak tests measured goes to build/soak.json, wherever in tests/ they are.

A soak test adds figures with pytest's own `record_property("messages", 12345)`. It has no time-out mark: `make soak`
runs without a time-out, and a mark would win over that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

REPORT = Path(__file__).resolve().parents[2] / "build" / "soak.json"
_results: list[dict[str, object]] = []


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("soak") and item.get_closest_marker("timeout"):
            raise pytest.UsageError(f"{item.nodeid} is a soak test and must not have a time-out mark")


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


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The process that started the others hears of every test; only it writes."""
    if _results and not hasattr(session.config, "workerinput"):
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text(json.dumps(_results, indent=2) + "\n", encoding="utf-8")
