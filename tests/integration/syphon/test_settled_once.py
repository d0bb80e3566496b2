"""Each message is settled by one operation: the one that woke a call by the host, all others by the syphon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from local.broker.errors import BrokerError
from local.broker.faults import Point
from local.broker.message_queue import MessageQueue
from tests.support.send_services import PairOnBroker, stored, until
from tests.support.syphon_services import backlog_payload, count_operations, fill, ids, instance, never_striking_fault

#: Several batches, the last of them not full.
MESSAGES = 333
SETTLING = ("complete", "abandon", "defer", "dead_letter", "release")


def watched(queue: MessageQueue, patched: pytest.MonkeyPatch) -> Counter[tuple[str, int | None]]:
    """How often the queue was asked to settle each message, and in what way; no number = it had no such lock."""
    asked: Counter[tuple[str, int | None]] = Counter()

    def counting(kind: str, settle: Callable[..., Any]) -> Callable[..., Any]:
        def ask(token: bytes, *more: object) -> object:
            message = queue._locks.get(token)
            asked[kind, message.sequence_number if message is not None else None] += 1
            return settle(token, *more)

        return ask

    for kind in SETTLING:
        patched.setattr(queue, kind, counting(kind, getattr(queue, kind)))
    locked = queue.locked

    def looking(token: bytes) -> object:
        """The management node asks for the lock first, so a second settlement by token gets no further."""
        try:
            return locked(token)
        except BrokerError:
            asked["refused", None] += 1
            raise

    patched.setattr(queue, "locked", looking)
    return asked


async def test_a_call_and_its_host_settle_every_message_with_one_operation(
    pair: PairOnBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message that woke the call is the host's to complete, all others are the syphon's."""
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(MESSAGES)])
    numbers = [message.sequence_number for message in stored(pair.secondary, queue)]
    asked = watched(pair.secondary.core.queue(queue).main, monkeypatch)
    await never_striking_fault(pair)
    with count_operations(pair) as operations:
        async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue) as host:
            await until(lambda: app.waiting(queue) == 0, seconds=60, what="an empty backlog")
        assert [(queue, numbers[0])] == host.calls
        assert [] == host.errors
    # One that reaches a receiver after it was asked for is given back unseen, as if never delivered, and comes again.
    given_back = sum(asked.pop(each) for each in list(asked) if each[0] == "release")
    assert Counter({("complete", number): 1 for number in numbers}) == asked
    assert MESSAGES == operations.counts[Point.SETTLE] - given_back
    assert Counter({f"m-{n}": 1 for n in range(MESSAGES)}) == ids(pair, "orders")
