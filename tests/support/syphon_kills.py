"""A drain that is killed again and again, and what is left of it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from local.broker.descriptions import QueueDescription
from shared.services.syphon_drain import BATCH_MAX
from shared.services.syphon_settling import BATCHES_MAX
from tests.support.send_hosts import send_hosts
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_services import backlog_payload, create_backlog, fill, ids

#: In flight at a kill, for each queue: the batches that are settled or sent, and the message the host holds.
IN_FLIGHT_MAX = BATCHES_MAX * BATCH_MAX + 1
MESSAGES_A_KILL = 600
SETTINGS = {"ENABLE_SYPHON": "true", "BACKLOG_QUEUE_COUNT": "1", "SYPHON_RATE_LIMIT": "400"}
PLAIN, DETECTING = "plain", "detecting"


async def drain_under_kills(pair: PairOnBroker, folder: Path, rng: random.Random, kills: int) -> int:
    """How many messages came twice where nothing detects duplicates; fails if anything else is wrong."""
    pair.create_entities(PLAIN, backlog=0)
    pair.primary.core.create_queue(DETECTING, QueueDescription(requires_duplicate_detection=True))
    (queue,) = create_backlog(pair, 1, lock_seconds=6)
    count = MESSAGES_A_KILL * (kills + 1)
    fill(pair, queue, [backlog_payload((PLAIN, DETECTING)[n % 2], f"m-{n}", b"x" * 1000) for n in range(count)])
    for kill in range(kills):
        await _run_and_kill(pair, folder / f"run{kill}", pause_s=rng.uniform(0, 0.8))
    async with send_hosts(pair, _made(folder / "last"), count=1, **SETTINGS):
        await until(lambda: not pair.in_backlog(), seconds=180, what="an empty backlog")
    plain, detecting = ids(pair, PLAIN), ids(pair, DETECTING)
    assert {f"m-{n}" for n in range(0, count, 2)} == set(plain)
    assert {f"m-{n}" for n in range(1, count, 2)} == set(detecting)
    assert {1} == set(detecting.values())
    return sum(plain.values()) - len(plain)


async def _run_and_kill(pair: PairOnBroker, folder: Path, *, pause_s: float) -> None:
    before = sum(ids(pair, PLAIN).values())
    async with send_hosts(pair, _made(folder), count=1, **SETTINGS) as (host,):
        await until(lambda: sum(ids(pair, PLAIN).values()) > before, seconds=90, what="a drain")
        # Any moment of a drain is as good as another; which one it is decides the test's seed.
        await asyncio.sleep(pause_s)
        assert pair.in_backlog(), "the kill came too late to hit a drain"
        host.process.kill()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
