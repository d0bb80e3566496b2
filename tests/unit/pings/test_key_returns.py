"""Pings with keys of partitioned entities: how many at once, for how long, and who is next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from shared.domain.availability import Event, Unavailable
from shared.domain.pair import EntityPath
from shared.domain.partitions import key_lane
from shared.services import key_returns
from shared.services.key_returns import AT_ONCE_MAX, PINGS_A_ROUND, KeyReturns
from shared.services.pings import PingFailed, Pings
from tests.support.send_instances import Instance, Offices
from tests.support.send_services import until

SILENT = PingFailed("no answer")


class ScriptedPings(Pings):
    """Keys that answer, and how many are asked at the same time."""

    def __init__(self) -> None:
        super().__init__(Offices())
        self.answering: set[str] = set()
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        #: Holds every ping until it is set.
        self.gate = asyncio.Event()
        self.gate.set()

    async def all_pass(self, path: EntityPath, keys: Sequence[str], *, seconds: float) -> PingFailed | None:
        (key,) = keys
        self.asked.append(f"{path}/{key}")
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        await self.gate.wait()
        self.at_once -= 1
        return None if key in self.answering else SILENT


class NoQueues:
    def open(self, path: EntityPath) -> object:
        raise AssertionError("no key is healed, so there is nothing to look for")


def sick_keys(entities: int, keys: int) -> tuple[Instance, ScriptedPings, KeyReturns]:
    app, pings = Instance(), ScriptedPings()
    for entity in range(entities):
        for key in range(keys):
            app.state.happened(key_lane(EntityPath(f"e{entity}"), f"k{key:02}"), Event.SEND_FAILED, "test")
    returns = KeyReturns(
        state=app.state,
        pings=pings,
        facts=app.facts,
        queues=NoQueues(),  # type: ignore[arg-type]
        clock=app.clock,
        ping_timeout=timedelta(seconds=5),
    )
    return app, pings, returns


async def test_silent_keys_are_pinged_at_the_same_time_but_not_all() -> None:
    _, pings, returns = sick_keys(entities=3, keys=20)
    assert [] == await returns.tend()
    assert 3 * PINGS_A_ROUND == len(set(pings.asked)) == len(pings.asked)
    assert AT_ONCE_MAX == pings.most_at_once


async def test_the_next_round_goes_on_with_other_keys() -> None:
    _, pings, returns = sick_keys(entities=1, keys=20)
    await returns.tend()
    await returns.tend()
    assert {f"e0/k{key:02}" for key in range(20)} == set(pings.asked)


async def test_a_round_begins_no_ping_after_its_time_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    _, pings, returns = sick_keys(entities=3, keys=AT_ONCE_MAX)
    loop = asyncio.get_running_loop()
    for asked in (1, 2, 3):
        now = loop.time()
        pings.gate.clear()
        tending = asyncio.create_task(returns.tend())
        await until(lambda: pings.at_once == AT_ONCE_MAX, seconds=5, what="pings under way")
        with monkeypatch.context() as patched:
            patched.setattr(loop, "time", lambda now=now: now + 2 * key_returns.ROUND_SECONDS_MAX)
            pings.gate.set()
            await tending
        assert asked * AT_ONCE_MAX == len(set(pings.asked)) == len(pings.asked)


async def test_where_one_key_answers_all_others_of_the_entity_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    app, pings, returns = sick_keys(entities=1, keys=40)
    pings.answering = {"k03", "k30"}

    async def nothing_returns() -> list[EntityPath]:
        return []

    monkeypatch.setattr(returns, "_return_drained", nothing_returns)
    await returns.tend()
    assert 40 == len(pings.asked)
    healed = [lane for lane, state in app.state.key_lanes() if isinstance(state, Unavailable) and state.healed_at]
    assert ["e0#k03", "e0#k30"] == sorted(healed)
