"""Messages that can go are got out from behind those that cannot, and nobody is forgotten who waits aside."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta

from shared.domain.pair import Side
from shared.services.syphon_drain import BATCH_MAX
from shared.services.syphon_settling import BATCHES_MAX
from tests.support.broker import payload
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_services import backlog_payload, create_backlog, dead_letters, fill, ids, instance

#: More waiting messages than a pass takes before it stops looking for others among them.
FAR_APART = 1_200
GROUPS = 4
TICKS_A_SECOND = 10_000_000


async def test_messages_far_apart_among_those_of_a_dead_destination_are_home_within_a_minute(
    pair: PairOnBroker,
) -> None:
    """What is come upon first is not all there is."""
    pair.create_entities("dead", "alive", backlog=1)
    (queue,) = pair.backlog_paths(1)
    for group in range(GROUPS):
        fill(pair, queue, [backlog_payload("dead", f"d-{group}-{n}") for n in range(FAR_APART)])
        fill(pair, queue, [backlog_payload("alive", f"a-{group}")])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app:
        await app.unavailable("dead", "alive")
        async with app.host(queue) as host:
            await until(lambda: host.calls, seconds=10, what="a call")
            await app.healthy("alive")
            await until(lambda: len(ids(pair, "alive")) == GROUPS, seconds=60, what="all of the other's messages")
            assert [] == host.errors
            assert [] == pair.in_primary("dead")
            await app.healthy("dead")
            await until(lambda: app.waiting(queue) == 0, seconds=60, what="an empty backlog")
    assert Counter({f"d-{group}-{n}": 1 for group in range(GROUPS) for n in range(FAR_APART)}) == ids(pair, "dead")
    assert Counter({f"a-{group}": 1 for group in range(GROUPS)}) == ids(pair, "alive")


async def test_the_calls_own_message_does_not_wait_until_the_whole_queue_is_gone_through(pair: PairOnBroker) -> None:
    pair.create_entities("own", "dead", "alive", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("own", "own")])
    fill(pair, queue, [backlog_payload(("dead", "alive")[n % 2], f"m-{n}") for n in range(200)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1", SYPHON_RATE_LIMIT="1") as app:
        await app.unavailable("own", "dead", "alive")
        async with app.host(queue) as host:
            await until(lambda: host.calls, seconds=10, what="a call")
            await app.healthy("alive")
            await until(lambda: len(ids(pair, "alive")) > 0, seconds=30, what="the first of the others")
            await app.healthy("own")
            await until(lambda: ids(pair, "own"), seconds=30, what="the call's own message")
            assert len(ids(pair, "alive")) < 100, "it could go long before the others were through"


async def test_a_calls_message_that_expired_in_the_outage_holds_nobody_up(pair: PairOnBroker) -> None:
    """Its copy is behind all the others; the first of a queue is its oldest, so after a long outage that is usual."""
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", "own", transfer={"x-ms-timetolive": TICKS_A_SECOND})])
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(600)])
    expired_at = time.monotonic() + 1
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app:
        await app.unavailable("orders")
        async with app.host(queue) as host:
            await until(lambda: host.calls, seconds=10, what="a call that waits for its entity")
            # Once it looked around in vain, so that this is what it waits for.
            await until(lambda: time.monotonic() > expired_at + 2, seconds=10, what="the end of its message's time")
            await app.healthy("orders")
            await until(lambda: app.waiting(queue) == 0, seconds=45, what="an empty backlog")
            assert [] == host.errors
    assert Counter({f"m-{n}": 1 for n in range(600)}) == ids(pair, "orders")
    assert ["own"] == [name for name, _, _ in dead_letters(pair, queue)]


async def test_a_bell_whose_lock_ended_while_the_queue_was_drained_still_rings(pair: PairOnBroker) -> None:
    """It is taken twice then; were it completed at the second time, nobody would come for what waits aside."""
    pair.create_entities("orders", "dead", backlog=0)
    (queue,) = create_backlog(pair, 1, lock_seconds=5)
    bell = payload(b"", application={"x-pair-bell": True}, message_id="bell")
    fill(pair, queue, [backlog_payload("orders", "own"), bell, backlog_payload("dead", "aside")])
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(600)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1", SYPHON_RATE_LIMIT="60") as app:
        await app.unavailable("dead")
        async with app.host(queue):
            await until(lambda: len(ids(pair, "orders")) == 601, seconds=60, what="all but the one aside")
            await app.healthy("dead")
            await until(lambda: ids(pair, "dead"), seconds=30, what="the one aside")
            await until(lambda: app.waiting(queue) == 0, seconds=30, what="an empty backlog")


async def test_nothing_more_is_taken_once_a_side_is_closed(pair: PairOnBroker) -> None:
    """Also while a drain waits for batches to be settled before it takes the next one."""
    sent = 1 + BATCHES_MAX * BATCH_MAX
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(sent + 200)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue):
        await pair.broker.inject(kind="black-hole", namespace="secondary", entity=queue, points=["settle"])
        await until(lambda: len(ids(pair, "orders")) == sent, seconds=30, what="as many as may be unsettled")
        await app.runtime.closing.close(Side.PRIMARY, reason="test", by="test")
        await pair.broker.heal()
        await until(lambda: app.waiting(queue) == 200, seconds=30, what="the end of settling")
        closed_at = app.refreshed_at
        rounds = timedelta(seconds=2)
        await until(lambda: app.refreshed_at > closed_at + rounds, seconds=10, what="several rounds")
        assert sent == len(ids(pair, "orders"))
        await app.runtime.closing.open(reason="test", by="test")
        await until(lambda: app.waiting(queue) == 0, seconds=30, what="an empty backlog")
    assert sent + 200 == len(ids(pair, "orders"))
