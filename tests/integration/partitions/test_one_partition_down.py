"""One of sixteen partitions of a queue is down: its keys take the detour, everybody else goes straight on."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient

from functions.status import keys_shown
from local.broker.descriptions import QueueDescription
from local.broker.partitioning import PARTITION_COUNT, partition_of_key
from shared.domain.availability import Available, Route
from shared.domain.pair import EntityPath
from shared.domain.partitions import FAILED_KEYS_MAX, entity_of, read_key_lane
from shared.services.lane import KEY_WORKERS_MAX
from tests.support.sdk_leftovers import SDK_LEFTOVERS
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_services import Syphoning, create_backlog, instance

pytestmark = pytest.mark.filterwarnings(SDK_LEFTOVERS)

ORDERS = EntityPath("orders")
SICK = 5
SETTINGS = {
    "FAILOVER_INTERVAL": "PT0S",
    "PRIMARY_ATTEMPT_TIMEOUT": "PT2S",
    "PRIMARY_ATTEMPT_TIMEOUT_PARTITIONED": "PT3S",
    "PING_PRIMARY_INTERVAL": "PT1S",
}
KEYS = [f"Customer-{n}" for n in range(60)]
SICK_KEYS = {key for key in KEYS if partition_of_key(key, PARTITION_COUNT) == SICK}


async def send(app: Syphoning, text: str, key: str | None, *, session: bool = False) -> Route:
    keys: dict[str, Any] = {"session_id": key} if session else {"partition_key": key}
    message = ServiceBusMessage(text, message_id=f"{key}/{text}", **keys)
    sent = await app.runtime.sender.send(ORDERS, (app.runtime.to_outgoing(message),))
    return sent.via


async def send_round(app: Syphoning, text: str) -> dict[str, Route]:
    return {key: await send(app, text, key) for key in KEYS}


async def ready(pair: PairOnBroker, app: Syphoning, **description: Any) -> list[str]:
    """A partitioned queue of which the app knows that it is."""
    pair.primary.core.create_queue(ORDERS, QueueDescription(enable_partitioning=True, **description))
    queues = create_backlog(pair, 3, lock_seconds=20)
    first = "first" if description.get("requires_session") else None
    assert Route.PRIMARY is await send(app, "first", first, session=first is not None)
    await until(lambda: app.runtime.sender._facts.is_partitioned(ORDERS), seconds=10, what="facts")
    return queues


async def back_home(app: Syphoning) -> None:
    """The timer's work, until no key is watched any more."""
    deadline = time.monotonic() + 40
    while app.runtime.state.key_lanes():
        assert time.monotonic() < deadline, app.runtime.state.key_lanes()
        await app.runtime.pinger.ping_what_is_due()
        await asyncio.sleep(0.1)


async def received(pair: PairOnBroker, count: int) -> dict[str, list[str]]:
    """Texts by key, in the order in which a real receiver gets them."""
    got: dict[str, list[str]] = defaultdict(list)
    async with ServiceBusClient.from_connection_string(pair.primary.connection_string) as client:
        receiver = client.get_queue_receiver(ORDERS, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE)
        async with receiver:
            deadline = time.monotonic() + 20
            while sum(map(len, got.values())) < count and time.monotonic() < deadline:
                for message in await receiver.receive_messages(500, max_wait_time=1):
                    got[str(message.partition_key)].append(str(message))
    return got


@pytest.mark.timeout(120)
async def test_keys_of_the_sick_partition_are_diverted_and_come_home_in_order(pair: PairOnBroker) -> None:
    """Sending goes on all the time: before, during, while the key drains, and after."""
    assert len(SICK_KEYS) >= 2
    async with instance(pair, **SETTINGS) as app:
        queues = await ready(pair, app)
        expected = ["0"]
        assert {Route.PRIMARY} == set((await send_round(app, "0")).values())
        fault = await pair.broker.inject(kind="partition-down", partition=SICK, namespace="primary", entity=ORDERS)
        for turn in range(1, 5):
            routes = await send_round(app, str(turn))
            expected.append(str(turn))
            assert SICK_KEYS == {key for key, route in routes.items() if route is Route.BACKLOG}
        assert isinstance(app.runtime.state.availability(ORDERS), Available)
        assert SICK_KEYS == {str(key) for key in await watched_keys(app)}
        assert {ORDERS: True} == (await app.runtime.status.collect()).partitioned
        await pair.broker.heal(fault)
        async with app.host(*queues):
            pinging = asyncio.create_task(back_home(app))
            turn = 5
            while not pinging.done():
                routes = await send_round(app, str(turn))
                expected.append(str(turn))
                assert SICK_KEYS >= {key for key, route in routes.items() if route is Route.BACKLOG}
                turn += 1
                await asyncio.sleep(0.3)
            await pinging
            assert {Route.PRIMARY} == set((await send_round(app, str(turn))).values())
            expected.append(str(turn))
        assert [] == pair.in_backlog()
        got = await received(pair, len(expected) * len(KEYS) + 1)
    got.pop("None")
    assert {key: expected for key in KEYS} == got


async def watched_keys(app: Syphoning) -> set[str | None]:
    """As the status has them."""
    status = await app.runtime.status.collect()
    assert all(entity_of(lane) == ORDERS for lane, _ in status.keys)
    return {item["key"] for item in keys_shown(ORDERS, status)["keys"]}


async def test_messages_without_a_key_never_leave_the_primary(pair: PairOnBroker) -> None:
    async with instance(pair, **SETTINGS) as app:
        await ready(pair, app)
        await pair.broker.inject(kind="partition-down", partition=SICK, namespace="primary")
        sends = [send(app, str(n), None) for n in range(1000)]
        assert {Route.PRIMARY} == set(await asyncio.gather(*sends))
        assert 1001 == len(pair.in_primary(ORDERS))
        partitions = pair.primary.core.queue(ORDERS).main.partitions
        assert 0 == len(partitions[SICK].messages)


@pytest.mark.parametrize("fault", [{"kind": "partition-down"}, {"kind": "partition-slow", "delay_s": 60.0}])
async def test_in_a_storm_of_keys_those_of_healthy_partitions_never_leave_the_primary(
    pair: PairOnBroker, fault: dict[str, Any]
) -> None:
    """All at once, more of the sick partition than there are links at work, and more than make one ask the entity."""
    keys = [f"Storm-{n}" for n in range(160)]
    sick = {key for key in keys if partition_of_key(key, PARTITION_COUNT) == SICK}
    assert len(sick) > FAILED_KEYS_MAX > KEY_WORKERS_MAX
    async with instance(pair, **SETTINGS | {"PRIMARY_ATTEMPT_TIMEOUT_PARTITIONED": "PT6S"}) as app:
        await ready(pair, app)
        await pair.broker.inject(**fault, partition=SICK, namespace="primary")
        routes = dict(zip(keys, await asyncio.gather(*(send(app, "1", key) for key in keys)), strict=True))
        assert sick == {key for key, route in routes.items() if route is Route.BACKLOG}
        assert sick == {read_key_lane(lane).key for lane, _ in app.runtime.state.key_lanes()}
        assert isinstance(app.runtime.state.availability(ORDERS), Available)
        assert Route.PRIMARY is await send(app, "keyless", None)


@pytest.mark.parametrize("fault", [{"kind": "partition-full"}, {"kind": "partition-slow", "delay_s": 30.0}])
async def test_a_full_or_silent_partition_diverts_its_keys_too(pair: PairOnBroker, fault: dict[str, Any]) -> None:
    async with instance(pair, **SETTINGS) as app:
        await ready(pair, app)
        await pair.broker.inject(**fault, partition=SICK, namespace="primary")
        sick, well = min(SICK_KEYS), min(set(KEYS) - SICK_KEYS)
        assert Route.BACKLOG is await send(app, "1", sick)
        assert Route.PRIMARY is await send(app, "2", well)
        assert Route.BACKLOG is await send(app, "3", sick)
        assert isinstance(app.runtime.state.availability(ORDERS), Available)


async def test_sessions_are_keys(pair: PairOnBroker) -> None:
    async with instance(pair, **SETTINGS) as app:
        await ready(pair, app, requires_session=True)
        await pair.broker.inject(kind="partition-down", partition=SICK, namespace="primary")
        routes = {key: await send(app, "x", key, session=True) for key in KEYS}
    assert SICK_KEYS == {key for key, route in routes.items() if route is Route.BACKLOG}


async def test_the_whole_entity_fails_over_when_its_partitions_do(pair: PairOnBroker) -> None:
    async with instance(pair, **SETTINGS | {"PRIMARY_ATTEMPT_TIMEOUT_PARTITIONED": "PT1S"}) as app:
        await ready(pair, app)
        for index in range(PARTITION_COUNT):
            await pair.broker.inject(kind="partition-down", partition=index, namespace="primary")
        routes = await asyncio.gather(*(send(app, "x", key) for key in KEYS[:FAILED_KEYS_MAX]))
        assert {Route.BACKLOG} == set(routes)
        state = app.runtime.state
        await until(lambda: not isinstance(state.availability(ORDERS), Available), seconds=10, what="failover")
        assert Route.BACKLOG is await send(app, "keyless", None)


async def test_another_instance_learns_of_a_sick_key_and_of_its_return(pair: PairOnBroker) -> None:
    key = min(SICK_KEYS)
    async with instance(pair, **SETTINGS) as app, instance(pair, **SETTINGS) as other:
        queues = await ready(pair, app)
        assert Route.PRIMARY is await send(other, "0", key)
        fault = await pair.broker.inject(kind="partition-down", partition=SICK, namespace="primary")
        assert Route.BACKLOG is await send(app, "1", key)
        await until(lambda: other.runtime.state.key_lanes(), seconds=10, what="the other's knowledge")
        assert Route.BACKLOG is await send(other, "2", key)
        assert 2 == len({str(m.content.message_id) for m in pair.in_backlog()})
        await pair.broker.heal(fault)
        async with app.host(*queues):
            await back_home(app)
            await until(lambda: not other.runtime.state.key_lanes(), seconds=10, what="the other's knowledge")
        assert Route.PRIMARY is await send(other, "3", key)
        got = await received(pair, 5)
    assert ["0", "1", "2", "3"] == got[key]


async def test_where_duplicates_are_detected_the_message_id_is_the_key(pair: PairOnBroker) -> None:
    """Of a message that has no other; it is diverted, forwarded and brought home by it."""
    async with instance(pair, **SETTINGS) as app:
        queues = await ready(pair, app, requires_duplicate_detection=True)
        fault = await pair.broker.inject(kind="partition-down", partition=SICK, namespace="primary")
        texts = [str(n) for n in range(40)]
        sick = {text for text in texts if partition_of_key(f"None/{text}", PARTITION_COUNT) == SICK}
        assert sick
        routes = {text: await send(app, text, None) for text in texts}
        assert sick == {text for text, route in routes.items() if route is Route.BACKLOG}
        assert isinstance(app.runtime.state.availability(ORDERS), Available)
        assert {f"None/{text}" for text in sick} == await watched_keys(app)
        await pair.broker.heal(fault)
        async with app.host(*queues):
            await back_home(app)
        assert [] == pair.in_backlog()
        got = await received(pair, 1 + len(texts))
    assert sorted(["first", *texts]) == sorted(got["None"])
