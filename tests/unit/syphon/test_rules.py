"""When to rest, how fast to go, when a pass is worth its operations, how long it will take."""

from __future__ import annotations

import math
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.domain import pace as pacing
from shared.domain.aside import Aside
from shared.domain.message import Message
from shared.domain.pace import Pace
from shared.domain.pair import EntityPath
from shared.domain.partitions import PARTITION_SHIFT
from shared.domain.syphon import (
    REST_MAX,
    SLOWEST_RATE,
    STILL_AFTER,
    BacklogMessage,
    Drain,
    Passes,
    advance,
    as_of_now,
    has_come_to,
    horizon,
    next_pass,
    rest_after,
    time_left,
)
from tests.support.sending import NOON

A, B = EntityPath("a"), EntityPath("b")
SLACK = timedelta(seconds=32)
JITTERS = st.floats(min_value=0, max_value=1, exclude_max=True)
SECONDS = st.integers(min_value=-3600, max_value=3600).map(lambda seconds: timedelta(seconds=seconds))


@given(jitters=st.lists(JITTERS, min_size=1, max_size=40))
def test_a_destination_rests_longer_after_each_failure_and_never_for_long(jitters: list[float]) -> None:
    rest, longest = None, timedelta(0)
    for jitter in jitters:
        rest = rest_after(rest, now=NOON, jitter=jitter)
        duration = rest.until - NOON
        assert timedelta(seconds=0.75) <= duration <= REST_MAX
        assert duration >= longest * 0.75
        longest = max(longest, duration)


def test_without_a_limit_nothing_waits() -> None:
    pace, wait = pacing.take(Pace(limit=None, at=NOON), 1_000_000, now=NOON)
    assert timedelta(0) == wait
    assert pace.rate is None


@given(
    limit=st.integers(min_value=1, max_value=5000),
    batches=st.lists(st.tuples(st.integers(1, 100), st.floats(min_value=0, max_value=3)), min_size=1, max_size=50),
)
def test_a_limit_is_kept_over_any_time_however_the_batches_come(
    limit: int, batches: list[tuple[int, float]]
) -> None:
    pace, now, sent = Pace(limit=limit, at=NOON), NOON, 0
    for count, pause in batches:
        now += timedelta(seconds=pause)
        pace, wait = pacing.take(pace, count, now=now)
        now += wait
        sent += count
        allowed = (now - NOON).total_seconds() * limit + limit * pacing.BURST_SECONDS
        assert sent <= allowed + 1e-3 * limit + 1


def test_throttling_halves_the_pace_and_a_minute_without_it_forgets() -> None:
    pace = pacing.throttled(Pace(limit=None, at=NOON), now=NOON, observed=1000)
    assert 500 == pace.rate
    pace = pacing.throttled(pace, now=NOON, observed=9999)
    assert 250 == pace.rate
    pace, _ = pacing.take(pace, 1, now=NOON + timedelta(seconds=10))
    assert pace.rate is not None
    assert 250 < pace.rate < 1000
    pace, _ = pacing.take(pace, 1, now=NOON + timedelta(minutes=1))
    assert pace.rate is None


@given(observed=st.floats(min_value=0, max_value=1e6), times=st.integers(1, 60))
def test_however_often_it_is_throttled_it_never_stands_still(observed: float, times: int) -> None:
    pace = Pace(limit=None, at=NOON)
    for _ in range(times):
        pace = pacing.throttled(pace, now=NOON, observed=observed)
    assert pace.rate is not None
    assert pace.rate >= pacing.SLOWEST


def test_a_configured_limit_wins_over_a_learned_one_that_is_higher() -> None:
    pace = pacing.throttled(Pace(limit=100, at=NOON), now=NOON, observed=1000)
    assert 100 == pace.rate


@given(
    sent=SECONDS,
    recoveries=st.lists(SECONDS, max_size=5),
)
def test_what_may_be_deliverable_is_never_behind_the_horizon(sent: timedelta, recoveries: list[timedelta]) -> None:
    """A message came to the backlog because its entity was unavailable to its sender, at most SLACK ago."""
    last = horizon((NOON + one for one in recoveries), slack=SLACK)
    for recovery in recoveries:
        if NOON + sent <= NOON + recovery + SLACK:
            assert last is not None
            assert NOON + sent <= last


def test_without_any_recovery_no_pass_is_made() -> None:
    assert None is next_pass(Passes(), oldest=NOON, recoveries=[], slack=SLACK, now=NOON + timedelta(days=1))


def test_a_recovery_before_the_oldest_message_is_no_reason_for_a_pass() -> None:
    recovered = NOON - timedelta(minutes=5)
    assert None is next_pass(Passes(), oldest=NOON, recoveries=[recovered], slack=SLACK, now=NOON)


def test_a_recovery_gets_one_pass_at_once_and_one_for_stragglers() -> None:
    recovered = NOON + timedelta(minutes=1)
    passes, made = Passes(), []
    for second in range(600):
        now = recovered + timedelta(seconds=second)
        after = next_pass(passes, oldest=NOON, recoveries=[recovered], slack=SLACK, now=now)
        if after is not None:
            passes = after
            made.append(now - recovered)
    assert [timedelta(0), SLACK] == made


@given(recoveries=st.lists(st.integers(0, 600), min_size=1, max_size=6))
def test_passes_are_at_most_two_for_each_recovery(recoveries: list[int]) -> None:
    passes, made = Passes(), 0
    for second in range(900):
        known = [NOON + timedelta(seconds=one) for one in recoveries if one <= second]
        now = NOON + timedelta(seconds=second)
        after = next_pass(passes, oldest=NOON, recoveries=known, slack=SLACK, now=now)
        passes, made = (after, made + 1) if after is not None else (passes, made)
    assert 1 <= made <= 2 * len(set(recoveries))


@given(numbers=st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 1000)), unique_by=lambda one: one[1]))
def test_what_is_aside_is_fetched_once_oldest_first(numbers: list[tuple[EntityPath, int]]) -> None:
    aside = Aside()
    for path, number in [*numbers, *numbers]:
        aside.add(path, number)
    assert len(numbers) == len(aside)
    for path in (A, B):
        wanted = sorted(number for one, number in numbers if one == path)
        taken = []
        while batch := aside.take(path, 7):
            taken += batch
        assert wanted == taken
    assert not aside
    assert () == aside.destinations()


def test_what_cannot_be_remembered_is_not_taken_for_nothing() -> None:
    aside = Aside(remembered_max=2)
    aside.add_all(A, [1, 2, 3])
    assert ([1, 2], True) == (aside.take(A, 10), aside.has_forgotten)


@given(moves=st.lists(st.tuples(st.integers(0, 10_000), st.floats(0.1, 60)), min_size=1, max_size=30))
def test_progress_counts_everything_and_its_rate_is_between_the_slowest_and_the_fastest(
    moves: list[tuple[int, float]],
) -> None:
    drain, now = Drain(queue=A, at=NOON), NOON
    for forwarded, seconds in moves:
        now += timedelta(seconds=seconds)
        drain = advance(drain, forwarded=forwarded, now=now)
    fastest = max(forwarded / seconds for forwarded, seconds in moves)
    # What comes first counts as sent in a second at least.
    slowest = min(forwarded / max(seconds, 1.0) for forwarded, seconds in moves)
    assert sum(forwarded for forwarded, _ in moves) == drain.forwarded
    assert slowest * 0.999 - 1e-3 <= drain.rate <= fastest * 1.001 + 1e-3


@given(waiting=st.integers(0, 10**9), rate=st.floats(min_value=0, max_value=1e5))
def test_time_left_is_told_only_where_something_moves(waiting: int, rate: float) -> None:
    left = time_left(waiting, rate)
    if waiting == 0:
        assert timedelta(0) == left
    elif rate >= SLOWEST_RATE:
        assert left is not None
        assert math.isclose(waiting / rate, left.total_seconds(), rel_tol=1e-6, abs_tol=1e-5)
    else:
        assert left is None


@given(rate=st.floats(1, 1e5), seconds=st.lists(st.floats(1, 20), min_size=1, max_size=60))
def test_where_nothing_has_moved_for_a_while_no_end_is_promised(rate: float, seconds: list[float]) -> None:
    """A rate that only fades would say that the end is weeks away, and later that it is years away."""
    drain = Drain(queue=A, at=NOON, rate=rate, moved_at=NOON)
    now = NOON
    for one in seconds:
        now += timedelta(seconds=one)
        drain = advance(drain, forwarded=0, now=now)
        assert (time_left(1000, drain.rate) is None) or now - NOON < STILL_AFTER


def test_the_last_word_of_an_instance_that_is_gone_promises_nothing() -> None:
    told = Drain(queue=A, at=NOON, forwarded=70, rate=300.0)
    assert 300.0 == as_of_now(told, NOON + STILL_AFTER / 2).rate
    later = as_of_now(told, NOON + STILL_AFTER)
    assert (0.0, 70) == (later.rate, later.forwarded)


@given(target=st.integers(1, 1000), numbers=st.lists(st.integers(1, 1000), max_size=5), partition=st.integers(0, 15))
def test_a_target_is_come_to_by_its_own_partition_only(target: int, numbers: list[int], partition: int) -> None:
    def batch(of: int) -> list[BacklogMessage]:
        return [
            BacklogMessage(sequence_number=(of << PARTITION_SHIFT) + number, enqueued_at=NOON, message=Message())
            for number in numbers
        ]

    wanted = (partition << PARTITION_SHIFT) + target
    assert has_come_to(wanted, batch(partition)) is (max(numbers, default=0) >= target)
    assert not has_come_to(wanted, batch(partition + 1))
