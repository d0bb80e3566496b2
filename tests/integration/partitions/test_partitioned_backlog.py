"""Backlog queues that are partitioned on request: made so, filled, drained, and rid of what can never be delivered."""

from __future__ import annotations

from collections import defaultdict

import pytest
from azure.servicebus import ServiceBusMessage

from local.broker.descriptions import QueueDescription
from local.broker.partitioning import PARTITION_COUNT
from shared.domain.availability import Route
from shared.domain.pair import EntityPath
from tests.support.sdk_leftovers import SDK_LEFTOVERS
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_services import backlog_payload, dead_letters, fill, instance

pytestmark = pytest.mark.filterwarnings(SDK_LEFTOVERS)

ORDERS = EntityPath("orders")
SETTINGS = {"BACKLOG_QUEUE_COUNT": "1", "BACKLOG_PARTITIONED": "true"}


async def test_a_partitioned_backlog_queue_is_made_filled_and_drained_in_order_of_keys(pair: PairOnBroker) -> None:
    pair.primary.core.create_queue(ORDERS, QueueDescription())
    (path,) = pair.backlog_paths(1)
    async with instance(pair, **SETTINGS) as app:
        paired = await app.runtime.pairing.pair()
        assert ((path,), ()) == (paired.created, paired.warnings)
        queue = pair.secondary.core.queue(path)
        assert PARTITION_COUNT == len(queue.main.partitions)
        await app.unavailable(ORDERS)
        for n in range(90):
            message = ServiceBusMessage(f"{n}", message_id=f"m-{n}", partition_key=f"key-{n % 9}")
            sent = await app.runtime.sender.send(ORDERS, (app.runtime.to_outgoing(message),))
            assert Route.BACKLOG is sent.via
        assert sum(bool(one.messages) for one in queue.main.partitions) > 1
        await app.healthy(ORDERS)
        async with app.host(path) as host:
            await until(lambda: app.waiting(path) == 0, seconds=30, what="an empty backlog")
        assert [] == host.errors
    arrived = defaultdict(list)
    for stored in pair.in_primary(ORDERS):
        arrived[stored.content.partition_key].append(stored.content.message_id)
    assert {f"key-{k}": [f"m-{n}" for n in range(k, 90, 9)] for k in range(9)} == arrived


@pytest.mark.parametrize("before", [3, 14])
async def test_what_can_never_be_delivered_is_found_wherever_its_copy_lands(pair: PairOnBroker, before: int) -> None:
    """The copy of a message without a key goes to the next partition in turn, perhaps to a lower number."""
    (path,) = pair.backlog_paths(1)
    pair.secondary.core.create_queue(path, QueueDescription(enable_partitioning=True, max_delivery_count=2**31 - 1))
    pair.secondary.core.queue(path).main._round_robin = before
    fill(pair, path, [backlog_payload(None, "lost")])
    async with instance(pair, **SETTINGS) as app, app.host(path):
        await until(lambda: dead_letters(pair, path), seconds=30, what="a dead letter")
        await until(lambda: app.waiting(path) == 0, seconds=30, what="an empty queue")
    assert [("lost", "InvalidTransferProperties")] == [(name, reason) for name, reason, _ in dead_letters(pair, path)]


async def test_a_plain_queue_that_exists_is_used_with_a_warning(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    async with instance(pair, **SETTINGS) as app:
        paired = await app.runtime.pairing.pair()
    assert () == paired.created
    assert ["enable_partitioning is False, not True"] == [text.partition(": ")[2] for text in paired.warnings]
