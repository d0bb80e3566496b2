"""Backlog messages come home: through the real SDK, called as the Functions host calls."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage

from local.broker.descriptions import QueueDescription
from shared.domain.availability import Route
from shared.domain.pair import EntityPath, Side
from shared.errors import EntityNotFound
from shared.telemetry_events import DeadLettered, Forwarded, SetAside
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_services import backlog_payload, create_backlog, dead_letters, fill, ids, instance


async def test_everything_arrives_at_its_own_entity_and_the_backlog_ends_empty(pair: PairOnBroker) -> None:
    pair.create_entities("orders", "bills", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload(("orders", "bills")[n % 2], f"m-{n}") for n in range(1000)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue) as host:
        await until(lambda: app.waiting(queue) == 0, seconds=30, what="an empty backlog")
        assert [] == host.errors
    assert Counter({f"m-{n}": 1 for n in range(0, 1000, 2)}) == ids(pair, "orders")
    assert Counter({f"m-{n}": 1 for n in range(1, 1000, 2)}) == ids(pair, "bills")
    assert 1000 == len(app.telemetry.of(Forwarded))


async def test_the_order_of_an_entitys_messages_is_kept(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(550)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue):
        await until(lambda: app.waiting(queue) == 0, seconds=30, what="an empty backlog")
    arrived = [message.content.message_id for message in pair.in_primary("orders")]
    assert [f"m-{n}" for n in range(550)] == arrived


async def test_while_nothing_can_move_the_call_stays_and_goes_on_when_it_can(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(300)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app:
        await app.unavailable("orders")
        async with app.host(queue) as host:
            await until(lambda: host.calls, seconds=10, what="a call")
            assert 300 == app.waiting(queue)
            await app.healthy("orders")
            await until(lambda: app.waiting(queue) == 0, seconds=30, what="an empty backlog")
            assert [] == host.errors
    assert Counter({f"m-{n}": 1 for n in range(300)}) == ids(pair, "orders")


async def test_messages_of_a_dead_destination_stand_in_nobodys_way(pair: PairOnBroker) -> None:
    """The worst order: everything for the dead one comes first, and nothing is known about the other."""
    pair.create_entities("dead", "alive", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("dead", f"d-{n}") for n in range(2000)])
    fill(pair, queue, [backlog_payload("alive", f"a-{n}") for n in range(500)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app:
        await app.unavailable("dead")
        async with app.host(queue) as host:
            took = await until(lambda: len(ids(pair, "alive")) == 500, seconds=60, what="the other's messages")
            assert took < 60
            assert 0 == len(pair.in_primary("dead"))
            await until(lambda: app.waiting(queue) == 2000, seconds=10, what="nothing but the dead one's messages")
            await app.healthy("dead")
            await until(lambda: app.waiting(queue) == 0, seconds=60, what="an empty backlog")
            assert [] == host.errors
    assert Counter({f"d-{n}": 1 for n in range(2000)}) == ids(pair, "dead")
    assert Counter({f"a-{n}": 1 for n in range(500)}) == ids(pair, "alive")
    assert app.telemetry.of(SetAside)


async def test_what_was_set_aside_is_fetched_by_another_instance(pair: PairOnBroker) -> None:
    """The first instance forwards its own message, sets the others aside, and is gone; a bell is left behind."""
    pair.create_entities("dead", "alive", backlog=0)
    (queue,) = create_backlog(pair, 1, lock_seconds=6)
    mixed = [backlog_payload(("alive", "dead")[n % 2], f"m-{n}") for n in range(400)]
    fill(pair, queue, mixed)
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app:
        await app.unavailable("dead")
        async with app.host(queue):
            await until(lambda: len(ids(pair, "alive")) == 200, seconds=30, what="the other's messages")
            await until(lambda: app.waiting(queue) == 201, seconds=30, what="the dead one's messages and a bell")
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as other:
        await other.healthy("dead")
        async with other.host(queue):
            await until(lambda: other.waiting(queue) == 0, seconds=30, what="an empty backlog")
    assert Counter({f"m-{n}": 1 for n in range(1, 400, 2)}) == ids(pair, "dead")


async def test_what_can_never_be_delivered_is_dead_lettered_and_delays_nobody(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    pair.primary.core.create_queue("sessions", QueueDescription(requires_session=True))
    (queue,) = pair.backlog_paths(1)
    bad = {
        "no path": backlog_payload(None, "no path"),
        "bad session": backlog_payload("orders", "bad session", transfer={"x-ms-sessionid": 7}),
        "refused": backlog_payload("sessions", "refused"),
        "nowhere": backlog_payload("no-such-queue", "nowhere"),
        "expired": backlog_payload("orders", "expired", transfer={"x-ms-timetolive": 1}),
    }
    good = [backlog_payload("orders", f"m-{n}") for n in range(100)]
    fill(pair, queue, [*bad.values(), *good, *bad.values()])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue):
        await until(lambda: app.waiting(queue) == 0, seconds=40, what="an empty backlog")
        found = dead_letters(pair, queue)
        assert Counter({name: 2 for name in bad}) == Counter(name for name, _, _ in found)
        reasons = {name: (reason, description) for name, reason, description in found}
        assert "InvalidTransferProperties" == reasons["no path"][0]
        assert "has no x-ms-path" in reasons["no path"][1]
        assert "InvalidTransferProperties" == reasons["bad session"][0]
        assert "x-ms-sessionid is not text" in reasons["bad session"][1]
        assert "DestinationRefused" == reasons["refused"][0]
        assert "DestinationNotFound" == reasons["nowhere"][0]
        assert "TTLExpiredException" == reasons["expired"][0]
        assert 10 == len(app.telemetry.of(DeadLettered))
    assert Counter({f"m-{n}": 1 for n in range(100)}) == ids(pair, "orders")


async def test_a_single_bad_message_in_an_otherwise_empty_queue_is_dead_lettered(pair: PairOnBroker) -> None:
    pair.create_entities(backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload(None, "lost")])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue):
        await until(lambda: app.waiting(queue) == 0, seconds=20, what="an empty backlog")
    assert ["lost"] == [name for name, _, _ in dead_letters(pair, queue)]


async def test_the_clock_of_time_to_live_can_be_restarted(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", "old", transfer={"x-ms-timetolive": 600_000_000})])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1", SYPHON_RESTART_TIME_TO_LIVE="true") as app, app.host(queue):
        await until(lambda: app.waiting(queue) == 0, seconds=20, what="an empty backlog")
    (message,) = pair.in_primary("orders")
    assert 60.0 == message.content.time_to_live


@pytest.mark.parametrize("side", list(Side))
async def test_nothing_moves_while_a_side_is_closed(pair: PairOnBroker, side: Side) -> None:
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", "m")])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app:
        await app.runtime.closing.close(side, reason="test", by="test")
        async with app.host(queue) as host:
            await until(lambda: host.calls, seconds=10, what="a call")
            called_at = app.refreshed_at
            rounds = timedelta(seconds=3)
            await until(lambda: app.refreshed_at > called_at + rounds, seconds=10, what="several rounds")
            assert 1 == app.waiting(queue)
            await app.runtime.closing.open(reason="test", by="test")
            await until(lambda: app.waiting(queue) == 0, seconds=20, what="an empty backlog")
    assert 1 == len(pair.in_primary("orders"))


async def test_what_was_sent_to_a_mistyped_path_in_an_outage_ends_as_a_dead_letter(pair: PairOnBroker) -> None:
    """While nobody answers, a path cannot be told from one that does not exist; afterwards everybody is told."""
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    settings = {"BACKLOG_QUEUE_COUNT": "1", "FAILOVER_INTERVAL": "PT0S"}
    async with instance(pair, **settings) as app:
        typo = EntityPath("ordersss")
        fault = await pair.broker.inject(kind="refuse", namespace="primary")
        message = app.runtime.to_outgoing(ServiceBusMessage("x", message_id="typo"))
        assert Route.BACKLOG is (await app.runtime.sender.send(typo, (message,))).via
        await pair.broker.heal(fault)
        assert [typo] == await app.runtime.pinger.ping_what_is_due()
        with pytest.raises(EntityNotFound):
            await app.runtime.sender.send(typo, (message,))
        async with app.host(queue):
            await until(lambda: dead_letters(pair, queue), seconds=30, what="a dead letter")
            await until(lambda: app.waiting(queue) == 0, seconds=30, what="an empty backlog")
    assert [("typo", "DestinationNotFound")] == [(name, reason) for name, reason, _ in dead_letters(pair, queue)]
