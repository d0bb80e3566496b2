"""The table people read and the file programs read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .known import Kind, known
from .suites import short_name, suite_of
from .worker import Verdict

OUTCOMES = ("passed", "failed", "skipped")
GOAL_SHARE = 0.90


@dataclass(frozen=True, kw_only=True)
class Row:
    """One suite's counts, and a line for every test that did not simply pass."""

    suite: str
    passed: int
    failed: int
    skipped: int
    reasons: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "suite": self.suite,
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
            "reasons": list(self.reasons),
        }


def reason_line(verdict: Verdict) -> str:
    listed = known(verdict.node)
    explanation = verdict.reason
    if verdict.outcome == "failed":
        explanation = f"{listed} [{verdict.reason}]" if listed else f"NOT EXPECTED: {verdict.reason}"
    elif verdict.outcome == "skipped" and listed is None:
        explanation = f"skipped by the SDK itself: {verdict.reason}"
    return f"{short_name(verdict.node)}: {verdict.outcome}: {explanation}"


def row_of(suite: str, verdicts: Iterable[Verdict]) -> Row:
    verdicts = list(verdicts)
    counts = {outcome: sum(verdict.outcome == outcome for verdict in verdicts) for outcome in OUTCOMES}
    lines = [reason_line(v) for v in verdicts if v.outcome != "passed" or v.attempts > 1]
    return Row(suite=suite, reasons=tuple(sorted(lines)), **counts)


def rows_of(verdicts: Sequence[Verdict]) -> list[Row]:
    suites = dict.fromkeys(suite_of(verdict.node) for verdict in verdicts)
    return [row_of(suite, (v for v in verdicts if suite_of(v.node) == suite)) for suite in sorted(suites)]


def unexpected(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.outcome == "failed" and known(verdict.node) is None]


def passing_though_listed(verdicts: Iterable[Verdict]) -> list[str]:
    """Names to take off the list of known failures."""
    passed = [verdict for verdict in verdicts if verdict.outcome == "passed"]
    listed = [(verdict, known(verdict.node)) for verdict in passed]
    return [short_name(v.node) for v, entry in listed if entry is not None and entry.kind is not Kind.MAY_FAIL]


def table(rows: Sequence[Row]) -> str:
    width = max([len(row.suite) for row in rows] + [len("all")])
    lines = [f"{'suite':<{width}}  passed  failed  skipped"]
    lines += [f"{row.suite:<{width}}  {row.passed:>6}  {row.failed:>6}  {row.skipped:>7}" for row in rows]
    passed, failed, skipped = (sum(getattr(row, outcome) for row in rows) for outcome in OUTCOMES)
    lines.append(f"{'all':<{width}}  {passed:>6}  {failed:>6}  {skipped:>7}")
    return "\n".join(lines)


def share(rows: Sequence[Row]) -> str:
    """How much of what does not need Azure itself passes; what the SDK skips everywhere is left out."""
    passed, failed = sum(row.passed for row in rows), sum(row.failed for row in rows)
    ran = passed + failed
    if not ran:
        return "none of the SDK's tests ran"
    return f"{passed} of the {ran} SDK tests that ran passed: {passed / ran:.1%} (goal {GOAL_SHARE:.0%})"


def reasons(rows: Sequence[Row]) -> str:
    lines = [line for row in rows for line in row.reasons]
    return "\n".join(f"  {line}" for line in lines) or "  (all passed)"


def write(rows: Sequence[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([row.as_json() for row in rows], indent=2) + "\n")


def write_details(verdicts: Iterable[Verdict], path: Path) -> None:
    """Everything a person needs to look into a failure."""
    failed = [v for v in verdicts if v.detail]
    path.write_text("\n\n".join(f"{'=' * 100}\n{v.node}\n{v.reason}\n{v.detail}" for v in failed) + "\n")


def write_seconds(verdicts: Iterable[Verdict], path: Path) -> None:
    seconds = {short_name(v.node): round(v.seconds, 1) for v in sorted(verdicts, key=lambda v: -v.seconds)}
    path.write_text(json.dumps(seconds, indent=1) + "\n")
