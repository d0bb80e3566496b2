"""Messages of a key keep their order while batches of the backlog are settled side by side."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage

from local.broker.descriptions import QueueDescription
from local.broker.partitioning import PARTITION_COUNT, partition_of_key
from shared.domain.pair import EntityPath
from shared.domain.partitions import key_lane
from shared.services.syphon_drain import Drainer
from shared.services.syphon_forwarder import Forwarder
from tests.support.sdk_leftovers import SDK_LEFTOVERS
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_services import Syphoning, backlog_payload, create_backlog, fill, ids, instance

pytestmark = pytest.mark.filterwarnings(SDK_LEFTOVERS)

ORDERS = EntityPath("orders")
KEY = "Customer-1"
SETTINGS = {"FAILOVER_INTERVAL": "PT0S", "PING_PRIMARY_INTERVAL": "PT1S", "BACKLOG_QUEUE_COUNT": "1"}


async def send(app: Syphoning, text: str, key: str | None) -> None:
    message = ServiceBusMessage(text, message_id=text, partition_key=key)
    await app.runtime.sender.send(ORDERS, (app.runtime.to_outgoing(message),))


async def ping_until_it_takes_messages(app: Syphoning, lane: EntityPath) -> None:
    deadline = time.monotonic() + 15
    while not app.runtime.syphon._desk.takes_messages(lane):
        assert time.monotonic() < deadline, "the key does not come back"
        await app.runtime.pinger.ping_what_is_due()
        await asyncio.sleep(0.1)


async def test_messages_that_an_earlier_process_put_aside_come_before_younger_ones_of_their_key(
    pair: PairOnBroker,
) -> None:
    pair.primary.core.create_queue(ORDERS, QueueDescription(enable_partitioning=True))
    pair.create_entities("other", "free", backlog=0)
    (path,) = (EntityPath(one) for one in create_backlog(pair, 1, lock_seconds=5))
    async with instance(pair, **SETTINGS) as app:
        await send(app, "first", None)
        await until(lambda: app.runtime.sender._facts.is_partitioned(ORDERS), seconds=10, what="facts")
        sick = partition_of_key(KEY, PARTITION_COUNT)
        fault = await pair.broker.inject(kind="partition-down", partition=sick, namespace="primary")
        await app.unavailable("other")
        fill(pair, path, [backlog_payload("other", "own")])
        await send(app, "k-0", KEY)
        await send(app, "k-1", KEY)
        fill(pair, path, [backlog_payload("free", "free")])
        async with app.host(path):
            await until(lambda: ids(pair, "free"), seconds=20, what="what is behind those of the key")
    async with instance(pair, **SETTINGS) as app:
        await app.runtime.state.refresh()
        await pair.broker.heal(fault)
        await ping_until_it_takes_messages(app, key_lane(ORDERS, KEY))
        await send(app, "k-2", KEY)
        await send(app, "k-3", KEY)
        await app.healthy("other")
        async with app.host(path):
            await until(lambda: not app.waiting(path), seconds=40, what="an empty backlog")
    arrived = [str(one.content.message_id) for one in pair.in_primary(ORDERS)]
    assert ["k-0", "k-1", "k-2", "k-3"] == [name for name in arrived if name.startswith("k-")]


async def nothing() -> None:
    """No bell is needed: the test itself comes for what is put aside."""


def drainer(app: Syphoning, path: EntityPath) -> Drainer:
    syphon = app.runtime.syphon
    forwarder = Forwarder(
        links=syphon._links,
        facts=syphon._facts,
        retired=syphon._retired,
        attempt_timeout=timedelta(seconds=5),
        partitioned_attempt_timeout=timedelta(seconds=5),
    )
    queue = syphon._queues.open(path)
    return Drainer(
        path=path, queue=queue, forwarder=forwarder, desk=syphon._desk, restart_clock=False, before_aside=nothing
    )


async def test_a_key_that_comes_back_while_its_older_messages_go_aside_waits_for_them(pair: PairOnBroker) -> None:
    pair.primary.core.create_queue(ORDERS, QueueDescription(enable_partitioning=True))
    (path,) = (EntityPath(one) for one in create_backlog(pair, 1))
    async with instance(pair, **SETTINGS) as app:
        await send(app, "first", None)
        await until(lambda: app.runtime.sender._facts.is_partitioned(ORDERS), seconds=10, what="facts")
        sick = partition_of_key(KEY, PARTITION_COUNT)
        fault = await pair.broker.inject(kind="partition-down", partition=sick, namespace="primary")
        for number in range(4):
            await send(app, str(number), KEY)
        assert 4 == len(pair.in_backlog())
        mine = drainer(app, path)
        mine.found_lanes = {key_lane(ORDERS, KEY).lower()}
        try:
            older, is_put_aside = await mine.send(await mine._queue.take(2, 5.0), past_waiting=True)
            await pair.broker.heal(fault)
            lane = key_lane(ORDERS, KEY)
            await ping_until_it_takes_messages(app, lane)
            younger, is_put_aside_too = await mine.send(await mine._queue.take(2, 5.0), past_waiting=True)
            assert (2, 0) == (older.waiting, older.forwarded)
            assert (2, 0) == (younger.waiting, younger.forwarded)
            await is_put_aside
            await is_put_aside_too
            assert 4 == len(mine.aside)
            fetched = await mine._queue.take_aside(mine.aside.take(lane, 4))
            assert 4 == (await mine.handle(fetched, past_waiting=False)).forwarded
        finally:
            mine._forwarder.close()
            await mine._queue.close()
