"""Closing, faulting and opening as services: what is written, told, and left alone."""

from __future__ import annotations

import pytest

from shared.domain.factory import Cause, FactoryState, close, open_again
from shared.domain.pair import Side
from shared.errors import StateUnreachable
from tests.support.closing import GRACE, NOON, ClosingParts


@pytest.mark.parametrize("side", list(Side))
async def test_a_change_is_written_and_takes_effect_in_this_instance_at_once(parts: ClosingParts, side: Side) -> None:
    changed = await parts.closing.close(side, reason="maintenance", by="ann")
    assert [side] == changed.sides
    assert FactoryState.CLOSED == parts.store.both.of(side).state == parts.state.factories[side].state


async def test_every_change_is_told_once_with_its_reason_and_author(parts: ClosingParts) -> None:
    await parts.closing.close(Side.PRIMARY, reason="maintenance", by="ann")
    await parts.closing.close(Side.PRIMARY, reason="again", by="bob")
    await parts.closing.fault(Side.SECONDARY, reason="broken", by="bob")
    await parts.closing.open(reason="repaired", by="ann")
    expected = [
        ("primary", "open", "closed"),
        ("secondary", "open", "faulted"),
        ("primary", "closed", "open"),
        ("secondary", "faulted", "open"),
    ]
    assert expected == parts.telemetry.changes()


async def test_a_change_that_somebody_else_was_faster_with_is_decided_again(parts: ClosingParts) -> None:
    """Between the decision to fault the partner and its writing, an operator opens the pair: nobody is faulted."""
    await parts.closing.close(Side.PRIMARY, reason="maintenance", by="ann")
    parts.clock.advance(5)

    def opens() -> None:
        parts.store.both = open_again(parts.store.both, Cause(reason="", by="ann", at=parts.clock.now()))

    parts.store.rival = opens
    changed = await parts.closing.fault_partner(parts.clock.now(), GRACE)
    assert ([], ("open", "open")) == (changed.sides, await parts.states())


async def test_both_sides_closed_at_once_lose_neither(parts: ClosingParts) -> None:
    def closes() -> None:
        both = parts.store.both
        parts.store.both = both.having(
            Side.SECONDARY, close(both.secondary, Cause(reason="other process", by="bob", at=NOON))
        )

    parts.store.rival = closes
    await parts.closing.close(Side.PRIMARY, reason="maintenance", by="ann")
    assert ("closed", "closed") == await parts.states()
    assert "other process" == parts.store.both.secondary.reason


async def test_without_shared_state_nothing_is_changed_or_told(parts: ClosingParts) -> None:
    parts.store.broken = True
    with pytest.raises(StateUnreachable, match="nothing was changed: no answer within 5 s"):
        await parts.closing.close(Side.PRIMARY, reason="maintenance", by="ann")
    with pytest.raises(StateUnreachable):
        await parts.closing.look()
    assert ([], True) == (parts.telemetry.changes(), parts.state.factories[Side.PRIMARY].is_open)
