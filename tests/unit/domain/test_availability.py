from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from shared.domain.availability import (
    TRANSITIONS,
    Availability,
    Available,
    Event,
    Moment,
    Route,
    Suspect,
    Unavailable,
    route,
    transition,
)
from shared.domain.availability_diagram import page
from tests.support.app_process import ROOT
from tests.support.sending import NOON

MINUTE = timedelta(minutes=1)
AVAILABLE, SUSPECT, UNAVAILABLE = (
    Available(),
    Suspect(since=NOON, reason="time-out"),
    Unavailable(since=NOON, reason="time-out"),
)


def at(after: timedelta = timedelta(0), interval: timedelta = MINUTE, reason: str = "time-out") -> Moment:
    return Moment(now=NOON + after, failover_interval=interval, reason=reason)


def test_a_failure_makes_suspect_and_a_success_clears_it() -> None:
    suspect = transition(AVAILABLE, Event.SEND_FAILED, at())
    assert SUSPECT == suspect
    assert Available(since=NOON + MINUTE / 2) == transition(suspect, Event.SEND_SUCCEEDED, at(MINUTE / 2))


def test_failover_engages_when_the_interval_has_passed_without_a_success() -> None:
    just_before = MINUTE - timedelta(microseconds=1)
    assert SUSPECT == transition(SUSPECT, Event.TICK, at(just_before))
    assert SUSPECT == transition(SUSPECT, Event.SEND_FAILED, at(just_before))
    assert Unavailable(since=NOON + MINUTE, reason="time-out") == transition(SUSPECT, Event.TICK, at(MINUTE, reason=""))
    assert isinstance(transition(SUSPECT, Event.SEND_FAILED, at(MINUTE)), Unavailable)


def test_an_interval_of_zero_fails_over_at_the_first_failure() -> None:
    assert UNAVAILABLE == transition(AVAILABLE, Event.SEND_FAILED, at(interval=timedelta(0)))


@pytest.mark.parametrize("event", [Event.PING_SUCCEEDED, Event.MARKED_HEALTHY])
def test_a_ping_or_an_operator_brings_an_entity_back(event: Event) -> None:
    assert Available(since=NOON + MINUTE) == transition(UNAVAILABLE, event, at(MINUTE))


def test_only_a_ping_or_an_operator_brings_an_entity_back() -> None:
    others = set(Event) - {Event.PING_SUCCEEDED, Event.ENTITY_UNKNOWN, Event.MARKED_HEALTHY, Event.KEY_HEALED}
    assert {UNAVAILABLE} == {transition(UNAVAILABLE, event, at(MINUTE * 100)) for event in others}


def test_a_key_that_is_healed_is_bypassed_until_its_backlog_is_drained() -> None:
    healed = transition(UNAVAILABLE, Event.KEY_HEALED, at(MINUTE))
    assert isinstance(healed, Unavailable)
    assert (NOON + MINUTE, Route.BACKLOG) == (healed.healed_at, route(healed))
    assert healed is transition(healed, Event.KEY_HEALED, at(MINUTE * 2))
    assert Available(since=NOON + MINUTE * 2) == transition(healed, Event.KEY_DRAINED, at(MINUTE * 2))


def test_an_operator_can_rehearse_a_failover() -> None:
    for state in (AVAILABLE, SUSPECT):
        assert isinstance(transition(state, Event.MARKED_UNAVAILABLE, at(reason="rehearsal")), Unavailable)


@pytest.mark.parametrize(
    ("state", "expected"), [(AVAILABLE, Route.PRIMARY), (SUSPECT, Route.PRIMARY), (UNAVAILABLE, Route.BACKLOG)]
)
def test_only_an_unavailable_entity_is_bypassed(state: Availability, expected: Route) -> None:
    assert expected == route(state)


def test_pairs_without_a_row_change_nothing() -> None:
    states: tuple[Availability, ...] = (AVAILABLE, SUSPECT, UNAVAILABLE)
    for state, event in itertools.product(states, Event):
        if (type(state), event) not in TRANSITIONS:
            assert state is transition(state, event, at(MINUTE * 100))


def test_the_diagram_is_current() -> None:
    drawn = (ROOT / "docs" / "availability.md").read_text()
    assert page() == drawn, "call python scripts/draw_availability.py"
