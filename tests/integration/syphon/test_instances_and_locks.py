"""Several instances, lost locks, throttling, trouble with the backlog itself: what may come twice is counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from local.broker.descriptions import QueueDescription
from shared.errors import NothingMoved
from shared.telemetry_events import DestinationRested, Forwarded, ForwardInDoubt
from tests.support.broker import payload
from tests.support.send_services import PairOnBroker, stored, until
from tests.support.syphon_services import backlog_payload, create_backlog, dead_letters, fill, ids, instance


def counted_duplicates(*telemetries: object) -> set[str]:
    """Messages of which it was said that they may come twice."""
    forwarded = [event for one in telemetries for event in one.of(Forwarded)]  # type: ignore[attr-defined]
    in_doubt = [event for one in telemetries for event in one.of(ForwardInDoubt)]  # type: ignore[attr-defined]
    return {event.message_id for event in forwarded if event.possible_duplicate} | {one.message_id for one in in_doubt}


async def test_two_instances_drain_one_queue_and_nothing_comes_twice(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(3000)])
    async with (
        instance(pair, BACKLOG_QUEUE_COUNT="1") as one,
        instance(pair, BACKLOG_QUEUE_COUNT="1") as other,
        one.host(queue) as first,
        other.host(queue) as second,
    ):
        await until(lambda: one.waiting(queue) == 0, seconds=60, what="an empty backlog")
        assert first.calls
        assert second.calls
        assert [] == [*first.errors, *second.errors]
    assert Counter({f"m-{n}": 1 for n in range(3000)}) == ids(pair, "orders")
    assert 3000 == len(one.telemetry.of(Forwarded)) + len(other.telemetry.of(Forwarded))


async def test_two_instances_wait_at_one_queue_with_a_dead_destination(pair: PairOnBroker) -> None:
    pair.create_entities("dead", "alive", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload(("dead", "alive")[n % 2], f"m-{n}") for n in range(800)])
    async with (
        instance(pair, BACKLOG_QUEUE_COUNT="1") as one,
        instance(pair, BACKLOG_QUEUE_COUNT="1") as other,
    ):
        await one.unavailable("dead")
        await other.runtime.state.refresh()
        async with one.host(queue), other.host(queue):
            await until(lambda: len(ids(pair, "alive")) == 400, seconds=60, what="the other's messages")
            await one.healthy("dead")
            await until(lambda: one.waiting(queue) == 0, seconds=60, what="an empty backlog")
    assert Counter({f"m-{n}": 1 for n in range(0, 800, 2)}) == ids(pair, "dead")
    assert Counter({f"m-{n}": 1 for n in range(1, 800, 2)}) == ids(pair, "alive")


async def test_a_message_given_back_again_and_again_is_delivered_once_in_the_end(pair: PairOnBroker) -> None:
    """Calls whose time is up raise, and the host gives their message back: that count grows, nothing else."""
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(5)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app:
        syphon, tick = app.runtime.syphon, timedelta(milliseconds=100)
        syphon._options = replace(syphon._options, call_budget=3 * tick, look_every=tick)
        await app.unavailable("orders")
        async with app.host(queue) as host:
            await until(lambda: len(host.errors) >= 12, seconds=30, what="a dozen calls in vain")
            assert {NothingMoved} == {type(error) for error in host.errors}
            assert max(message.delivery_count for message in stored(pair.secondary, queue)) >= 10
            await app.healthy("orders")
            await until(lambda: app.waiting(queue) == 0, seconds=30, what="an empty backlog")
    assert Counter({f"m-{n}": 1 for n in range(5)}) == ids(pair, "orders")
    assert [] == dead_letters(pair, queue)


async def test_a_lock_that_ends_while_its_call_waits_costs_no_more_than_is_counted(pair: PairOnBroker) -> None:
    """The worst host: it renews no lock, so that a second instance gets the message that the first one still tends."""
    pair.create_entities("orders", backlog=0)
    (queue,) = create_backlog(pair, 1, lock_seconds=5)
    fill(pair, queue, [backlog_payload("orders", "m")])
    async with (
        instance(pair, BACKLOG_QUEUE_COUNT="1") as one,
        instance(pair, BACKLOG_QUEUE_COUNT="1") as other,
    ):
        await one.unavailable("orders")
        await other.runtime.state.refresh()
        first, second = one.host(queue), other.host(queue)
        first.renewed_for = second.renewed_for = timedelta(0)
        async with first, second:
            await until(lambda: len(first.calls) + len(second.calls) >= 2, seconds=30, what="the message, twice")
            await one.healthy("orders")
            await until(lambda: one.waiting(queue) == 0, seconds=30, what="an empty backlog")
    forwarded = [*one.telemetry.of(Forwarded), *other.telemetry.of(Forwarded)]
    assert {"m"} == set(ids(pair, "orders"))
    assert ids(pair, "orders")["m"] == len(forwarded), "every delivery is on record"


@pytest.mark.parametrize("point", ["settle"])
async def test_completions_that_never_arrive_cost_duplicates_that_are_counted(pair: PairOnBroker, point: str) -> None:
    """The connection to the backlog breaks while messages that have arrived are being completed."""
    pair.create_entities("orders", backlog=0)
    (queue,) = create_backlog(pair, 1, lock_seconds=6)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(500)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue):
        await pair.broker.inject(kind="reset", namespace="secondary", points=[point], after=150, count=3)
        await until(lambda: app.waiting(queue) == 0, seconds=90, what="an empty backlog")
    arrived = ids(pair, "orders")
    assert {f"m-{n}" for n in range(500)} == set(arrived)
    assert sum(arrived.values()) == len(app.telemetry.of(Forwarded))


async def test_what_the_backlog_was_lost_over_before_it_could_be_completed_is_counted(pair: PairOnBroker) -> None:
    """The primary has a batch, and the secondary goes away as a whole before one message of it is completed."""
    pair.create_entities("orders", backlog=0)
    (queue,) = create_backlog(pair, 1, lock_seconds=6)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(150)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue):
        await pair.broker.inject(kind="black-hole", namespace="secondary", entity=queue, points=["settle"])
        # The one that woke the call, and the first batch.
        await until(lambda: len(ids(pair, "orders")) >= 101, seconds=30, what="the first batch at its entity")
        await pair.broker.inject(kind="refuse", namespace="secondary")
        await until(lambda: counted_duplicates(app.telemetry), seconds=60, what="a record of what comes again")
        await pair.broker.heal()
        await until(lambda: app.waiting(queue) == 0, seconds=90, what="an empty backlog")
    arrived = ids(pair, "orders")
    assert {f"m-{n}" for n in range(150)} == set(arrived)
    assert 100 <= len([name for name, count in arrived.items() if count > 1])
    assert sum(arrived.values()) == len(app.telemetry.of(Forwarded)), "every delivery is on record"


async def test_a_destination_with_duplicate_detection_gets_everything_once(pair: PairOnBroker) -> None:
    pair.create_entities(backlog=0)
    pair.primary.core.create_queue("orders", QueueDescription(requires_duplicate_detection=True))
    (queue,) = create_backlog(pair, 1, lock_seconds=6)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(500)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue):
        await pair.broker.inject(kind="reset", namespace="secondary", points=["settle"], after=150, count=3)
        await pair.broker.inject(kind="lose-acknowledgement", namespace="primary", reset=True, after=1, count=2)
        await until(lambda: app.waiting(queue) == 0, seconds=90, what="an empty backlog")
    assert Counter({f"m-{n}": 1 for n in range(500)}) == ids(pair, "orders")


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "silence"])
async def test_a_lost_answer_of_the_primary_is_a_duplicate_that_is_counted(pair: PairOnBroker, reset: bool) -> None:
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(300)])
    settings = {"BACKLOG_QUEUE_COUNT": "1", "PRIMARY_ATTEMPT_TIMEOUT": "PT2S"}
    async with instance(pair, **settings) as app, app.host(queue):
        await pair.broker.inject(kind="lose-acknowledgement", namespace="primary", reset=reset, after=1, count=1)
        await until(lambda: app.waiting(queue) == 0, seconds=60, what="an empty backlog")
    arrived = ids(pair, "orders")
    assert {f"m-{n}" for n in range(300)} == set(arrived)
    twice = {name for name, count in arrived.items() if count > 1}
    assert twice
    assert twice <= counted_duplicates(app.telemetry)


async def test_throttling_slows_the_drain_down_and_loses_nothing(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(400)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue) as host:
        await pair.broker.inject(kind="throttle", namespace="primary", after=1, count=3)
        await until(lambda: app.waiting(queue) == 0, seconds=60, what="an empty backlog")
        assert [] == host.errors
    assert Counter({f"m-{n}": 1 for n in range(400)}) == ids(pair, "orders")
    rests = app.telemetry.of(DestinationRested)
    assert 3 == len([event for event in rests if isinstance(event, DestinationRested)])


async def test_a_rate_limit_is_kept(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(300)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1", SYPHON_RATE_LIMIT="50") as app, app.host(queue):
        took = await until(lambda: app.waiting(queue) == 0, seconds=60, what="an empty backlog")
    assert took >= (300 - 100) / 50
    assert Counter({f"m-{n}": 1 for n in range(300)}) == ids(pair, "orders")


async def test_large_messages_travel_in_several_transfers(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    large = b"x" * 200_000
    fill(pair, queue, [payload(large, application={"x-ms-path": "orders"}, message_id=f"m-{n}") for n in range(12)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue):
        await until(lambda: app.waiting(queue) == 0, seconds=60, what="an empty backlog")
    assert Counter({f"m-{n}": 1 for n in range(12)}) == ids(pair, "orders")
