"""What closing, faulting and opening make of a factory, and what one side owes the other."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.domain.factory import (
    BY_LENGTH_MAX,
    COORDINATOR,
    REASON_LENGTH_MAX,
    Cause,
    Factories,
    Factory,
    FactoryState,
    FaultPartner,
    Nothing,
    WaitUntil,
    close,
    fault,
    fault_partner,
    judge_partner,
    open_again,
)
from shared.domain.pair import Side
from tests.support.closing import GRACE, NOON

CAUSE = Cause(reason="maintenance", by="ann", at=NOON)
LATER = Cause(reason="something else", by="bob", at=NOON + timedelta(hours=1))
CLOSED, FAULTED, OPEN = close(Factory(), CAUSE), fault(Factory(), CAUSE), Factory()


@pytest.mark.parametrize(("change", "state"), [(close, FactoryState.CLOSED), (fault, FactoryState.FAULTED)])
def test_an_open_factory_goes_down_with_reason_author_and_time(change, state) -> None:  # type: ignore[no-untyped-def]
    expected = Factory(state=state, since=NOON, reason="maintenance", by="ann", version=1)
    assert expected == change(Factory(), CAUSE)


@pytest.mark.parametrize("down", [CLOSED, FAULTED])
@pytest.mark.parametrize("change", [close, fault])
def test_the_first_cause_is_kept_until_the_pair_is_opened(down, change) -> None:  # type: ignore[no-untyped-def]
    assert down == change(down, LATER)


@pytest.mark.parametrize(
    "before", [Factories(primary=CLOSED), Factories(secondary=FAULTED), Factories(primary=CLOSED, secondary=FAULTED)]
)
def test_opening_opens_both_sides_and_counts_as_a_change_of_both(before: Factories) -> None:
    after = open_again(before, LATER)
    assert (FactoryState.OPEN, FactoryState.OPEN) == (after.primary.state, after.secondary.state)
    assert all(after.of(side).version == before.of(side).version + 1 for side in Side)


def test_opening_an_open_pair_changes_nothing() -> None:
    assert Factories() == open_again(Factories(), CAUSE)


def test_long_and_ragged_texts_are_cut_to_one_line() -> None:
    factory = close(Factory(), Cause(reason="a\n\tb " + "x" * 1000, by="y" * 1000, at=NOON))
    assert factory.reason.startswith("a b xxx")
    assert (REASON_LENGTH_MAX, BY_LENGTH_MAX) == (len(factory.reason), len(factory.by))


@pytest.mark.parametrize("down", [CLOSED, FAULTED])
@pytest.mark.parametrize("side", list(Side))
def test_the_partner_has_the_grace_to_follow_and_not_a_moment_more(side: Side, down: Factory) -> None:
    both = Factories().having(side, down)
    due = NOON + GRACE
    wait = judge_partner(both.primary, both.secondary, due - timedelta(microseconds=1), GRACE)
    end = judge_partner(both.primary, both.secondary, due, GRACE)
    assert WaitUntil(at=due, partner=side.partner) == wait
    assert isinstance(end, FaultPartner)
    assert side.partner is end.side


def test_the_reason_names_the_other_side_its_state_and_its_reason() -> None:
    verdict = judge_partner(CLOSED, OPEN, NOON + GRACE, GRACE)
    text = "The primary side is closed and this side did not follow within 5 s. Reason given there: maintenance"
    assert FaultPartner(side=Side.SECONDARY, reason=text) == verdict
    verdict = judge_partner(OPEN, Factory(state=FactoryState.FAULTED, since=NOON, version=1), NOON + GRACE, GRACE)
    text = "The secondary side is faulted and this side did not follow within 5 s."
    assert FaultPartner(side=Side.PRIMARY, reason=text) == verdict


@pytest.mark.parametrize(
    "both", [Factories(), Factories(primary=CLOSED, secondary=CLOSED), Factories(primary=FAULTED, secondary=CLOSED)]
)
def test_nothing_is_owed_when_both_are_open_or_neither(both: Factories) -> None:
    assert Nothing() == judge_partner(both.primary, both.secondary, NOON + timedelta(days=1), GRACE)


def test_a_side_down_since_nobody_knows_when_has_waited_long_enough() -> None:
    unknown = Factory(state=FactoryState.CLOSED, version=1)
    assert isinstance(judge_partner(unknown, OPEN, NOON, GRACE), FaultPartner)


def test_a_grace_of_zero_faults_the_partner_at_once() -> None:
    assert isinstance(judge_partner(CLOSED, OPEN, NOON, timedelta(0)), FaultPartner)


def test_carrying_out_the_verdict_twice_is_the_same_as_once() -> None:
    once = fault_partner(Factories(primary=CLOSED), NOON + GRACE, GRACE)
    assert (FactoryState.FAULTED, COORDINATOR, 1) == (once.secondary.state, once.secondary.by, once.secondary.version)
    assert once == fault_partner(once, NOON + GRACE * 2, GRACE)


def test_only_a_pair_with_no_side_open_is_down() -> None:
    pairs = [
        Factories(),
        Factories(primary=CLOSED),
        Factories(secondary=FAULTED),
        Factories(primary=CLOSED, secondary=FAULTED),
    ]
    assert [False, False, False, True] == [both.is_down for both in pairs]
