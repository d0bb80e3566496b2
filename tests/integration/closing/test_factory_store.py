"""Factories in Table Storage, and the stand-in that other tests use for it: one suite for both."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.adapters.factories import TableFactoryStore
from shared.adapters.tables import TableStateStore
from shared.connections import read_state_storage
from shared.domain.factory import Cause, Factories, close, fault, open_again
from shared.domain.pair import Side
from shared.ports import FactoryStore, StorageTrouble
from tests.support.closing import NOON, MemoryFactories, shown

CAUSE = Cause(reason="spare parts: żółć 漢字", by="ann", at=NOON + timedelta(microseconds=123_456))


@pytest.fixture(params=["memory", "table"])
async def store(request: pytest.FixtureRequest, storage: str) -> AsyncIterator[FactoryStore]:
    if request.param == "memory":
        yield MemoryFactories()
        return
    table = TableStateStore(read_state_storage({"AzureWebJobsStorage": storage}), f"p{secrets.token_hex(4)}~b")
    yield TableFactoryStore(table)
    await table.close()


def closes(both: Factories) -> Factories:
    return both.having(Side.PRIMARY, close(both.primary, CAUSE))


async def test_a_pair_nobody_ever_closed_is_open(store: FactoryStore) -> None:
    assert Factories() == await store.load()


async def test_what_was_changed_is_read_back_exactly(store: FactoryStore) -> None:
    before, after = await store.change(closes)
    assert (Factories(), closes(Factories())) == (before, after)
    assert after == await store.load()
    before, after = await store.change(lambda both: both.having(Side.SECONDARY, fault(both.secondary, CAUSE)))
    assert ("closed", "faulted") == shown(await store.load())
    before, after = await store.change(lambda both: open_again(both, CAUSE))
    assert (("closed", "faulted"), ("open", "open")) == (shown(before), shown(await store.load()))
    assert (2, 2) == (after.primary.version, after.secondary.version)


async def test_a_decision_to_change_nothing_writes_nothing(store: FactoryStore) -> None:
    await store.change(closes)
    first = await store.load()
    assert (first, first) == await store.change(closes)


async def test_a_decision_is_made_again_when_either_side_changed_meanwhile(store: FactoryStore) -> None:
    """Also the side that the decision leaves as it is: what is decided about one depends on both."""
    await store.change(closes)
    seen: list[tuple[str, str]] = []
    rivals: list[asyncio.Task[object]] = []

    def rival() -> None:
        rivals.append(asyncio.ensure_future(store.change(lambda both: open_again(both, CAUSE))))

    def decide(both: Factories) -> Factories:
        seen.append(shown(both))
        if both.primary.is_open:
            return both
        if isinstance(store, MemoryFactories) and len(seen) == 1:
            store.both = open_again(store.both, CAUSE)
        elif len(seen) == 1:
            rival()
        return both.having(Side.SECONDARY, fault(both.secondary, CAUSE))

    await store.change(decide)
    await asyncio.gather(*rivals)
    assert ("closed", "open") == seen[0]
    assert ("open", "open") == shown(await store.load()), "whoever came first, the pair was opened after the close"


async def test_of_many_instances_at_once_nobodys_change_is_lost(store: FactoryStore) -> None:
    def one_more(both: Factories) -> Factories:
        return both.having(Side.PRIMARY, replace(both.primary, version=both.primary.version + 1))

    await asyncio.gather(*(store.change(one_more) for _ in range(4)))
    assert 4 == (await store.load()).primary.version


async def test_storage_that_does_not_answer_is_named() -> None:
    nowhere = "DefaultEndpointsProtocol=http;AccountName=abc;AccountKey=Yg==;TableEndpoint=http://127.0.0.1:9/abc;"
    table = TableStateStore(read_state_storage({"AzureWebJobsStorage": nowhere}), "a~b")
    with pytest.raises(StorageTrouble):
        await TableFactoryStore(table).load()
    await table.close()
