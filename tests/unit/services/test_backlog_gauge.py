from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from shared import composition
from shared.domain.availability import Availability, Available, Suspect, Unavailable
from shared.domain.pair import EntityPath
from shared.domain.rotation import Rotation
from shared.domain.syphon import Drain
from shared.ports import AdminRefused, QueueDepth
from shared.services.backlog_gauge import BacklogGauge
from shared.settings import Settings
from tests.support.app_process import example_settings
from tests.support.otel import InMemory
from tests.support.send_fakes import FakeClock
from tests.support.sending import NOON

QUEUES = (EntityPath("p/x-servicebus-transfer/0"), EntityPath("p/x-servicebus-transfer/1"))


class Admin:
    """The first queue holds messages, the second may not be asked about."""

    def __init__(self, active: int = 3) -> None:
        self.asked: list[EntityPath] = []
        self.active = active

    async def depth(self, path: EntityPath) -> QueueDepth:
        self.asked.append(path)
        if path == QUEUES[1]:
            raise AdminRefused("not for you")
        return QueueDepth(active=self.active, dead_lettered=0)


def known(*, rate: float = 0.0, at: datetime = NOON) -> Any:
    """Of shared state, what the gauge looks at."""
    drains = (Drain(queue=QUEUES[0], at=at, rate=rate),)
    entities: list[tuple[EntityPath, Availability]] = [(EntityPath("orders"), Available())]
    return SimpleNamespace(
        rotation=Rotation(queues=QUEUES), drains=drains, out=entities, entities=lambda: entities, key_lanes=list
    )


def made(admin: Admin, clock: FakeClock, memory: InMemory, state: Any) -> BacklogGauge:
    return BacklogGauge(admin=admin, state=state, instruments=memory.telemetry, clock=clock)  # type: ignore[arg-type]


async def minutes_pass(gauge: BacklogGauge, clock: FakeClock, minutes: int) -> None:
    for _ in range(minutes):
        clock.advance(timedelta(minutes=1))
        await gauge.measure_if_due()


async def test_an_empty_queue_is_asked_four_times_an_hour_while_every_entity_is_available() -> None:
    """The original stayed below 40 operations an hour with ten queues; its figure is there each minute all the same."""
    admin, clock, memory = Admin(active=0), FakeClock(), InMemory()
    gauge = made(admin, clock, memory, known())
    await minutes_pass(gauge, clock, 60)
    assert 4 == admin.asked.count(QUEUES[0])
    assert 0 == memory.figures("pair.backlog.depth")[(QUEUES[0], "active")]


async def test_what_a_drain_told_before_it_ended_does_not_keep_the_gauge_awake() -> None:
    """A process that was killed never said that nothing moves any more."""
    admin, clock, memory = Admin(active=0), FakeClock(), InMemory()
    gauge = made(admin, clock, memory, known(rate=370.0))
    await minutes_pass(gauge, clock, 60)
    assert 4 == admin.asked.count(QUEUES[0])
    assert {(QUEUES[0],): 0.0} == memory.figures("pair.drain.rate")


@pytest.mark.parametrize("what", ["an entity is out", "an entity is suspect", "messages move", "messages wait"])
async def test_where_messages_may_come_an_empty_queue_is_asked_each_minute(what: str) -> None:
    admin, clock, memory, state = Admin(active=0), FakeClock(), InMemory(), known()
    gauge = made(admin, clock, memory, state)
    await minutes_pass(gauge, clock, 2)
    match what:
        case "an entity is out":
            state.out[0] = (EntityPath("orders"), Unavailable(since=NOON, reason="test"))
        case "an entity is suspect":
            # Where the pair diverts while in doubt, its messages are in the backlog already.
            state.out[0] = (EntityPath("orders"), Suspect(since=NOON, reason="test"))
        case "messages move":
            # Whoever drains tells every few seconds.
            state.drains = known(rate=3.0, at=clock.now() + timedelta(minutes=10)).drains
        case "messages wait":
            await minutes_pass(gauge, clock, 13)
            admin.active = 7
            await minutes_pass(gauge, clock, 1)
            assert 7 == memory.figures("pair.backlog.depth")[(QUEUES[0], "active")]
    before = admin.asked.count(QUEUES[0])
    await minutes_pass(gauge, clock, 10)
    assert 10 == admin.asked.count(QUEUES[0]) - before


async def test_the_backlog_is_measured_once_a_minute_and_what_cannot_be_asked_has_no_figure() -> None:
    admin, clock, memory = Admin(), FakeClock(), InMemory()
    gauge = made(admin, clock, memory, known(rate=12.5))
    await gauge.measure_if_due()
    assert {(QUEUES[0],): 12.5} == memory.figures("pair.drain.rate")
    clock.advance(timedelta(seconds=59))
    await gauge.measure_if_due()
    assert [*QUEUES] == admin.asked
    clock.advance(timedelta(seconds=1))
    await gauge.measure_if_due()
    assert [*QUEUES] * 2 == admin.asked
    assert 3 == memory.figures("pair.backlog.depth")[(QUEUES[0], "active")]


@pytest.mark.parametrize(
    ("syphon", "collected", "measures"), [("true", True, True), ("false", True, False), ("true", False, False)]
)
async def test_only_an_app_with_a_syphon_measures_and_only_for_somebody(
    syphon: str, collected: bool, measures: bool
) -> None:
    """The sender's identity may not ask, and every look costs an operation."""
    settings = Settings.from_env({**example_settings(), "ENABLE_SYPHON": syphon, "TELEMETRY_FOLDER": ""})
    runtime = composition.build(settings, open_telemetry=InMemory().telemetry if collected else None)
    assert measures is (runtime.gauge is not None)
