"""Waiting costs the same however much waits; an empty backlog costs nothing of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from local.broker.faults import Point
from tests.support.send_services import PairOnBroker, pair_on_broker, until
from tests.support.syphon_outage import QUEUES, operations_while_waiting, table_of
from tests.support.syphon_services import Operations, count_operations, instance, never_striking_fault

SECONDS = 8.0
IDLE_SECONDS = 6.0
#: The SDK renews a token of an hour when a tenth of its life is left.
TOKENS_AN_HOUR = 1.1
#: What the original client allowed itself: 40 operations an hour for ten backlog queues.
ORIGINALS_AN_HOUR_FOR_TEN = 40
#: One look a second, and what a call begins with: a connection, two links, its own message, who leads.
A_QUEUE_MAX = SECONDS + 8


async def test_ten_times_the_backlog_costs_no_more(
    storage: str, record_property: Callable[[str, object], None]
) -> None:
    counted: dict[int, Operations] = {}
    for messages in (600, 6_000):
        async with pair_on_broker(storage) as pair:
            counted[messages] = await operations_while_waiting(pair, messages=messages, seconds=SECONDS)
    record_property("table", table_of(counted, seconds=SECONDS))
    few, many = (operations.total for operations in counted.values())
    assert abs(few - many) <= QUEUES
    assert max(few, many) <= A_QUEUE_MAX * QUEUES


async def test_with_an_empty_backlog_the_syphon_asks_for_nothing(
    pair: PairOnBroker, record_property: Callable[[str, object], None]
) -> None:
    """What remains is the host's own: the receivers it keeps open for the triggers, their tokens, and its asking."""
    pair.create_entities(backlog=QUEUES)
    await never_striking_fault(pair)
    async with instance(pair, BACKLOG_QUEUE_COUNT=str(QUEUES)) as app, app.host() as host:
        with count_operations(pair) as opening:
            await until(lambda: opening.counts[Point.ATTACH] >= QUEUES, seconds=20, what="open receivers")
        with count_operations(pair) as idle:
            # Idleness itself is what is measured: nothing happens in it that could be waited for.
            await asyncio.sleep(IDLE_SECONDS)
        assert [] == host.calls
        # A receiver's second link, for management, may still be on its way.
        assert {Point.ATTACH, Point.CBS} >= set(idle.counts)
        assert 0 == idle.flows
    hourly, by_host = (count / QUEUES * 3600 / IDLE_SECONDS for count in (idle.total, idle.host_flows))
    hourly += TOKENS_AN_HOUR
    record_property("idle_operations_an_hour_a_queue", hourly)
    table = f"empty backlog: {hourly:.1f} operations an hour for each queue, {TOKENS_AN_HOUR} of them tokens"
    record_property(
        "table", f"{table}\nbesides, the host's stand-in renews its receiver's credit {by_host:.0f} times an hour"
    )
    assert 10 * hourly <= ORIGINALS_AN_HOUR_FOR_TEN
