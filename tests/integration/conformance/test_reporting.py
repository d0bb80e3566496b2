"""What a run prints and writes tells apart what was expected and what was not."""

from __future__ import annotations

from tests.conformance import reporting
from tests.conformance.worker import Verdict

EXPECTED = "test_sessions.py::TestX::test_next_available_session_timeout_value[pyamqp]"
NEEDS_AZURE = "test_queues.py::TestX::test_queue_send_twice[pyamqp]"
ORDINARY = "test_queues.py::TestX::test_queue_something[pyamqp]"


def verdict(node: str, outcome: str, reason: str = "", attempts: int = 1) -> Verdict:
    return Verdict(node=node, outcome=outcome, reason=reason, seconds=1.0, attempts=attempts)


def test_only_failures_that_no_list_explains_are_unexpected() -> None:
    ordinary = verdict(ORDINARY, "failed", "boom")
    assert reporting.unexpected([ordinary, verdict(EXPECTED, "failed", "boom")]) == [ordinary]


def test_a_row_counts_outcomes_and_gives_a_reason_for_each_that_did_not_pass() -> None:
    row = reporting.row_of(
        "test_queues.py",
        [verdict(ORDINARY, "failed", "boom"), verdict(NEEDS_AZURE, "skipped"), verdict("test_queues.py::a", "passed")],
    )
    assert (row.passed, row.failed, row.skipped) == (1, 1, 1)
    assert len(row.reasons) == 2
    assert any("test_queue_something[pyamqp]: failed: NOT EXPECTED: boom" in reason for reason in row.reasons)


def test_a_test_that_passed_only_when_run_again_is_reported() -> None:
    row = reporting.row_of("test_queues.py", [verdict(ORDINARY, "passed", "passed when run again", attempts=2)])
    assert (row.passed, len(row.reasons)) == (1, 1)


def test_a_listed_test_that_passes_is_named_so_that_the_list_can_shrink() -> None:
    assert reporting.passing_though_listed([verdict(EXPECTED, "passed"), verdict(ORDINARY, "passed")]) == [
        "test_sessions.py::test_next_available_session_timeout_value[pyamqp]"
    ]
