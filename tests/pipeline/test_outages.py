"""Time lines, outages, sends and drains: stories in, exact rows out. All stories go through Spark together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline.backlog import drain_curve, stays, waiting_by_queue
from pipeline.outages import outages, sends, sends_by_time
from pipeline.time_line import time_line
from shared.telemetry_events import TelemetryEvent, TelemetryStopped
from tests.support.records import (
    after,
    dead_lettered,
    failed,
    forwarded,
    frame,
    naive,
    received,
    refused,
    sent,
    story,
    turned,
)

UP, MAYBE, DOWN = "available", "suspect", "unavailable"
Row = dict[str, Any]

STORIES: dict[str, list[TelemetryEvent | tuple[str, TelemetryEvent]]] = {
    # Also the first and the last record of all.
    "quiet": [sent(0, "q1"), sent(2000, "q2", seconds=0.03), refused(1999, reason="EntityNotFound")],
    "whole": [
        sent(0, "1"),
        sent(9.5, "2"),
        failed(10),
        turned(10, UP, MAYBE, reason="timeout: no answer"),
        refused(10),
        failed(40),
        refused(40),
        failed(70),
        turned(70, MAYBE, DOWN, reason="timeout: still none"),
        sent(70.5, "3", queue=0, seconds=5.5, attempt=2),
        sent(100, "4", queue=0),
        sent(110, "5", queue=1),
        refused(115, reason="MessageTooLarge", seconds=0.0),
        turned(130, DOWN, UP),
        sent(130.25, "6", queue=0),
        forwarded(131, "3"),
        forwarded(132, "4"),
        forwarded(133, "5", queue=1),
        forwarded(134, "6"),
        sent(135, "7"),
    ],
    # b had a success before it heard of the outage, and c hears of the end late: neither opens or ends anything.
    "told-by-three": [
        ("a", turned(10, UP, DOWN)),
        ("b", turned(10.1, UP, MAYBE)),
        ("b", turned(10.5, MAYBE, UP)),
        ("b", turned(12, UP, DOWN)),
        ("c", turned(12, UP, DOWN)),
        ("a", turned(60, DOWN, UP)),
        ("b", turned(61, DOWN, UP)),
        ("c", turned(62, DOWN, UP)),
    ],
    "suspected-by-two": [
        ("a", turned(10, UP, MAYBE)),
        ("b", turned(12, UP, MAYBE)),
        ("a", turned(14, MAYBE, UP)),
        ("b", turned(20, MAYBE, UP)),
    ],
    "flapping": [
        failed(10),
        turned(10, UP, DOWN),
        turned(20, DOWN, UP),
        sent(25, "f1"),
        failed(30),
        turned(30, UP, DOWN),
        turned(40, DOWN, UP),
    ],
    "no-end": [
        failed(1000),
        turned(1000, UP, DOWN),
        sent(1001, "n1", queue=4),
        refused(1002, reason="BacklogExhausted"),
    ],
    "down-before": [turned(30, DOWN, UP)],
    "stopped": [turned(10, UP, MAYBE), TelemetryStopped(at=after(15))],
    "killed": [turned(10, UP, MAYBE), sent(20, "k1")],
    "alive": [turned(1900, UP, MAYBE), sent(1990, "a1")],
    # Failures of single keys, with no success in between, that the entity was blamed for in the end.
    "blamed-late": [failed(3), sent(5, "b1"), failed(8), failed(9), turned(10, UP, DOWN), turned(11, DOWN, UP)],
    "by-hand": [turned(10, UP, DOWN, reason="rehearsal"), turned(20, DOWN, UP)],
    "keyed": [
        sent(0, "y1"),
        failed(10),
        turned(10, UP, DOWN, path="orders#customer-7"),
        sent(12, "y2", queue=5),
        turned(20, DOWN, UP, path="orders#customer-7"),
    ],
    "came-again": [
        sent(10, "t1", queue=2),
        forwarded(20, "t1", queue=2, possible_duplicate=True),
        forwarded(30, "t1", queue=2),
        sent(40, "t1", queue=2),
    ],
    "from-before": [forwarded(50, "o1", queue=3, waited_seconds=20.0)],
    "dead": [sent(10, "d1", queue=3), dead_lettered(25, "d1", path=None, queue=3)],
    "receipts-only": [received(0, "z1")],
}


@dataclass(frozen=True, kw_only=True)
class Tables:
    lines: list[Row]
    outages: list[Row]
    sends: list[Row]
    by_time: list[Row]
    drain: list[Row]
    waiting: list[Row]

    def states(self, entity: str) -> list[tuple[Any, ...]]:
        found = [(row["started_at"], row["ended_at"], row["state"]) for row in self.lines if row["entity"] == entity]
        return sorted(found)

    def outage(self, entity: str) -> Row:
        (found,) = [row for row in self.outages if row["entity"] == entity]
        return found


def compute(events: DataFrame) -> Tables:
    def collected(table: DataFrame) -> list[Row]:
        return [row.asDict() for row in table.collect()]

    lines, stayed = time_line(events).localCheckpoint(), stays(events).localCheckpoint()
    return Tables(
        lines=collected(lines),
        outages=collected(outages(events, lines, stayed)),
        sends=collected(sends(events)),
        by_time=collected(sends_by_time(events)),
        drain=collected(drain_curve(events, stayed)),
        waiting=collected(waiting_by_queue(events, stayed)),
    )


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    events = frame(spark, *[one for path, told in STORIES.items() for one in story(path, *told)])
    return compute(events.localCheckpoint())


# -- states


def test_an_outage_is_suspect_then_unavailable_then_over(tables: Tables) -> None:
    assert [
        {"state": UP, "started_at": naive(0), "ended_at": naive(10), "seconds": 10.0, "reason": None},
        {
            "state": MAYBE,
            "started_at": naive(10),
            "ended_at": naive(70),
            "seconds": 60.0,
            "reason": "timeout: no answer",
        },
        {
            "state": DOWN,
            "started_at": naive(70),
            "ended_at": naive(130),
            "seconds": 60.0,
            "reason": "timeout: still none",
        },
        {"state": UP, "started_at": naive(130), "ended_at": None, "seconds": None, "reason": None},
    ] == [
        {name: row[name] for name in ("state", "started_at", "ended_at", "seconds", "reason")}
        for row in sorted(tables.lines, key=lambda row: row["started_at"])
        if row["entity"] == "whole"
    ]


@pytest.mark.parametrize(
    ("entity", "expected"),
    [
        ("quiet", [(0, None, UP)]),
        ("told-by-three", [(10, 60, DOWN), (60, None, UP)]),
        ("suspected-by-two", [(10, 20, MAYBE), (20, None, UP)]),
        ("flapping", [(10, 20, DOWN), (20, 30, UP), (30, 40, DOWN), (40, None, UP)]),
        ("no-end", [(1000, None, DOWN)]),
        ("down-before", [(0, 30, DOWN), (30, None, UP)]),
        ("stopped", [(10, 15, MAYBE), (15, None, UP)]),
        ("killed", [(10, 20, MAYBE), (20, None, UP)]),
        ("alive", [(1900, None, MAYBE)]),
        ("receipts-only", []),
    ],
)
def test_the_time_line_of(tables: Tables, entity: str, expected: list[tuple[float, float | None, str]]) -> None:
    times = [(naive(start), None if end is None else naive(end), state) for start, end, state in expected]
    assert times == tables.states(entity)


def test_a_key_that_is_watched_has_a_line_of_its_own_and_is_not_named(tables: Tables) -> None:
    lines = [(row["key"] is None, row["state"]) for row in tables.lines if row["entity"] == "keyed"]
    assert [(False, UP), (False, DOWN), (True, UP)] == sorted(lines, key=lambda one: (one[0], one[1] == DOWN))
    assert "customer" not in str(tables.lines)


# -- outages


def test_the_figures_of_a_whole_outage(tables: Tables) -> None:
    assert {
        "entity": "whole",
        "key": None,
        "started_at": naive(10),
        "first_failure_at": naive(10),
        "suspected_at": naive(10),
        "unavailable_at": naive(70),
        "ended_at": naive(130),
        "reason": "timeout: no answer",
        "failovers": 1,
        "seconds": 120.0,
        "unavailable_seconds": 60.0,
        "seconds_to_detect": 0.0,
        "seconds_to_fail_over": 60.5,
        "seconds_to_fail_back": 5.0,
        "seconds_to_drain": 4.0,
        "diverted": 3,
        "still_waiting": 0,
        "accepted": 3,
        "refused": 2,
        "mistakes": 1,
        "availability": 0.6,
        "p50": 5.0,
        "p95": 5.5,
        "p99": 5.5,
        "slowest": 5.5,
    } == tables.outage("whole")


def test_an_outage_without_end_is_measured_until_the_records_end(tables: Tables) -> None:
    found = tables.outage("no-end")
    figures = ("ended_at", "seconds", "unavailable_seconds", "seconds_to_fail_over", "seconds_to_fail_back")
    assert [None, None, None, 1.0, None] == [found[name] for name in figures]
    assert (1, 1, 0.5, 1) == tuple(found[name] for name in ("accepted", "refused", "availability", "still_waiting"))
    assert found["seconds_to_drain"] is None


def test_flapping_is_two_outages_and_a_failure_belongs_to_its_own(tables: Tables) -> None:
    found = sorted((row for row in tables.outages if row["entity"] == "flapping"), key=lambda row: row["started_at"])
    assert [(naive(10), naive(20)), (naive(30), naive(40))] == [(row["started_at"], row["ended_at"]) for row in found]
    assert [naive(10), naive(30)] == [row["first_failure_at"] for row in found]
    assert [5.0, None] == [row["seconds_to_fail_back"] for row in found]


def test_suspicion_that_passed_is_an_outage_without_failover(tables: Tables) -> None:
    found = tables.outage("suspected-by-two")
    assert (None, 0, 10.0) == (found["unavailable_at"], found["failovers"], found["seconds"])


def test_detection_counts_from_the_first_failure_since_a_success(tables: Tables) -> None:
    found = tables.outage("blamed-late")
    assert (naive(8), 2.0) == (found["first_failure_at"], found["seconds_to_detect"])


def test_an_outage_made_by_hand_has_no_failure(tables: Tables) -> None:
    found = tables.outage("by-hand")
    assert (None, None, "rehearsal") == (found["first_failure_at"], found["seconds_to_detect"], found["reason"])


def test_sends_are_not_told_apart_by_key(tables: Tables) -> None:
    found = tables.outage("keyed")
    assert found["key"]
    assert (naive(10), 10.0) == (found["first_failure_at"], found["seconds"])
    assert {None} == {found[name] for name in ("accepted", "refused", "diverted", "availability", "p50")}


def test_an_entity_that_never_failed_has_no_outage(tables: Tables) -> None:
    assert [] == [row for row in tables.outages if row["entity"] in ("quiet", "receipts-only")]


# -- sends


def test_over_all_a_callers_mistake_does_not_count_against_availability(tables: Tables) -> None:
    (found,) = [row for row in tables.sends if row["entity"] == "quiet"]
    # fmt: off
    assert {
        "entity": "quiet", "accepted": 2, "diverted": 0, "refused": 0, "mistakes": 1, "availability": 1.0,
        "p50": 0.01, "p95": 0.03, "p99": 0.03, "slowest": 0.03,
    } == found
    # fmt: on


def test_sends_by_time_count_each_outcome_in_its_bucket(tables: Tables) -> None:
    found = [row for row in tables.by_time if row["entity"] == "whole"]
    names = ("bucket", "bucket_seconds", "accepted", "diverted", "refused", "mistakes")
    assert [
        (naive(0), 10, 2, 0, 0, 0),
        (naive(10), 10, 0, 0, 1, 0),
        (naive(40), 10, 0, 0, 1, 0),
        (naive(70), 10, 1, 1, 0, 0),
        (naive(100), 10, 1, 1, 0, 0),
        (naive(110), 10, 1, 1, 0, 1),
        (naive(130), 10, 2, 1, 0, 0),
    ] == sorted(tuple(row[name] for name in names) for row in found)


# -- the backlog


@pytest.mark.parametrize(
    ("entity", "expected"),
    [
        ("whole", [(70, 1, 0, 1), (100, 1, 0, 2), (110, 1, 0, 3), (130, 1, 4, 0)]),
        ("came-again", [(10, 1, 0, 1), (20, 0, 1, 0), (40, 1, 0, 1)]),
        ("from-before", [(30, 1, 0, 1), (50, 0, 1, 0)]),
        ("dead", [(10, 1, 0, 1), (20, 0, 1, 0)]),
        ("no-end", [(1000, 1, 0, 1)]),
    ],
)
def test_the_drain_curve_of(tables: Tables, entity: str, expected: list[tuple[int, int, int, int]]) -> None:
    found = [row for row in tables.drain if row["entity"] == entity]
    assert [(naive(at), *counts) for at, *counts in expected] == sorted(
        (row["bucket"], row["entered"], row["left"], row["depth"]) for row in found
    )


def test_time_with_something_waiting_is_counted_once_by_queue(tables: Tables) -> None:
    """Queue 0 held something from 70.5 to 132 and from 130.25 to 134; queue 4 still does."""
    found = {row["backlog_queue"][-1]: row["waiting_seconds"] for row in tables.waiting}
    assert {"0": 63.5, "1": 23.0, "2": 1970.0, "3": 35.0, "4": 999.0, "5": 1988.0} == found


def test_without_events_the_tables_are_empty(spark: SparkSession) -> None:
    """Nor does the width of a step, which goes by the length of the records, fall over there being none."""
    events = frame(spark)
    lines, stayed = time_line(events), stays(events)
    for table in (outages(events, lines, stayed), sends_by_time(events), drain_curve(events, stayed)):
        assert table.isEmpty()
