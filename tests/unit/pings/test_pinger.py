"""The pinger over in-memory ports: whom it pings, when, and what follows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from shared.domain.availability import Available, Event, Unavailable
from shared.domain.factory import Factory, FactoryState
from shared.domain.failures import Failure
from shared.domain.pair import EntityPath, Side
from shared.domain.partitions import Traits
from shared.domain.ping import PARTITION_PINGS
from shared.errors import EntityNotFound
from shared.ports import AdminFailed, AdminRefused, Links
from shared.services import entity_facts
from shared.services import pinger as pinger_module
from shared.services.entity_facts import EntityFacts
from shared.services.pinger import AT_ONCE_MAX, Pinger, PingOptions
from shared.services.pings import LINKS_MAX, PingFailed, Pings
from shared.telemetry_events import Pinged
from tests.support.send_fakes import SharedRows, failed
from tests.support.send_instances import ORDERS, Instance
from tests.support.send_services import until

MINUTE = timedelta(minutes=1)
BILLS = EntityPath("bills")


@dataclass
class Facts:
    """An administration API that answers, refuses, or fails, one after the other."""

    answers: list[Traits | Exception | None]
    asked: int = 0

    async def traits(self, path: EntityPath) -> Traits | None:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await asyncio.sleep(0.01)
        if isinstance(answer, Exception):
            raise answer
        return answer


PARTITIONED = Traits(partitioned=True)


@dataclass
class PingingInstance(Instance):
    options: PingOptions = field(
        default_factory=lambda: PingOptions(
            interval=MINUTE,
            attempt_timeout=timedelta(seconds=0.2),
            partitioned_attempt_timeout=timedelta(seconds=5),
        )
    )
    admin: Facts = field(default_factory=lambda: Facts([Traits(partitioned=False)]))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.facts = EntityFacts(self.admin)
        self.pinger = Pinger(
            options=self.options,
            state=self.state,
            pings=Pings(self.offices),
            facts=self.facts,
            clock=self.clock,
            telemetry=self.telemetry,
        )

    async def lose(self, *paths: EntityPath) -> None:
        for path in paths:
            await self.state.mark(path, Event.MARKED_UNAVAILABLE, "test")


async def test_what_is_available_is_never_pinged() -> None:
    app = PingingInstance()
    await app.send("m")
    assert [] == await app.pinger.ping_what_is_due()
    assert ["m"] == app.offices.primary.ids


async def test_a_ping_that_succeeds_makes_the_entity_available_for_everybody() -> None:
    rows = SharedRows()
    app, other = PingingInstance(rows=rows), Instance(rows=rows, seed=2)
    await app.lose(ORDERS)
    await other.state.refresh()
    assert isinstance(other.state.availability(ORDERS), Unavailable)

    app.clock.advance(MINUTE)
    assert [ORDERS] == await app.pinger.ping_what_is_due()

    await other.state.refresh()
    assert isinstance(other.state.availability(ORDERS), Available)
    (event,) = app.telemetry.of(Pinged)
    assert isinstance(event, Pinged)
    assert (ORDERS, True, 1) == (event.path, event.succeeded, event.pings)


async def test_a_ping_that_fails_leaves_the_entity_and_its_neighbours_as_they_are() -> None:
    app = PingingInstance()
    await app.lose(ORDERS, BILLS)
    app.offices.of(Side.PRIMARY, ORDERS).script.append(failed(Failure.CONNECTION))
    assert [BILLS] == await app.pinger.ping_what_is_due()
    assert isinstance(app.state.availability(ORDERS), Unavailable)


async def test_an_entity_is_pinged_once_in_each_interval() -> None:
    app = PingingInstance()
    await app.lose(ORDERS)
    post = app.offices.primary
    post.script.extend([failed(Failure.TIMEOUT)] * 3)
    for _ in range(3):
        for _ in range(5):
            await app.pinger.ping_what_is_due()
        app.clock.advance(MINUTE)
    assert 0 == len(post.script)
    assert 3 == len(app.telemetry.of(Pinged))


@pytest.mark.parametrize("state", [FactoryState.CLOSED, FactoryState.FAULTED])
@pytest.mark.parametrize("side", list(Side))
async def test_nothing_is_pinged_while_a_side_is_closed_or_faulted(side: Side, state: FactoryState) -> None:
    app = PingingInstance()
    await app.lose(ORDERS)
    app.rows.factories[side] = Factory(state=state)
    assert [] == await app.pinger.ping_what_is_due()
    assert [] == app.offices.primary.links


async def test_a_hung_ping_ends_in_time_and_its_link_is_not_used_again() -> None:
    app = PingingInstance()
    await app.lose(ORDERS)
    hang = asyncio.Event()
    app.offices.primary.script.append(hang)
    assert [] == await asyncio.wait_for(app.pinger.ping_what_is_due(), 2)
    app.clock.advance(MINUTE)
    assert [ORDERS] == await app.pinger.ping_what_is_due()
    assert 2 == len(app.offices.primary.links)
    await app.pinger.close()
    assert all(link.is_closed for link in app.offices.primary.links)


async def test_hysteresis_asks_for_successes_in_a_row() -> None:
    options = PingOptions(
        interval=MINUTE,
        attempt_timeout=timedelta(seconds=1),
        partitioned_attempt_timeout=timedelta(seconds=1),
        successes_needed=3,
    )
    app = PingingInstance(options=options)
    await app.lose(ORDERS)
    app.offices.primary.script.extend([None, None, failed(Failure.CONNECTION), None, None, None])
    rounds = []
    for _ in range(6):
        rounds.append(await app.pinger.ping_what_is_due())
        app.clock.advance(MINUTE)
    assert [[], [], [], [], [], [ORDERS]] == rounds


async def test_a_partitioned_entity_must_answer_for_all_its_partitions() -> None:
    """By the first ping of an instance already, which asks before it pings."""
    app = PingingInstance(admin=Facts([PARTITIONED]))
    await app.lose(ORDERS)
    post = app.offices.primary
    post.script.extend([*[None] * (PARTITION_PINGS - 1), failed(Failure.TIMEOUT)])
    assert [] == await app.pinger.ping_what_is_due()
    assert [] == post.script
    app.clock.advance(MINUTE)
    post.arrived.clear()
    assert [ORDERS] == await app.pinger.ping_what_is_due()
    assert PARTITION_PINGS == len(set(post.ids)) == len(post.arrived)
    assert 1 == app.admin.asked


async def test_while_a_partitioned_entity_is_out_one_ping_says_so() -> None:
    app = PingingInstance(admin=Facts([PARTITIONED]))
    await app.lose(ORDERS)
    app.offices.primary.script.append(failed(Failure.CONNECTION))
    assert [] == await app.pinger.ping_what_is_due()
    assert 1 == len(app.offices.primary.links)
    assert [1] == [event.pings for event in app.telemetry.of(Pinged) if isinstance(event, Pinged)]


class TimedPings(Pings):
    """Remembers how long it was given."""

    def __init__(self, links: Links) -> None:
        super().__init__(links)
        self.seconds: list[float] = []

    async def all_pass(self, path: EntityPath, keys: Sequence[str], *, seconds: float) -> PingFailed | None:
        self.seconds.append(seconds)
        return await super().all_pass(path, keys, seconds=seconds)


async def test_pings_of_all_partitions_share_links_and_are_not_cut_off_by_a_short_interval() -> None:
    """A hundred and sixty answers, one after the other, would take longer than the shortest interval."""
    options = PingOptions(
        interval=timedelta(seconds=1),
        attempt_timeout=timedelta(seconds=5),
        partitioned_attempt_timeout=timedelta(seconds=20),
    )
    app = PingingInstance(options=options, admin=Facts([PARTITIONED]))
    app.pinger._pings = pings = TimedPings(app.offices)
    await app.lose(ORDERS)
    assert [ORDERS] == await app.pinger.ping_what_is_due()
    assert 1 + LINKS_MAX == len(app.offices.primary.links)
    ahead, rest = pings.seconds
    assert ahead < options.interval.total_seconds() < 20 == rest


async def test_an_administration_that_fails_is_asked_again_and_until_then_all_partitions_are_pinged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entity_facts, "AGAIN_FIRST_S", 0.0)
    app = PingingInstance(admin=Facts([AdminFailed("503"), None, PARTITIONED]))
    post = app.offices.primary
    for asked in (1, 2, 3):
        await app.lose(ORDERS)
        post.script.extend([*[None] * (PARTITION_PINGS - 1), failed(Failure.TIMEOUT)])
        assert [] == await app.pinger.ping_what_is_due()
        assert asked == app.admin.asked
        app.clock.advance(MINUTE)
    assert app.facts.is_partitioned(ORDERS)


@pytest.mark.parametrize("error", [AdminFailed("503"), ValueError("not what it should answer")])
async def test_an_administration_that_fails_is_not_asked_all_the_time(error: Exception) -> None:
    app = PingingInstance(admin=Facts([error]))
    for _ in range(5):
        assert not await app.facts.learnt(ORDERS, seconds=1)
    assert 1 == app.admin.asked


async def test_where_the_app_may_not_ask_an_entity_is_pinged_as_a_plain_one() -> None:
    app = PingingInstance(admin=Facts([AdminRefused("401")]))
    for _ in range(2):
        await app.lose(ORDERS)
        app.clock.advance(MINUTE)
        assert [ORDERS] == await app.pinger.ping_what_is_due()
    assert (1, 2) == (app.admin.asked, len(app.offices.primary.arrived))


async def test_an_entity_that_never_was_is_not_out_when_the_primary_says_so() -> None:
    app = PingingInstance()
    await app.lose(ORDERS)
    app.offices.primary.script.append(failed(Failure.ENTITY_NOT_FOUND))
    assert [ORDERS] == await app.pinger.ping_what_is_due()
    assert isinstance(app.state.availability(ORDERS), Available)
    assert [False] == [event.succeeded for event in app.telemetry.of(Pinged) if isinstance(event, Pinged)]
    app.offices.primary.script.append(failed(Failure.ENTITY_NOT_FOUND))
    with pytest.raises(EntityNotFound):
        await app.send("m")


async def test_an_entity_that_took_messages_and_is_gone_stays_out() -> None:
    app = PingingInstance()
    await app.send("m")
    await app.lose(ORDERS)
    app.offices.primary.script.append(failed(Failure.ENTITY_NOT_FOUND))
    assert [] == await app.pinger.ping_what_is_due()
    assert isinstance(app.state.availability(ORDERS), Unavailable)


async def test_a_round_begins_no_ping_after_its_time_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinger_module, "ROUND_SECONDS_MAX", 0.1)
    paths = [EntityPath(f"queue-{n}") for n in range(2 * AT_ONCE_MAX)]
    app = PingingInstance()
    await app.lose(*paths)
    for path in paths:
        app.offices.of(Side.PRIMARY, path).script.extend([asyncio.Event()] * 2)  # each hangs for 0.2 s
    for asked in (AT_ONCE_MAX, 2 * AT_ONCE_MAX):
        assert [] == await app.pinger.ping_what_is_due()
        assert asked == len(app.telemetry.of(Pinged))
    assert set(paths) == {event.path for event in app.telemetry.of(Pinged) if isinstance(event, Pinged)}


class HeldPings(Pings):
    """Counts the pings under way, and holds each until the gate is open."""

    def __init__(self, links: Links) -> None:
        super().__init__(links)
        self.at_once = self.most_at_once = 0
        self.gate = asyncio.Event()

    async def all_pass(self, path: EntityPath, keys: Sequence[str], *, seconds: float) -> PingFailed | None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.gate.wait()
        self.at_once -= 1
        return await super().all_pass(path, keys, seconds=seconds)


async def test_many_entities_are_pinged_at_the_same_time_but_not_all() -> None:
    app = PingingInstance()
    app.pinger._pings = pings = HeldPings(app.offices)
    paths = [EntityPath(f"queue-{n}") for n in range(3 * AT_ONCE_MAX)]
    await app.lose(*paths)
    round_of_pings = asyncio.create_task(app.pinger.ping_what_is_due())
    await until(lambda: pings.at_once >= AT_ONCE_MAX, seconds=5, what="pings under way")
    assert AT_ONCE_MAX == pings.at_once
    pings.gate.set()
    assert set(paths) == set(await round_of_pings)
    assert (0, AT_ONCE_MAX) == (pings.at_once, pings.most_at_once)


async def test_while_shared_state_is_down_the_entity_is_back_here_at_least() -> None:
    app = PingingInstance()
    await app.lose(ORDERS)
    app.store.is_down = True
    assert [ORDERS] == await app.pinger.ping_what_is_due()
    assert isinstance(app.state.availability(ORDERS), Available)
    app.store.is_down = False
    await app.state.refresh()
    assert isinstance(app.rows.entities["orders"].availability, Available)
