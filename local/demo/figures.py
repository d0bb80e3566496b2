"""The verdict as lines of label and value, the same for every view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.demo.ledger import Totals
from local.demo.schedule import SEND_DEADLINE_S
from local.demo.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Everything there is to say at the end."""

    totals: Totals
    verdict: Verdict
    summary: Mapping[str, Any] | None
    page: Path | None
    results: Path

    @property
    def headline(self) -> str:
        if not self.verdict.is_exact:
            return "NOT EXACT: " + "; ".join(self.verdict.findings)
        agreed = "the report agrees" if self.summary is not None else "no report was made"
        return f"EXACT: every accepted message has its end, none is lost; {agreed}"


def figures(outcome: Outcome) -> list[tuple[str, str]]:
    totals = outcome.totals
    sent = f"{totals.sent}"
    if totals.never_accepted:
        sent += f", of which {totals.never_accepted} were never accepted"
    lines = [
        ("sent", sent),
        ("accepted", f"{totals.accepted} ({totals.accepted_by_primary} by the primary, "
                     f"{totals.accepted_by_backlog} by the backlog)"),
        ("delivered", f"{totals.delivered}"),
        ("lost", f"{totals.lost}"),
        ("duplicated", f"{totals.duplicated}"),
        ("waiting", f"{totals.waiting}"),
        ("dead-lettered", f"{totals.dead_lettered}"),
        ("refusals", f"{totals.refusals} calls answered other than 201, and sent again"),
        ("longest send", f"{totals.longest_send_s:.2f} s (deadline {SEND_DEADLINE_S:g} s)"),
    ]  # fmt: skip
    if (cost := cost_line(outcome.summary)) is not None:
        lines.append(("cost", cost))
    if outcome.page is not None:
        lines.append(("report", _short(outcome.page)))
    return [*lines, ("figures", _short(outcome.results))]


def _short(path: Path) -> str:
    """As somebody in this folder would type it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def cost_line(summary: Mapping[str, Any] | None) -> str | None:
    """What the run would have cost in Azure, where the report says so."""
    try:
        costs = {} if summary is None else summary["costs"]
        after, before = float(costs["after"]["money"]), float(costs["before"]["money"])
        return f"{after:.4f} {costs['prices']['currency']} in Azure, {before:.4f} without the outage (list prices)"
    except (KeyError, TypeError, ValueError):
        return None
