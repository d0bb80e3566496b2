"""The pinger over in-memory ports: whom it pings, when, and what follows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from shared.domain.availability import Available, Event, Unavailable
from shared.domain.factory import Factory, FactoryState
from shared.domain.failures import Failure
from shared.domain.pair import EntityPath, Side
from shared.domain.ping import PARTITION_PINGS
from shared.services.entity_facts import EntityFacts
from shared.services.pinger import AT_ONCE_MAX, Pinger, PingOptions
from shared.telemetry_events import Pinged
from tests.support.send_fakes import SharedRows, failed
from tests.support.send_instances import ORDERS, Instance, NoFacts
from tests.support.send_services import until

MINUTE = timedelta(minutes=1)
BILLS = EntityPath("bills")


class Partitioned(NoFacts):
    async def is_partitioned(self, path: EntityPath) -> bool | None:
        return True


@dataclass
class PingingInstance(Instance):
    options: PingOptions = field(
        default_factory=lambda: PingOptions(
            interval=MINUTE,
            attempt_timeout=timedelta(seconds=0.2),
            partitioned_attempt_timeout=timedelta(seconds=5),
        )
    )
    partitioned: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.partitioned:
            self.facts = EntityFacts(Partitioned())
        self.pinger = Pinger(
            options=self.options,
            state=self.state,
            links=self.offices,
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


@pytest.mark.parametrize("side", list(Side))
async def test_nothing_is_pinged_while_a_side_is_closed(side: Side) -> None:
    app = PingingInstance()
    await app.lose(ORDERS)
    app.rows.factories[side] = Factory(state=FactoryState.CLOSED)
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
    app = PingingInstance(partitioned=True)
    await app.lose(ORDERS)
    app.facts.learn(ORDERS)
    await until(lambda: app.facts.is_partitioned(ORDERS), seconds=5, what="facts")
    post = app.offices.primary
    post.script.extend([*[None] * (PARTITION_PINGS - 1), failed(Failure.TIMEOUT)])
    assert [] == await app.pinger.ping_what_is_due()
    app.clock.advance(MINUTE)
    assert [ORDERS] == await app.pinger.ping_what_is_due()
    assert 2 * PARTITION_PINGS - 1 == len(post.arrived)


async def test_many_entities_are_pinged_at_the_same_time_but_not_all() -> None:
    app = PingingInstance()
    paths = [EntityPath(f"queue-{n}") for n in range(3 * AT_ONCE_MAX)]
    await app.lose(*paths)
    assert set(paths) == set(await app.pinger.ping_what_is_due())


async def test_while_shared_state_is_down_the_entity_is_back_here_at_least() -> None:
    app = PingingInstance()
    await app.lose(ORDERS)
    app.store.is_down = True
    assert [ORDERS] == await app.pinger.ping_what_is_due()
    assert isinstance(app.state.availability(ORDERS), Available)
    app.store.is_down = False
    await app.state.refresh()
    assert isinstance(app.rows.entities["orders"].availability, Available)
