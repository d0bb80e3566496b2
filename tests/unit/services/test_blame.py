"""Whom a failure of a partitioned entity counts against: a key, the entity, or nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from shared.domain.availability import Available, Route, Unavailable
from shared.domain.failures import Failure
from shared.domain.partitions import FAILED_KEYS_MAX, Traits
from shared.errors import Overloaded
from shared.services import failover_sender
from shared.services import lane as lane_module
from shared.telemetry_events import FailureCounted
from tests.support.send_fakes import failed
from tests.support.send_instances import ORDERS, Instance
from tests.support.send_services import until

KEYS = [f"k{number}" for number in range(FAILED_KEYS_MAX)]


@pytest.fixture
async def app() -> AsyncIterator[Instance]:
    app = Instance(traits=Traits(partitioned=True))
    assert await app.facts.learnt(ORDERS, seconds=5)
    yield app
    await app.close()


async def send_at_once(app: Instance, keys: list[str]) -> set[Route]:
    return {sent.via for sent in await asyncio.gather(*(app.send(key, key=key) for key in keys))}


async def test_many_keys_of_one_partition_failing_at_once_are_not_the_entitys_fault(app: Instance) -> None:
    app.offices.primary.unwelcome = {key: failed(Failure.ENTITY_FULL) for key in KEYS}
    assert {Route.BACKLOG} == await send_at_once(app, KEYS)
    await until(lambda: not app.state.many_keys_failed(ORDERS), seconds=5, what="the entity's answer")
    assert isinstance(app.state.availability(ORDERS), Available)
    assert Route.PRIMARY is (await app.send("well", key="well")).via
    assert Route.PRIMARY is (await app.send("keyless")).via
    assert Route.BACKLOG is (await app.send("again", key=KEYS[0])).via


async def test_an_entity_that_answers_to_no_key_is_out(app: Instance) -> None:
    app.offices.primary.script = [failed(Failure.ENTITY_FULL)] * 100
    assert {Route.BACKLOG} == await send_at_once(app, KEYS)
    await until(lambda: isinstance(app.state.availability(ORDERS), Unavailable), seconds=5, what="failover")
    assert Route.BACKLOG is (await app.send("keyless")).via


async def test_fewer_keys_are_no_reason_to_ask(app: Instance) -> None:
    app.offices.primary.script = [failed(Failure.ENTITY_FULL)] * 100
    assert {Route.BACKLOG} == await send_at_once(app, KEYS[1:])
    assert not app.check._asking
    assert isinstance(app.state.availability(ORDERS), Available)


@pytest.fixture
def one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that one transfer which hangs keeps everybody waiting, until it is too late for them."""
    monkeypatch.setattr(lane_module, "LATE_PART", 0.9)
    monkeypatch.setattr(lane_module, "KEY_WORKERS_MAX", 1)
    monkeypatch.setattr(lane_module, "SLOW_AFTER_S", 60.0)


@pytest.mark.usefixtures("one_worker")
async def test_whose_turn_did_not_come_is_not_blamed_and_gets_in_line_again(app: Instance) -> None:
    app.offices.primary.held = {"stuck": asyncio.Event()}
    stuck, waiting = await asyncio.gather(app.send("stuck", key="stuck"), app.send("waiting", key="waiting"))
    assert (Route.BACKLOG, Route.PRIMARY) == (stuck.via, waiting.via)
    assert ["orders#stuck"] == [lane for lane, _ in app.state.key_lanes()]
    assert 1 == len(app.telemetry.of(FailureCounted))


@pytest.mark.usefixtures("one_worker")
async def test_whose_turn_never_comes_is_told_to_come_back(app: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover_sender, "TURNS_MAX", 1)
    app.offices.primary.held = {"stuck": asyncio.Event()}
    both = (app.send("stuck", key="stuck"), app.send("waiting", key="waiting"))
    _, waiting = await asyncio.gather(*both, return_exceptions=True)
    assert isinstance(waiting, Overloaded)
    assert ["orders#stuck"] == [lane for lane, _ in app.state.key_lanes()]


@pytest.mark.usefixtures("one_worker")
async def test_whose_turn_did_not_come_goes_the_other_way_when_the_entity_does_not_answer() -> None:
    app = Instance(traits=Traits(partitioned=True), attempt_timeout=timedelta(seconds=0.2))
    assert await app.facts.learnt(ORDERS, seconds=5)
    app.offices.primary.script = [asyncio.Event()] * 100
    routes = await asyncio.gather(app.send("stuck", key="stuck"), app.send("waiting", key="waiting"))
    assert {Route.BACKLOG} == {sent.via for sent in routes}
    assert isinstance(app.state.availability(ORDERS), Unavailable)
    await app.close()


async def test_a_key_that_fails_first_in_a_new_instance_is_blamed_alone() -> None:
    app = Instance(traits=Traits(partitioned=True, detects_duplicates=True))
    app.offices.primary.unwelcome = {name: failed(Failure.ENTITY_FULL) for name in ("sick", "id")}
    routes = await asyncio.gather(app.send("sick", key="k"), app.send("id"))
    assert {Route.BACKLOG} == {sent.via for sent in routes}
    assert ["orders#id", "orders#k"] == sorted(lane for lane, _ in app.state.key_lanes())
    assert isinstance(app.state.availability(ORDERS), Available)
    await app.close()
