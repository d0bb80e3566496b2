"""Waiting costs the same however much waits; an empty backlog costs nothing of ours."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.send_services import PairOnBroker, pair_on_broker
from tests.support.syphon_outage import QUEUES, operations_while_waiting
from tests.support.syphon_services import count_operations, instance, never_striking_fault

# Long or sensitive to a loaded machine: a part of `make soak`.
pytestmark = pytest.mark.soak

SECONDS = 8.0
#: One look a second, and what a call begins with: a connection, two links, its own message, who leads.
A_QUEUE_MAX = SECONDS + 8


async def test_ten_times_the_backlog_costs_no_more(storage: str) -> None:
    totals = []
    for messages in (600, 6_000):
        async with pair_on_broker(storage) as pair:
            totals.append((await operations_while_waiting(pair, messages=messages, seconds=SECONDS)).total)
    few, many = totals
    assert abs(few - many) <= QUEUES
    assert max(totals) <= A_QUEUE_MAX * QUEUES


async def test_with_an_empty_backlog_the_syphon_asks_for_nothing(pair: PairOnBroker) -> None:
    """What remains is the host's own: the receivers it keeps open for the triggers."""
    pair.create_entities(backlog=QUEUES)
    await never_striking_fault(pair)
    async with instance(pair, BACKLOG_QUEUE_COUNT=str(QUEUES)) as app, app.host() as host:
        operations = count_operations(pair)
        await asyncio.sleep(3)
        assert [] == host.calls
        assert {"attach", "cbs"} >= {point.value for point in operations.counts}
