"""What a ping is, when the next one is due, and when an entity has recovered."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.host.schedule import parse_schedule
from shared.domain.durations import parse_duration
from shared.domain.message import DataBody
from shared.domain.ping import (
    Pinged,
    after_ping,
    has_recovered,
    is_due,
    ping_deadline,
    ping_message,
    schedule_of,
    tick_of,
)
from tests.support.sending import NOON

INTERVALS = st.integers(min_value=1, max_value=1800).map(lambda seconds: timedelta(seconds=seconds))


def test_a_ping_is_empty_lives_a_second_and_has_a_session() -> None:
    ping = ping_message(message_id="m", session_id="s")
    assert DataBody((b"",)) == ping.body
    assert 1000 == ping.header.time_to_live_ms
    assert ("application/vnd.ms-servicebus-ping", "s", "m") == (
        ping.properties.content_type,
        ping.properties.group_id,
        ping.properties.message_id,
    )
    assert {} == ping.application_properties


@pytest.mark.parametrize(
    ("interval", "schedule"),
    [
        ("PT1S", "*/1 * * * * *"),
        ("PT7S", "*/1 * * * * *"),
        ("PT10S", "*/10 * * * * *"),
        ("PT45S", "*/15 * * * * *"),
        ("PT1M", "0 */1 * * * *"),
        ("PT1M30S", "*/30 * * * * *"),
        ("PT5M", "0 */5 * * * *"),
        ("PT30M", "0 */30 * * * *"),
    ],
)
def test_the_timer_ticks_when_a_ping_may_be_due(interval: str, schedule: str) -> None:
    assert schedule == schedule_of(parse_duration(interval))


@given(interval=INTERVALS)
def test_every_entity_is_pinged_once_in_each_interval_and_never_later(interval: timedelta) -> None:
    """Ticks as the host computes them from the schedule, for as long as six intervals."""
    schedule = parse_schedule(schedule_of(interval))
    tick, pings, last = NOON, [], None
    while tick < NOON + 6 * interval:
        tick = schedule.next_after(tick)
        if is_due(last, now=tick, interval=interval):
            last = after_ping(last, succeeded=False, now=tick)
            pings.append(tick)
    gaps = {later - earlier for earlier, later in itertools.pairwise(pings)}
    assert gaps <= {interval}
    assert pings[0] - NOON <= interval


@given(interval=INTERVALS, jitter=st.floats(min_value=-0.4, max_value=0.4))
def test_a_timer_that_is_a_little_early_or_late_skips_no_ping(interval: timedelta, jitter: float) -> None:
    last = Pinged(at=NOON)
    assert is_due(last, now=NOON + interval + jitter * tick_of(interval), interval=interval)


@given(results=st.lists(st.booleans(), max_size=20), needed=st.integers(min_value=1, max_value=5))
def test_an_entity_has_recovered_after_so_many_successes_in_a_row(results: list[bool], needed: int) -> None:
    pinged = None
    for succeeded in results:
        pinged = after_ping(pinged, succeeded=succeeded, now=NOON)
    in_a_row = len(results) - len("".join("1" if one else "0" for one in results).rstrip("1"))
    if pinged is not None:
        assert (in_a_row >= needed) == has_recovered(pinged, successes_needed=needed)


@given(interval=INTERVALS, attempt=st.floats(min_value=0.1, max_value=300))
def test_a_hung_ping_is_over_before_the_next_is_due(interval: timedelta, attempt: float) -> None:
    deadline = ping_deadline(timedelta(seconds=attempt), interval)
    assert timedelta(0) < deadline <= min(interval, timedelta(seconds=attempt))
