"""Promises of the sender, over in-memory ports; time is advanced, not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.availability import Available, Event, Route, Suspect, Unavailable
from shared.domain.factory import Factory, FactoryState
from shared.domain.failures import Failure
from shared.domain.pair import EntityPath, Side
from shared.errors import (
    BacklogExhausted,
    EntityNotFound,
    MessageTooLarge,
    Misconfigured,
    Overloaded,
    PairClosed,
    PairFaulted,
    PrimaryFailed,
    Rejected,
)
from shared.services import refresher, watched_keys
from shared.telemetry_events import FailureCounted, SendAccepted, SendRefused, StateStorageChanged
from tests.support.send_fakes import SharedRows, failed, letter
from tests.support.send_instances import ORDERS, QUEUES, Instance, Offices

MINUTE = timedelta(minutes=1)
New = Callable[..., Instance]
COUNTING = [Failure.TIMEOUT, Failure.CONNECTION, Failure.SERVICE_ERROR, Failure.ENTITY_DISABLED, Failure.ENTITY_FULL]


@pytest.fixture
async def new() -> AsyncIterator[New]:
    made: list[Instance] = []

    def make(**options: Any) -> Instance:
        made.append(Instance(**options))
        return made[-1]

    yield make
    for instance in made:
        await instance.close()


def break_primary(instance: Instance, failure: Failure = Failure.ENTITY_FULL, times: int = 1000) -> None:
    instance.offices.primary.script = [failed(failure)] * times


async def test_a_healthy_send_touches_no_table_on_the_callers_time(new: New) -> None:
    instance = new()
    await instance.send("first")
    await instance.state.refresh()
    operations = (instance.rows.reads, instance.rows.writes)
    for number in range(100):
        assert Route.PRIMARY == (await instance.send(f"m{number}")).via
    assert operations == (instance.rows.reads, instance.rows.writes)


async def test_accepted_messages_are_counted_by_route_and_refused_ones_are_not(new: New) -> None:
    instance = new()
    await instance.send("one")
    break_primary(instance, Failure.MESSAGE_REJECTED, times=1)
    with pytest.raises(Rejected):
        await instance.send("refused")
    break_primary(instance)
    await instance.send("two")
    await instance.send("three")
    assert (1, 2) == (instance.sender.sent_to_primary, instance.sender.sent_to_backlog)


@pytest.mark.parametrize("failure", COUNTING)
async def test_failures_of_the_service_fail_over(new: New, failure: Failure) -> None:
    instance = new()
    break_primary(instance, failure)
    sent = await instance.send("m")
    assert (Route.BACKLOG, ["m"]) == (sent.via, instance.offices.backlog_ids())
    assert isinstance(instance.state.availability(ORDERS), Unavailable)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Failure.ENTITY_NOT_FOUND, EntityNotFound),
        (Failure.UNAUTHORIZED, Misconfigured),
        (Failure.MESSAGE_TOO_LARGE, MessageTooLarge),
        (Failure.MESSAGE_REJECTED, Rejected),
    ],
)
async def test_faults_of_caller_and_configuration_never_fail_over(
    new: New, failure: Failure, error: type[Exception]
) -> None:
    instance = new()
    break_primary(instance, failure, times=1)
    with pytest.raises(error):
        await instance.send("m")
    assert Available() == instance.state.availability(ORDERS)
    assert Route.PRIMARY == (await instance.send("next")).via
    assert [] == instance.telemetry.of(FailureCounted)


async def test_an_entity_that_took_messages_before_and_is_gone_fails_over(new: New) -> None:
    instance = new()
    await instance.send("before")
    break_primary(instance, Failure.ENTITY_NOT_FOUND)
    assert Route.BACKLOG == (await instance.send("m")).via


async def test_throttling_alone_is_a_time_out_only_when_it_lasts(new: New) -> None:
    instance = new(failover_interval=MINUTE)
    break_primary(instance, Failure.BUSY, times=1)
    assert Route.PRIMARY == (await instance.send("m")).via
    break_primary(instance, Failure.BUSY)
    with pytest.raises(PrimaryFailed, match="time-out"):
        await instance.send("n")


async def test_while_suspect_callers_see_failures_and_one_success_clears_it(new: New) -> None:
    instance = new(failover_interval=MINUTE)
    break_primary(instance, times=2)
    for name in ("a", "b"):
        with pytest.raises(PrimaryFailed):
            await instance.send(name)
    assert isinstance(instance.state.availability(ORDERS), Suspect)
    await instance.send("c")
    assert isinstance(instance.state.availability(ORDERS), Available)


async def test_after_the_interval_sends_to_the_primary_stop_entirely(new: New) -> None:
    instance = new(failover_interval=MINUTE)
    break_primary(instance, times=1)
    with pytest.raises(PrimaryFailed):
        await instance.send("a")
    instance.clock.advance(MINUTE)
    for number in range(5):
        assert Route.BACKLOG == (await instance.send(f"m{number}")).via
    assert [] == instance.offices.primary.ids


async def test_diverting_while_suspect_spares_callers_the_failure(new: New) -> None:
    instance = new(failover_interval=MINUTE, divert_while_suspect=True)
    break_primary(instance, times=1)
    assert [Route.BACKLOG, Route.PRIMARY] == [(await instance.send(name)).via for name in "ab"]


async def test_the_syphon_elsewhere_learns_that_what_was_diverted_on_suspicion_can_go(new: New) -> None:
    rows = SharedRows()
    sender, syphon = new(rows=rows, failover_interval=MINUTE, divert_while_suspect=True), new(rows=rows)
    break_primary(sender, times=1)
    assert [Route.BACKLOG, Route.PRIMARY] == [(await sender.send("a")).via, (await sender.send("b")).via]
    await sender.state.refresh()
    await syphon.state.refresh()
    assert [sender.clock.now()] == syphon.state.recoveries()


async def test_other_entities_are_not_affected(new: New) -> None:
    instance = new()
    break_primary(instance)
    assert Route.BACKLOG == (await instance.send("m")).via
    assert Route.PRIMARY == (await instance.send("n", EntityPath("others"))).via


async def test_those_waiting_when_failover_engages_are_diverted_at_once(new: New) -> None:
    instance = new(attempt_timeout=timedelta(seconds=0.5))
    await instance.send("warm")
    gate = asyncio.Event()
    instance.offices.primary.script = [gate]
    first = asyncio.create_task(instance.send("first"))
    rest = [asyncio.create_task(instance.send(f"m{number}")) for number in range(10)]
    for _ in range(30):
        await asyncio.sleep(0)
    assert instance.offices.primary.links[0].in_call
    instance.state.happened(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
    outcomes = await asyncio.gather(*rest)
    gate.set()
    assert [Route.BACKLOG] * 10 == [outcome.via for outcome in outcomes]
    assert Route.PRIMARY == (await first).via


async def test_a_detour_after_an_indefinite_failure_is_a_possible_duplicate_with_the_same_id(new: New) -> None:
    instance = new()
    instance.offices.primary.script = [asyncio.Event()]
    sent = await instance.send("m")
    assert (Route.BACKLOG, True, ("m",)) == (sent.via, sent.possible_duplicate, sent.message_ids)
    await instance.sender.settled()
    (event,) = instance.telemetry.of(SendAccepted)
    assert isinstance(event, SendAccepted)
    assert event.possible_duplicate


async def test_an_entity_stays_on_its_backlog_queue_and_entities_spread(new: New) -> None:
    instance = new()
    paths = [EntityPath(f"entity{number}") for number in range(30)]
    for path in paths:
        instance.state.happened(path, Event.MARKED_UNAVAILABLE, "rehearsal")
    chosen = {path: {(await instance.send("m", path)).backlog_queue for _ in range(3)} for path in paths}
    assert all(len(queues) == 1 for queues in chosen.values())
    assert set(QUEUES) == {queue for queues in chosen.values() for queue in queues}


async def test_a_failing_backlog_queue_leaves_the_rotation_for_every_entity_and_instance(new: New) -> None:
    rows, offices = SharedRows(), Offices()
    one, other = new(rows=rows, offices=offices, seed=1), new(rows=rows, offices=offices, seed=2)
    for instance in (one, other):
        instance.state.happened(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
    first = (await one.send("a")).backlog_queue
    assert first is not None
    offices.of(Side.SECONDARY, first).script = [failed(Failure.ENTITY_FULL)] * 100
    second = (await one.send("b")).backlog_queue
    await one.state.refresh()
    await other.state.refresh()
    assert second != first
    assert {first} == one.state.rotation.out.keys() == other.state.rotation.out.keys()
    one.clock.advance(MINUTE)
    one.state.queue_returned(first)
    await one.state.refresh()
    await other.state.refresh()
    assert set() == set(other.state.rotation.out)


async def test_with_every_backlog_queue_failing_the_caller_is_told_and_nothing_pretended(new: New) -> None:
    instance = new()
    break_primary(instance)
    for queue in QUEUES:
        instance.offices.of(Side.SECONDARY, queue).script = [failed(Failure.ENTITY_FULL)] * 100
    with pytest.raises(BacklogExhausted):
        await instance.send("m")
    assert [] == instance.offices.backlog_ids()
    with pytest.raises(BacklogExhausted, match="none is in the rotation"):
        await instance.send("n")
    assert ["m", "n"] == [event.message_id for event in instance.telemetry.events if isinstance(event, SendRefused)]


async def test_refused_credentials_of_the_secondary_are_not_the_queues_fault(new: New) -> None:
    instance = new()
    instance.state.happened(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
    for queue in QUEUES:
        instance.offices.of(Side.SECONDARY, queue).script = [failed(Failure.UNAUTHORIZED)]
    with pytest.raises(Misconfigured, match="secondary"):
        await instance.send("m")
    assert {} == dict(instance.state.rotation.out)


async def test_failover_and_return_are_shared_by_all_instances(new: New) -> None:
    rows, offices = SharedRows(), Offices()
    one, other = new(rows=rows, offices=offices), new(rows=rows, offices=offices)
    break_primary(one)
    await one.send("a")
    await one.state.refresh()
    await other.state.refresh()
    assert Route.BACKLOG == (await other.send("b")).via
    offices.primary.script = []
    other.clock.advance(MINUTE)
    await other.state.mark(ORDERS, Event.MARKED_HEALTHY, "by hand")
    await one.state.refresh()
    assert [Route.PRIMARY, Route.PRIMARY] == [(await one.send("c")).via, (await other.send("d")).via]


async def test_a_late_report_of_an_old_outage_does_not_undo_a_newer_return(new: New) -> None:
    rows, offices = SharedRows(), Offices()
    slow, quick = new(rows=rows, offices=offices), new(rows=rows, offices=offices)
    slow.store.is_down = True
    break_primary(slow, times=1)
    await slow.send("a")
    quick.clock.advance(MINUTE)
    await quick.state.mark(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
    quick.clock.advance(MINUTE)
    await quick.state.mark(ORDERS, Event.MARKED_HEALTHY, "over")
    slow.store.is_down = False
    await slow.state.refresh()
    await quick.state.refresh()
    assert isinstance(slow.state.availability(ORDERS), Available)
    assert isinstance(quick.state.availability(ORDERS), Available)


async def test_a_mark_holds_against_an_instance_whose_clock_is_ahead(new: New) -> None:
    rows, offices = SharedRows(), Offices()
    ahead, right = new(rows=rows, offices=offices), new(rows=rows, offices=offices)
    ahead.clock.advance(MINUTE)
    break_primary(ahead, times=1)
    await ahead.send("a")
    await ahead.state.refresh()
    assert isinstance(await right.state.mark(ORDERS, Event.MARKED_HEALTHY, "by hand"), Available)
    await ahead.state.refresh()
    assert isinstance(ahead.state.availability(ORDERS), Available)


async def test_a_slow_first_look_at_shared_state_is_not_the_primarys_failure(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = new(attempt_timeout=timedelta(seconds=0.2))
    monkeypatch.setattr(refresher, "FIRST_LOAD_SECONDS_MAX", 0.3)
    monkeypatch.setattr(instance.store, "load", asyncio.Event().wait)
    assert Route.PRIMARY == (await instance.send("m")).via


async def test_shared_state_being_down_never_stops_a_send(new: New) -> None:
    instance = new()
    instance.store.is_down = True
    assert Route.PRIMARY == (await instance.send("a")).via
    break_primary(instance)
    assert Route.BACKLOG == (await instance.send("b")).via
    await instance.state.refresh()
    assert "the table is down" == instance.state.trouble
    instance.store.is_down = False
    await instance.state.refresh()
    assert None is instance.state.trouble
    assert isinstance(instance.rows.entities["orders"].availability, Unavailable)
    changes = [event.reachable for event in instance.telemetry.events if isinstance(event, StateStorageChanged)]
    assert [False, True] == changes


async def test_an_idle_suspect_becomes_unavailable_for_all_without_another_send(new: New) -> None:
    instance = new(failover_interval=MINUTE)
    break_primary(instance)
    with pytest.raises(PrimaryFailed):
        await instance.send("m")
    instance.clock.advance(MINUTE)
    await instance.state.refresh()
    assert isinstance(instance.rows.entities["orders"].availability, Unavailable)


@pytest.mark.parametrize(
    ("secondary", "error"), [(FactoryState.CLOSED, PairClosed), (FactoryState.FAULTED, PairFaulted)]
)
async def test_a_closed_or_faulted_pair_takes_no_messages(
    new: New, secondary: FactoryState, error: type[Exception]
) -> None:
    instance = new()
    await instance.send("before")
    closed = Factory(state=FactoryState.CLOSED, reason="maintenance")
    instance.state.set_factories({Side.PRIMARY: closed, Side.SECONDARY: Factory()})
    assert Route.PRIMARY == (await instance.send("one side is open")).via
    down = Factory(state=secondary, reason="maintenance")
    instance.state.set_factories({Side.PRIMARY: closed, Side.SECONDARY: down})
    with pytest.raises(error, match="maintenance"):
        await instance.send("after")


async def test_a_batch_is_sent_and_diverted_as_one(new: New) -> None:
    instance = new()
    letters = tuple(letter(f"m{number}") for number in range(3))
    await instance.sender.send(ORDERS, letters)
    break_primary(instance)
    await instance.sender.send(ORDERS, letters)
    assert ["m0", "m1", "m2"] in instance.offices.primary.arrived
    assert ["m0", "m1", "m2"] == instance.offices.backlog_ids()


async def test_no_call_outlasts_its_deadline_when_everything_hangs(new: New) -> None:
    instance = new()
    instance.offices.primary.script = [asyncio.Event()]
    for queue in QUEUES:
        instance.offices.of(Side.SECONDARY, queue).script = [asyncio.Event()] * 5
    started = asyncio.get_running_loop().time()
    with pytest.raises(BacklogExhausted) as caught:
        await instance.send("m")
    assert asyncio.get_running_loop().time() - started <= 1.1
    assert caught.value.indefinite


async def test_a_time_out_among_refused_credentials_does_not_fail_over_later(new: New) -> None:
    """The SDK may tell of a refusal too late; the next answer says what it was."""
    instance = new(failover_interval=MINUTE)
    await instance.send("first")
    refused = failed(Failure.UNAUTHORIZED)
    instance.offices.primary.script = [failed(Failure.TIMEOUT), refused, refused]
    with pytest.raises(PrimaryFailed):
        await instance.send("told too late")
    assert isinstance(instance.state.availability(ORDERS), Suspect)
    with pytest.raises(Misconfigured):
        await instance.send("refused")
    instance.clock.advance(2 * MINUTE)
    with pytest.raises(Misconfigured):
        await instance.send("still refused")
    assert isinstance(instance.state.availability(ORDERS), Available)
    assert [] == instance.offices.backlog_ids()


# -- paths that anybody may name


async def test_in_an_outage_only_so_many_paths_are_kept_and_another_one_is_refused(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_keys, "ENTITIES_MAX", 2)
    instance = new()
    paths = [EntityPath(name) for name in ("one", "two", "three")]
    for path in paths:
        instance.offices.of(Side.PRIMARY, path).script = [failed(Failure.ENTITY_FULL)]
    for path in paths[:2]:
        assert Route.BACKLOG is (await instance.send("m", path)).via
    with pytest.raises(Overloaded, match="Too many entities"):
        await instance.send("m", paths[2])
    with pytest.raises(Overloaded, match="Too many entities"):
        await instance.state.mark(paths[2], Event.MARKED_UNAVAILABLE, "test")
    assert 2 == len(instance.offices.backlog_ids())
    await instance.state.refresh()
    assert {"one", "two"} == set(instance.rows.entities)
    assert Route.BACKLOG is (await instance.send("again", paths[0])).via
    assert Route.PRIMARY is (await instance.send("well", paths[2])).via


async def test_a_path_that_never_took_a_message_is_forgotten_some_time_after_its_outage(new: New) -> None:
    rows = SharedRows()
    instance, other = new(rows=rows), new(rows=rows, seed=2)
    await instance.send("m", EntityPath("known"))
    for name in ("known", "stranger"):
        await instance.state.mark(EntityPath(name), Event.MARKED_UNAVAILABLE, "test")
        await instance.state.mark(EntityPath(name), Event.MARKED_HEALTHY, "test")
    for one in (instance, other):
        await one.state.refresh()
    assert {"known", "stranger"} == set(rows.entities)
    for one in (instance, other):
        one.clock.advance(timedelta(hours=2))
        await one.state.refresh()
    assert {"known"} == set(rows.entities)
    assert ["known"] == [path for path, _ in instance.state.entities()] == [p for p, _ in other.state.entities()]


async def test_what_was_accepted_does_not_fail_for_want_of_a_record(
    new: New, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    instance = new()
    instance.state.happened(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")

    def full(event: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(instance.telemetry, "emit", full)
    assert Route.BACKLOG == (await instance.send("m")).via
    await instance.sender.settled()
    assert "no space left" in caplog.text
