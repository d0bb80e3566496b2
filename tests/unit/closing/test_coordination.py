"""The orchestration, turn by turn: at given times, replayed at every step, interrupted between any two."""

from __future__ import annotations

import itertools
import json
from datetime import timedelta

import pytest

from functions.coordination import ACTIVITY_TRIES_MAX
from functions.coordinator import change_event
from local.host.durable.model import Status
from shared.domain.pair import Side
from tests.support.closing import GRACE, NOON, ClosingParts, states_in
from tests.support.closing_durable import DurableRun

# The library warns of an event that nobody waits for, which a change that comes late is.
pytestmark = pytest.mark.filterwarnings("ignore:Potential duplicate Task completion")

SIDES = list(Side)
VERBS = ["close", "fault"]
DOWN = {"close": "closed", "fault": "faulted"}


async def go_down(parts: ClosingParts, verb: str, side: Side, reason: str = "maintenance") -> str:
    """Closes or faults a side; the event that tells of it."""
    change = parts.closing.close if verb == "close" else parts.closing.fault
    changed = await change(side, reason=reason, by="ann")
    return change_event(side, changed.before.of(side))


def by_side(first: Side, of_first: str, of_other: str) -> tuple[str, str]:
    return (of_first, of_other) if first is Side.PRIMARY else (of_other, of_first)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("verb", VERBS)
async def test_a_partner_that_does_not_follow_is_faulted_when_the_grace_ends(
    parts: ClosingParts, run: DurableRun, verb: str, side: Side
) -> None:
    await go_down(parts, verb, side)
    await run.settle()
    assert (NOON + GRACE, True) == (run.fire_at(), run.is_running)

    parts.clock.advance(4.999)
    await run.settle()
    assert by_side(side, DOWN[verb], "open") == await parts.states()

    parts.clock.advance(0.001)
    await run.settle()
    assert (Status.COMPLETED, by_side(side, DOWN[verb], "faulted")) == (run.instance.status, await parts.states())
    partner = parts.store.both.of(side.partner)
    assert partner.reason.startswith(f"The {side.value} side is {DOWN[verb]} ")
    assert (NOON + GRACE, 1) == (partner.since, partner.version)
    assert await parts.states() == states_in(run.output)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("verb", VERBS)
async def test_a_partner_that_follows_within_the_grace_is_left_as_it_is(
    parts: ClosingParts, run: DurableRun, verb: str, side: Side
) -> None:
    await go_down(parts, verb, side)
    await run.settle()
    parts.clock.advance(4)
    run.raise_event(await go_down(parts, verb, side.partner))
    await run.settle()
    assert (Status.COMPLETED, (DOWN[verb], DOWN[verb])) == (run.instance.status, await parts.states())
    assert None is run.fire_at(), "the timer is cancelled: an orchestration does not end before its timers"
    assert ["read_factories", "read_factories"] == run.ran


async def test_a_partner_that_followed_unheard_is_left_as_it_is(parts: ClosingParts, run: DurableRun) -> None:
    """Events are hints: what is true is read, also when nobody said so."""
    await go_down(parts, "close", Side.PRIMARY)
    await run.settle()
    await go_down(parts, "close", Side.SECONDARY)
    parts.clock.advance(5)
    await run.settle()
    assert (Status.COMPLETED, ("closed", "closed")) == (run.instance.status, await parts.states())


async def test_both_at_once_need_nothing(parts: ClosingParts, run: DurableRun) -> None:
    await go_down(parts, "close", Side.PRIMARY)
    run.raise_event(await go_down(parts, "fault", Side.SECONDARY))
    await run.settle()
    assert (Status.COMPLETED, ("closed", "faulted")) == (run.instance.status, await parts.states())
    assert ["read_factories"] == run.ran


async def test_an_event_that_comes_before_anybody_waits_wakes_once(parts: ClosingParts, run: DurableRun) -> None:
    """The library hands such an event to every later wait of its name: a name that came twice would be a hot loop."""
    await go_down(parts, "close", Side.PRIMARY)
    run.raise_event("secondary-0-is-over")
    await run.settle()
    assert (True, ("closed", "open")) == (run.is_running, await parts.states())
    run.raise_event("secondary-0-is-over")
    await run.settle()
    parts.clock.advance(5)
    await run.settle()
    assert (Status.COMPLETED, ("closed", "faulted")) == (run.instance.status, await parts.states())


@pytest.mark.parametrize("told", [True, False])
async def test_opening_ends_the_wait_and_faults_nobody(parts: ClosingParts, run: DurableRun, told: bool) -> None:
    await go_down(parts, "close", Side.PRIMARY)
    await run.settle()
    changed = await parts.closing.open(reason="", by="ann")
    if told:
        run.raise_event(change_event(Side.SECONDARY, changed.before.secondary))
    else:
        parts.clock.advance(5)
    await run.settle()
    assert (Status.COMPLETED, ("open", "open")) == (run.instance.status, await parts.states())


async def test_a_side_closed_again_after_opening_has_a_grace_of_its_own(parts: ClosingParts, run: DurableRun) -> None:
    await go_down(parts, "close", Side.PRIMARY)
    await run.settle()
    parts.clock.advance(3)
    changed = await parts.closing.open(reason="", by="ann")
    await go_down(parts, "close", Side.PRIMARY)
    run.raise_event(change_event(Side.SECONDARY, changed.before.secondary))
    await run.settle()
    parts.clock.advance(4)
    await run.settle()
    assert (NOON + timedelta(seconds=3) + GRACE, ("closed", "open")) == (run.fire_at(), await parts.states())
    parts.clock.advance(1)
    await run.settle()
    assert (Status.COMPLETED, ("closed", "faulted")) == (run.instance.status, await parts.states())


async def test_whoever_opens_while_the_partner_is_being_faulted_wins(parts: ClosingParts, run: DurableRun) -> None:
    """Both rows change together, so a verdict on what was true before is not written."""
    await go_down(parts, "close", Side.PRIMARY)
    await run.settle()
    parts.clock.advance(5)
    assert run.turn()
    await parts.closing.open(reason="", by="ann")
    await run.settle()
    assert (Status.COMPLETED, ("open", "open")) == (run.instance.status, await parts.states())


async def test_a_partner_is_faulted_once_however_often_the_activity_runs(parts: ClosingParts, run: DurableRun) -> None:
    """Its answer is lost with the process that ran it; the next process runs it again."""
    await go_down(parts, "close", Side.PRIMARY)
    await run.settle()
    parts.clock.advance(5)
    assert run.turn()
    for _ in range(3):
        assert await run.run_activity(lose_answer=True)
        parts.clock.advance(10)
    await run.settle()
    assert Status.COMPLETED == run.instance.status
    assert [("primary", "open", "closed"), ("secondary", "open", "faulted")] == parts.telemetry.changes()
    assert (1, NOON + GRACE) == (parts.store.both.secondary.version, parts.store.both.secondary.since)


async def test_a_host_that_was_away_for_long_faults_the_partner_as_soon_as_it_is_back(
    parts: ClosingParts, run: DurableRun
) -> None:
    await go_down(parts, "close", Side.PRIMARY)
    await run.settle()
    parts.clock.advance(3600)
    await run.settle()
    assert (Status.COMPLETED, ("closed", "faulted")) == (run.instance.status, await parts.states())


async def test_it_waits_for_storage_and_goes_on(parts: ClosingParts, run: DurableRun) -> None:
    await go_down(parts, "close", Side.PRIMARY)
    await run.settle()
    parts.clock.advance(5)
    parts.store.broken = True
    await run.settle()
    assert run.is_running
    parts.store.broken = False
    parts.clock.advance(1)
    await run.settle()
    assert (Status.COMPLETED, ("closed", "faulted")) == (run.instance.status, await parts.states())


async def test_it_fails_by_name_when_storage_stays_away(parts: ClosingParts, run: DurableRun) -> None:
    """The guard starts another one, once a minute."""
    await go_down(parts, "close", Side.PRIMARY)
    await run.settle()
    parts.store.broken = True
    parts.clock.advance(5)
    for _ in range(ACTIVITY_TRIES_MAX + 1):
        await run.settle()
        parts.clock.advance(1)
    assert Status.FAILED == run.instance.status
    assert "Shared state cannot be reached" in run.output
    assert ACTIVITY_TRIES_MAX == run.ran.count("fault_partner")


@pytest.mark.parametrize("stopped_after", range(1, 7))
async def test_every_turn_can_be_replayed_by_another_process(
    parts: ClosingParts, run: DurableRun, stopped_after: int
) -> None:
    """A history cut after any turn leads to the answer of that turn, and every log goes on where the last one was."""
    await go_down(parts, "close", Side.PRIMARY)
    await run.settle()
    run.raise_event("secondary-0-is-over")
    await run.settle()
    parts.clock.advance(5)
    await run.settle()
    assert Status.COMPLETED == run.instance.status
    assert 6 == len(run.turns)
    given, said = run.turns[stopped_after - 1]
    assert said == run._orchestrator(given)
    logs = [json.loads(answer)["actions"][0] for _, answer in run.turns]
    for shorter, longer in itertools.pairwise(logs):
        assert without_cancelled(shorter) == without_cancelled(longer)[: len(shorter)]


def without_cancelled(log: list[dict[str, object]]) -> list[str]:
    """A timer is cancelled where it was created, so that much of a log may change."""
    return [json.dumps(action, sort_keys=True).replace('"isCanceled": true', '"isCanceled": false') for action in log]


async def test_the_history_holds_no_reason_and_no_name(parts: ClosingParts, run: DurableRun) -> None:
    await go_down(parts, "fault", Side.PRIMARY, reason="SharedAccessKey=hunter2")
    await run.settle()
    parts.clock.advance(5)
    await run.settle()
    everything = json.dumps([run.history, run.turns, run.instance.input, run.instance.output, run.custom_status])
    assert "faulted" in everything
    assert [] == [word for word in ("hunter2", "SharedAccessKey", "ann", "Reason given there") if word in everything]


async def test_while_it_waits_it_tells_until_when_and_what_it_knows(parts: ClosingParts, run: DurableRun) -> None:
    await go_down(parts, "close", Side.PRIMARY)
    await run.settle()
    assert (NOON + GRACE).isoformat() == run.custom_status["waiting_until"]
    assert ("closed", "open") == states_in(run.custom_status)
