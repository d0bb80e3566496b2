"""The verdict: whether every promise was kept, and whether the report says the same as the demo's own books."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from local.demo.ledger import Totals

#: What the report, made from the app's records by Spark, has to count as the ledger does.
COMPARED = ("accepted", "delivered", "waiting", "dead_lettered", "lost", "duplicated")
#: The report's word for: every accepted message was seen, or its end is recorded, and no record is missing.
PROVED = "proved"
#: Message ids and other examples in one finding.
SHOWN_MAX = 5


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """No findings: every promise was kept."""

    findings: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        return not self.findings


def judge(totals: Totals, summary: Mapping[str, Any] | None) -> Verdict:
    """`summary` is what the report counted, or None where none was asked for."""
    return Verdict(findings=(*_broken_promises(totals), *(() if summary is None else _disagreements(totals, summary))))


def _broken_promises(totals: Totals) -> list[str]:
    found = []
    if not totals.accepted:
        found.append("no message was accepted, so nothing was shown")
    if totals.lost:
        found.append(f"{totals.lost} accepted messages are lost: {_some(totals.lost_ids)}")
    ends = totals.delivered + totals.waiting + totals.dead_lettered + totals.lost
    if ends != totals.accepted:
        found.append(f"the books do not balance: {totals.accepted} accepted, {ends} with an end")
    if totals.wrong:
        found.append(f"{len(totals.wrong)} arrivals are wrong: {_some(totals.wrong)}")
    return found


def _disagreements(totals: Totals, summary: Mapping[str, Any]) -> list[str]:
    counted = {name: summary.get(name) for name in COMPARED}
    if isinstance(counted["dead_lettered"], int):
        # The report tells messages that expired apart; they lie in the same dead-letter queues.
        counted["dead_lettered"] += summary.get("expired", 0)
    found = [
        f"the report counts {name} {counted[name]}, the demo {getattr(totals, name)}"
        for name in COMPARED
        if counted[name] != getattr(totals, name)
    ]
    proof = summary.get("proof")
    if not isinstance(proof, Mapping) or proof.get("word") != PROVED:
        sentence = proof.get("sentence") if isinstance(proof, Mapping) else "it says nothing of a proof"
        found.append(f"the report proves nothing: {sentence}")
    return found


def _some(items: tuple[str, ...]) -> str:
    return ", ".join(items[:SHOWN_MAX]) + (", ..." if len(items) > SHOWN_MAX else "")


def as_json(totals: Totals, verdict: Verdict, about: Mapping[str, Any]) -> dict[str, Any]:
    """build/demo.json; the first eight are what other programs rely on."""
    return {
        "sent": totals.sent,
        "accepted": totals.accepted,
        "delivered": totals.delivered,
        "lost": totals.lost,
        "duplicated": totals.duplicated,
        "waiting": totals.waiting,
        "dead_lettered": totals.dead_lettered,
        "longest_send_s": round(totals.longest_send_s, 3),
        "accepted_by_primary": totals.accepted_by_primary,
        "accepted_by_backlog": totals.accepted_by_backlog,
        "refusals": totals.refusals,
        "never_accepted": totals.never_accepted,
        "redelivered": totals.redelivered,
        "lost_ids": list(totals.lost_ids),
        "exact": verdict.is_exact,
        "findings": list(verdict.findings),
        **about,
    }
