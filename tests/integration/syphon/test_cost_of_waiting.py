"""Waiting costs the same however much waits; an empty backlog costs nothing of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from local.broker.faults import Point
from tests.support.send_services import PairOnBroker, pair_on_broker, until
from tests.support.syphon_outage import QUEUES, operations_while_waiting
from tests.support.syphon_services import count_operations, instance, never_striking_fault

SECONDS = 8.0
IDLE_SECONDS = 6.0
#: The SDK renews a token of an hour when a tenth of its life is left.
TOKENS_AN_HOUR = 1.1
#: What the original client allowed itself: 40 operations an hour for ten backlog queues.
ORIGINALS_AN_HOUR_FOR_TEN = 40
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


async def test_with_an_empty_backlog_the_syphon_asks_for_nothing(
    pair: PairOnBroker, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """What remains is the host's own: the receivers it keeps open for the triggers, and their tokens."""
    pair.create_entities(backlog=QUEUES)
    await never_striking_fault(pair)
    async with instance(pair, BACKLOG_QUEUE_COUNT=str(QUEUES)) as app, app.host() as host:
        opening = count_operations(pair)
        await until(lambda: opening.counts[Point.ATTACH] >= QUEUES, seconds=20, what="open receivers")
        idle = count_operations(pair)
        # Idleness itself is what is measured: nothing happens in it that could be waited for.
        await asyncio.sleep(IDLE_SECONDS)
        assert [] == host.calls
        # A receiver's second link, for management, may still be on its way.
        assert {Point.ATTACH, Point.CBS} >= set(idle.counts)
    hourly = idle.total / QUEUES * 3600 / IDLE_SECONDS + TOKENS_AN_HOUR
    record_property("idle_operations_an_hour_a_queue", hourly)
    with capsys.disabled():
        print(f"\nempty backlog: {hourly:.1f} operations an hour for each queue, {TOKENS_AN_HOUR} of them tokens")  # noqa: T201 - the figure is the result
    assert 10 * hourly <= ORIGINALS_AN_HOUR_FOR_TEN
