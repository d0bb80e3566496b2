"""What a drain tells of itself: everything it moved, and that nothing moves any more once it is over."""

from __future__ import annotations

import random
from datetime import timedelta
from types import SimpleNamespace

from shared.domain.pair import EntityPath
from shared.domain.syphon import Drain
from shared.services.syphon_desk import Desk
from tests.support.send_fakes import FakeClock

QUEUE = EntityPath("p/x-servicebus-transfer/0")


class Told:
    def __init__(self) -> None:
        self.drains: list[Drain] = []

    async def save_drain(self, drain: Drain) -> None:
        self.drains.append(drain)


def made(clock: FakeClock, told: Told) -> Desk:
    return Desk(
        state=SimpleNamespace(drains=()),  # type: ignore[arg-type]
        store=told,  # type: ignore[arg-type]
        clock=clock,
        telemetry=None,  # type: ignore[arg-type]
        facts=None,  # type: ignore[arg-type]
        rng=random.Random(1),
        rate_limit=None,
    )


async def test_a_drain_that_is_over_moves_nothing_and_has_told_of_every_message() -> None:
    clock, told = FakeClock(), Told()
    desk = made(clock, told)
    for _ in range(12):
        clock.advance(timedelta(seconds=1))
        desk.moved(QUEUE, forwarded=100)
        await desk.report(QUEUE)
    assert told.drains[-1].rate > 0
    await desk.stopped(QUEUE)
    assert (1200, 0.0) == (told.drains[-1].forwarded, told.drains[-1].rate)
    count = len(told.drains)
    await desk.stopped(QUEUE)
    assert count == len(told.drains)


async def test_a_first_batch_is_no_measure_of_the_speed() -> None:
    clock, told = FakeClock(), Told()
    desk = made(clock, told)
    desk.moved(QUEUE)
    clock.advance(timedelta(milliseconds=1))
    desk.moved(QUEUE, forwarded=100)
    await desk.report(QUEUE)
    assert 100.0 == told.drains[-1].rate
