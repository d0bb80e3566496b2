"""What waiting costs: operations that the syphon asks of the secondary during an outage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_services import (
    Operations,
    backlog_payload,
    count_operations,
    fill,
    instance,
    never_striking_fault,
)

QUEUES = 3


async def operations_while_waiting(pair: PairOnBroker, *, messages: int, seconds: float) -> Operations:
    """Everything waits for one entity; operations are counted from the moment that every queue has its call."""
    pair.create_entities("orders", backlog=QUEUES)
    queues = pair.backlog_paths(QUEUES)
    for index, queue in enumerate(queues):
        fill(pair, queue, [backlog_payload("orders", f"m-{index}-{n}") for n in range(messages // QUEUES)])
    await never_striking_fault(pair)
    async with instance(pair, BACKLOG_QUEUE_COUNT=str(QUEUES)) as app:
        await app.unavailable("orders")
        async with app.host(*queues) as host:
            await until(lambda: len(host.calls) == QUEUES, seconds=30, what="a call for each queue")
            with count_operations(pair) as operations:
                # The outage itself is what is measured: nothing happens in it that could be waited for.
                await asyncio.sleep(seconds)
            assert QUEUES == len(host.calls)
            assert [] == host.errors
    assert 0 == len(pair.in_primary("orders"))
    return operations


def table_of(counted: Mapping[int, Operations], *, seconds: float) -> str:
    """For the end of a run: what waiting cost with so many messages."""
    lines = [f"waiting for {seconds:.0f} s at {QUEUES} backlog queues"]
    for messages, operations in counted.items():
        a_minute = operations.total / QUEUES / seconds * 60
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(operations.kinds.items()))
        lines.append(f"{messages:>7,} messages: {a_minute:5.1f} operations a minute for each queue ({kinds})")
    return "\n".join(lines)
