"""Whatever the two factories are and whatever the time: both sides or neither."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.factory import (
    Cause,
    Factories,
    Factory,
    FactoryState,
    FaultPartner,
    Nothing,
    WaitUntil,
    changed_sides,
    close,
    fault,
    fault_partner,
    judge_partner,
    open_again,
)
from shared.domain.pair import Side
from shared.domain.proofs import PROOFS_NEEDED, Proof, Proofs, after_proof
from tests.support.closing import NOON

moments = st.integers(-(10**9), 10**9).map(lambda us: NOON + timedelta(microseconds=us))
graces = st.integers(0, 60_000).map(lambda ms: timedelta(milliseconds=ms))
factories = st.builds(
    Factory,
    state=st.sampled_from(FactoryState),
    since=st.none() | moments,
    reason=st.text(max_size=700),
    by=st.text(max_size=20),
    version=st.integers(0, 100),
)
pairs = st.builds(Factories, primary=factories, secondary=factories)
causes = st.builds(Cause, reason=st.text(max_size=700), by=st.text(max_size=200), at=moments)


def mirrored(both: Factories) -> Factories:
    return Factories(primary=both.secondary, secondary=both.primary)


@given(pairs, moments, graces)
def test_there_is_something_to_do_exactly_when_one_side_is_open(
    both: Factories, now: datetime, grace: timedelta
) -> None:
    verdict = judge_partner(both.primary, both.secondary, now, grace)
    assert isinstance(verdict, Nothing) is (both.primary.is_open == both.secondary.is_open)


@given(pairs, moments, graces)
def test_only_the_open_side_is_ever_waited_for_or_faulted(both: Factories, now: datetime, grace: timedelta) -> None:
    match judge_partner(both.primary, both.secondary, now, grace):
        case WaitUntil(at=at, partner=partner):
            assert now < at
            assert both.of(partner).is_open
        case FaultPartner(side=side, reason=reason):
            assert both.of(side).is_open
            assert not both.of(side.partner).is_open
            assert f"The {side.partner.value} side is " in reason


@given(pairs, moments, graces)
def test_the_judge_treats_both_sides_alike(both: Factories, now: datetime, grace: timedelta) -> None:
    straight = judge_partner(both.primary, both.secondary, now, grace)
    match judge_partner(both.secondary, both.primary, now, grace):
        case Nothing():
            assert Nothing() == straight
        case WaitUntil(at=at, partner=partner):
            assert WaitUntil(at=at, partner=partner.partner) == straight
        case FaultPartner(side=side):
            assert isinstance(straight, FaultPartner)
            assert side.partner is straight.side


@given(pairs, moments, graces)
def test_when_the_wait_is_over_the_verdict_leads_to_an_end(both: Factories, now: datetime, grace: timedelta) -> None:
    """What is waited for comes, and what is carried out leaves nothing to do: the coordination ends."""
    verdict = judge_partner(both.primary, both.secondary, now, grace)
    then = verdict.at if isinstance(verdict, WaitUntil) else now
    after = fault_partner(both, then, grace)
    assert Nothing() == judge_partner(after.primary, after.secondary, then, grace)
    assert after == fault_partner(after, then, grace)
    assert len(changed_sides(both, after)) == (0 if isinstance(verdict, Nothing) else 1)


@given(pairs, st.sampled_from(Side), st.sampled_from([close, fault]), causes, causes)
def test_going_down_is_idempotent_and_touches_one_side(both, side, change, cause, later) -> None:  # type: ignore[no-untyped-def]
    after = both.having(side, change(both.of(side), cause))
    assert both.of(side.partner) == after.of(side.partner)
    assert not after.of(side).is_open
    assert after == after.having(side, change(after.of(side), later))
    assert mirrored(after) == mirrored(both).having(side.partner, change(both.of(side), cause))


@given(pairs, causes, causes)
def test_opening_is_idempotent_and_leaves_nothing_to_do(both: Factories, cause: Cause, later: Cause) -> None:
    after = open_again(both, cause)
    assert (True, True) == (after.primary.is_open, after.secondary.is_open)
    assert after == open_again(after, later)


@given(pairs, causes, st.sampled_from(Side), st.sampled_from(["close", "fault", "open"]))
def test_a_state_never_comes_back_under_the_same_version(both: Factories, cause: Cause, side: Side, what: str) -> None:
    after = {
        "close": lambda: both.having(side, close(both.of(side), cause)),
        "fault": lambda: both.having(side, fault(both.of(side), cause)),
        "open": lambda: open_again(both, cause),
    }[what]()
    for one in changed_sides(both, after):
        assert both.of(one).version + 1 == after.of(one).version


@given(st.lists(st.tuples(st.sampled_from(Proof), st.integers(0, 300_000)), max_size=30))
def test_a_side_is_never_faulted_for_less_than_the_proofs_it_takes(steps: list[tuple[Proof, int]]) -> None:
    known: Proofs | None = None
    now, in_a_row, last = NOON, 0, None
    for kind, milliseconds in steps:
        now += timedelta(milliseconds=milliseconds)
        known = after_proof(known, kind, now)
        in_a_row = in_a_row + 1 if kind is last else 1
        last = kind
        assert known.count <= in_a_row
        assert known.suffice is (known.count >= PROOFS_NEEDED)
