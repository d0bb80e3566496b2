"""One suite over every store of shared state: in memory, and Table Storage on Azurite."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from shared.adapters.tables import TableStateStore
from shared.connections import read_state_storage
from shared.domain.availability import Available, Unavailable
from shared.domain.pair import EntityPath
from shared.domain.partitions import key_lane
from shared.domain.rotation import Outage
from shared.ports import EntityRecord, PairingRecord, QueueRecord, StateStore, StorageTrouble
from tests.support.send_fakes import InMemoryStateStore, SharedRows
from tests.support.sending import NOON

ORDERS = EntityPath("sales/Orders")
QUEUE = EntityPath("contoso/x-servicebus-transfer/0")
DOWN = EntityRecord(
    path=ORDERS,
    availability=Unavailable(since=NOON, reason="time-out: zażółć"),
    changed_at=NOON,
    accepted=True,
    by="me",
)
Open = Callable[[], StateStore]


@pytest.fixture(params=["memory", "tables"])
async def open_store(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """Opens stores of several instances over the same state."""
    opened: list[StateStore] = []
    rows, pair = SharedRows(), secrets.token_hex(4)

    def open_one() -> StateStore:
        store: StateStore = InMemoryStateStore(rows)
        if request.param == "tables":
            storage = read_state_storage({"AzureWebJobsStorage": request.getfixturevalue("storage")})
            store = TableStateStore(storage, pair)
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        await store.close()


async def test_nothing_is_there_at_first(open_store: Open) -> None:
    state = await open_store().load()
    assert ((), (), None) == (state.entities, state.queues, state.pairing)


async def test_what_one_instance_writes_another_reads(open_store: Open) -> None:
    one, other = open_store(), open_store()
    queue = QueueRecord(path=QUEUE, changed_at=NOON, outage=Outage(since=NOON, reason="full"))
    pairing = PairingRecord(queues=(QUEUE,), at=NOON, warnings=("w",))
    assert DOWN == await one.change_entity(ORDERS, lambda _: DOWN)
    await one.change_queue(QUEUE, lambda _: queue)
    await one.save_pairing(pairing)
    state = await other.load()
    assert ((DOWN,), (queue,), pairing) == (state.entities, state.queues, state.pairing)


async def test_a_change_is_decided_on_what_is_there(open_store: Open) -> None:
    one, other = open_store(), open_store()
    await one.change_entity(ORDERS, lambda _: DOWN)
    up = EntityRecord(path=ORDERS, availability=Available(since=NOON), changed_at=NOON + timedelta(seconds=1))
    seen: list[EntityRecord | None] = []

    def decide(found: EntityRecord | None) -> EntityRecord:
        seen.append(found)
        return up

    assert up == await other.change_entity(ORDERS, decide)
    assert [DOWN] == seen
    assert (up,) == (await one.load()).entities


async def test_deciding_nothing_leaves_everything(open_store: Open) -> None:
    store = open_store()
    await store.change_entity(ORDERS, lambda _: DOWN)
    assert DOWN == await store.change_entity(ORDERS, lambda _: None)
    assert None is await store.change_entity(EntityPath("other"), lambda _: None)
    assert (DOWN,) == (await store.load()).entities


async def test_paths_that_differ_in_case_are_one_entity(open_store: Open) -> None:
    store = open_store()
    await store.change_entity(ORDERS, lambda _: DOWN)
    await store.change_entity(EntityPath("SALES/orders"), lambda found: found)
    assert 1 == len((await store.load()).entities)


async def test_a_key_lane_is_kept_with_its_healing_and_forgotten_unless_there_is_later_news(open_store: Open) -> None:
    store = open_store()
    lane = key_lane(ORDERS, "Kunde 17/ä?")
    healed = Unavailable(since=NOON, reason="r", healed_at=NOON + timedelta(seconds=1))
    record = EntityRecord(path=lane, availability=healed, changed_at=NOON)
    await store.change_entity(lane, lambda _: record)
    assert (record,) == (await store.load()).entities
    await store.forget_entity(lane, until=NOON - timedelta(seconds=1))
    assert (record,) == (await store.load()).entities
    await store.forget_entity(lane, until=NOON)
    await store.forget_entity(lane, until=NOON)
    assert () == (await store.load()).entities


async def test_no_change_is_lost_when_many_write_at_once(open_store: Open) -> None:
    stores = [open_store() for _ in range(4)]

    async def count_up(store: StateStore) -> None:
        def add_one(found: EntityRecord | None) -> EntityRecord:
            number = int(found.by) if found else 0
            return dataclasses.replace(DOWN, by=str(number + 1))

        for _ in range(3):
            while True:  # a conflict that outlasts the store's own tries is reported, and tried again here
                try:
                    await store.change_entity(ORDERS, add_one)
                except StorageTrouble:
                    continue
                break

    await asyncio.gather(*map(count_up, stores))
    (record,) = (await stores[0].load()).entities
    assert "12" == record.by


async def test_ten_thousand_queues_fit_a_pairing(open_store: Open) -> None:
    store = open_store()
    queues = tuple(EntityPath(f"contoso/x-servicebus-transfer/{number}") for number in range(10_000) if number != 7)
    await store.save_pairing(PairingRecord(queues=queues, at=NOON, warnings=("x" * 1000,) * 100))
    pairing = (await store.load()).pairing
    assert pairing is not None
    assert queues == pairing.queues


async def test_a_store_that_cannot_be_reached_says_so_in_time() -> None:
    storage = read_state_storage(
        {
            "AzureWebJobsStorage": "AccountName=devstoreaccount1;AccountKey=c2VjcmV0;"
            "TableEndpoint=http://127.0.0.1:1/devstoreaccount1"
        }
    )
    store = TableStateStore(storage, "pair")
    with pytest.raises(StorageTrouble):
        await store.load()
    await store.close()
