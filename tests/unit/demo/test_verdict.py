"""The verdict convicts: a loss, a change, an unbalanced book, or a report that says something else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from local.demo.figures import Outcome, cost_line, figures
from local.demo.ledger import Totals
from local.demo.verdict import COMPARED, as_json, judge
from tests.support.demo import outcome, totals

CLEAN = totals()
COUNTS = {"accepted": 10, "delivered": 10, "waiting": 0, "dead_lettered": 0, "lost": 0, "duplicated": 2}
SUMMARY: dict[str, Any] = {**COUNTS, "expired": 0, "proof": {"word": "proved", "sentence": "None is lost."}}
#: What other programs read in build/demo.json.
PROMISED = {"sent", "accepted", "delivered", "lost", "duplicated", "waiting", "dead_lettered", "longest_send_s"}


def but(**changed: Any) -> Totals:
    return dataclasses.replace(CLEAN, **changed)


def test_an_exact_ledger_with_a_report_that_agrees_is_exact() -> None:
    assert () == judge(CLEAN, SUMMARY).findings
    assert () == judge(CLEAN, None).findings


@pytest.mark.parametrize(
    "good",
    [but(delivered=7, waiting=2, dead_lettered=1), but(duplicated=9), but(refusals=99), but(sent=12, never_accepted=2)],
)
def test_waiting_dead_letters_duplicates_and_refusals_are_counted_not_convicted(good: Totals) -> None:
    assert () == judge(good, None).findings


@pytest.mark.parametrize(
    ("bad", "finding"),
    [
        (but(delivered=8, lost_ids=("a-1", "a-2")), "2 accepted messages are lost: a-1, a-2"),
        (but(delivered=9), "the books do not balance: 10 accepted, 9 with an end"),
        (but(wrong=("a-1: its body is 'x', not 'y'",)), "1 arrivals are wrong: a-1: its body is 'x', not 'y'"),
        (but(accepted=0, delivered=0), "no message was accepted, so nothing was shown"),
    ],
)
def test_a_broken_promise_is_found(bad: Totals, finding: str) -> None:
    verdict = judge(bad, None)
    assert ((finding,), False) == (verdict.findings, verdict.is_exact)


def test_many_lost_messages_are_named_by_a_few() -> None:
    bad = but(delivered=3, lost_ids=tuple(f"a-{number}" for number in range(7)))
    assert ("7 accepted messages are lost: a-0, a-1, a-2, a-3, a-4, ...",) == judge(bad, None).findings


@pytest.mark.parametrize("name", COMPARED)
def test_a_report_that_counts_otherwise_is_found(name: str) -> None:
    ours = SUMMARY[name]
    assert (f"the report counts {name} 77, the demo {ours}",) == judge(CLEAN, {**SUMMARY, name: 77}).findings
    without = {key: value for key, value in SUMMARY.items() if key != name}
    assert (f"the report counts {name} None, the demo {ours}",) == judge(CLEAN, without).findings


def test_what_expired_is_dead_lettered() -> None:
    three_dead = but(delivered=7, dead_lettered=3)
    assert () == judge(three_dead, {**SUMMARY, "delivered": 7, "dead_lettered": 1, "expired": 2}).findings


@pytest.mark.parametrize(
    ("proof", "finding"),
    [
        ({"word": "incomplete", "sentence": "Records are missing."}, "the report proves nothing: Records are missing."),
        ({"word": "acknowledged", "sentence": "By its word."}, "the report proves nothing: By its word."),
        (None, "the report proves nothing: it says nothing of a proof"),
    ],
)
def test_a_report_that_proves_nothing_is_not_enough(proof: object, finding: str) -> None:
    assert (finding,) == judge(CLEAN, {**SUMMARY, "proof": proof}).findings


def test_the_figures_have_what_other_programs_read() -> None:
    content = as_json(CLEAN, judge(CLEAN, None), {"fault": "refuse"})
    assert PROMISED <= content.keys()
    assert {"sent": 10, "lost": 0, "duplicated": 2, "longest_send_s": 1.25} == {
        name: content[name] for name in ("sent", "lost", "duplicated", "longest_send_s")
    }
    assert ("refuse", True, []) == (content["fault"], content["exact"], content["findings"])


def test_the_headline_says_which() -> None:
    assert "EXACT: every accepted message has its end, none is lost; the report agrees" == headline(CLEAN, SUMMARY)
    assert headline(CLEAN, None).endswith("no report was made")
    lost = but(delivered=9, lost_ids=("a-1",))
    assert "NOT EXACT: 1 accepted messages are lost: a-1" == headline(lost, None)


def headline(of: Totals, summary: dict[str, Any] | None) -> str:
    return outcome(of, summary).headline


def test_messages_that_were_never_accepted_are_told_apart() -> None:
    shown: Outcome = outcome(but(sent=12, never_accepted=2), None)
    assert "12, of which 2 were never accepted" == dict(figures(shown))["sent"]
    assert "10" == dict(figures(outcome(CLEAN, None)))["sent"]


def test_a_cost_is_shown_where_the_report_has_one() -> None:
    assert None is cost_line(None)
    assert None is cost_line(SUMMARY)
    assert None is cost_line({**SUMMARY, "costs": {"after": {"money": "a lot"}}})
    costs = {"prices": {"currency": "USD"}, "before": {"money": 0.01051}, "after": {"money": 0.01207}}
    expected = "0.0121 USD in Azure, 0.0105 without the outage (list prices)"
    assert expected == cost_line({**SUMMARY, "costs": costs})
    assert expected == dict(figures(outcome(CLEAN, {**SUMMARY, "costs": costs})))["cost"]
