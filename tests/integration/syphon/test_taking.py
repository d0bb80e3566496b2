"""Taking messages of a backlog queue: in their order, and none is left with a receiver that nobody asks."""

from __future__ import annotations

import asyncio

import pytest

from shared.adapters.backlog_receiver import SdkBacklogQueue, SdkBacklogQueues
from shared.domain.pair import EntityPath
from shared.domain.syphon import BacklogMessage
from shared.ports import BacklogTrouble
from shared.settings import Settings
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_services import backlog_payload, fill


def opened(pair: PairOnBroker, path: str) -> SdkBacklogQueue:
    return SdkBacklogQueues(Settings.from_env(pair.app_settings()).secondary, None).open(EntityPath(path))


class Outcomes:
    """What was told of each message, in the order of telling."""

    def __init__(self) -> None:
        self.told: list[tuple[int, bool]] = []

    def __call__(self, message: BacklogMessage, settled: bool) -> None:
        self.told.append((message.sequence_number, settled))


async def test_what_comes_after_a_batch_fell_short_is_taken_next_and_in_order(pair: PairOnBroker) -> None:
    """The receiver that asked for 100 and got 3 gets what comes next, whoever is asked for it."""
    pair.create_entities("orders", backlog=1)
    (path,) = pair.backlog_paths(1)
    queue = opened(pair, path)
    try:
        taken: list[object] = []
        for numbers in (range(3), range(3, 10), range(10, 12)):
            fill(pair, path, [backlog_payload("orders", f"m-{number}") for number in numbers])
            batch = await queue.take(100, 5.0)
            taken += [message.message.properties.message_id for message in batch]
            await queue.complete(batch)
        assert [f"m-{number}".encode() for number in range(12)] == [
            name if isinstance(name, bytes) else str(name).encode() for name in taken
        ]
        await until(lambda: not pair.in_backlog(), seconds=5, what="an empty queue")
    finally:
        await queue.close()


async def test_batches_are_settled_side_by_side(pair: PairOnBroker) -> None:
    """Over a distance every settling takes its time: neither taking nor another batch's settling waits for it."""
    pair.create_entities("orders", backlog=1)
    (path,) = pair.backlog_paths(1)
    fill(pair, path, [backlog_payload("orders", f"m-{number}") for number in range(20)])
    queue, outcomes = opened(pair, path), Outcomes()
    try:
        fault = await pair.broker.inject(kind="black-hole", namespace="secondary", entity=path, points=["settle"])
        settling = []
        for number in range(1, 5):
            settling.append(asyncio.create_task(queue.complete(await queue.take(5, 5.0), outcomes)))
            await until(lambda: pair.broker.faults.rules[fault].hits == number, seconds=5, what="a settling under way")  # noqa: B023
        assert [] == outcomes.told
        await pair.broker.heal(fault)
        await asyncio.gather(*settling)
        assert [True] * 20 == [settled for _, settled in outcomes.told]
        await until(lambda: not pair.in_backlog(), seconds=5, what="an empty queue")
    finally:
        await queue.close()


@pytest.mark.parametrize("kind", ["reset", "black-hole"])
async def test_a_receiver_that_breaks_or_falls_silent_leaves_its_messages_to_another(
    pair: PairOnBroker, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks outlive the connection they were got by: each message is settled by its token, and told of once."""
    monkeypatch.setattr("shared.adapters.backlog_calls.CALL_SECONDS_MAX", 2.0)
    pair.create_entities("orders", backlog=1)
    (path,) = pair.backlog_paths(1)
    fill(pair, path, [backlog_payload("orders", f"m-{number}") for number in range(20)])
    queue, outcomes = opened(pair, path), Outcomes()
    try:
        batches = [await queue.take(10, 5.0), await queue.take(10, 5.0)]
        points = {"points": ["settle"]} if kind == "reset" else {"entity": path, "points": ["settle"]}
        await pair.broker.inject(kind=kind, namespace="secondary", after=5, count=1, **points)
        await asyncio.gather(*(queue.complete(batch, outcomes) for batch in batches))
        expected = {(message.sequence_number, True) for batch in batches for message in batch}
        assert expected == set(outcomes.told)
        assert 20 == len(outcomes.told)
        await until(lambda: not pair.in_backlog(), seconds=5, what="an empty queue")
    finally:
        await pair.broker.heal()
        await queue.close()


async def test_where_no_more_receivers_can_be_opened_those_there_are_take(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    (path,) = pair.backlog_paths(1)
    fill(pair, path, [backlog_payload("orders", f"m-{number}") for number in range(20)])
    queue = opened(pair, path)
    try:
        first = await queue.take(5, 5.0)
        await pair.broker.inject(kind="error", namespace="secondary", entity=path, points=["attach"])
        # Nothing is settled yet, so this one would rather have a receiver of its own.
        second = await queue.take(5, 5.0)
        assert 10 == len({message.sequence_number for message in (*first, *second)})
        await queue.complete([*first, *second])
        await queue.stop_taking()
        with pytest.raises(BacklogTrouble):
            await queue.take(5, 5.0)
        await pair.broker.heal()
        await queue.stop_taking()
        await queue.complete(await queue.take(10, 5.0))
        await until(lambda: not pair.in_backlog(), seconds=5, what="an empty queue")
    finally:
        await queue.close()


async def test_a_receiver_that_is_opened_for_nothing_takes_nothing(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    (path,) = pair.backlog_paths(1)
    queue = opened(pair, path)
    try:
        queue.prepare()
        await queue.stop_taking()
        queue.prepare()
        fill(pair, path, [backlog_payload("orders", f"m-{number}") for number in range(10)])
        assert 10 == len(await queue.take(10, 5.0))
    finally:
        await queue.close()
    assert not queue._takers._closing


async def test_more_questions_are_answered_than_the_sdk_allows_one_receiver(pair: PairOnBroker) -> None:
    """It gives the service credit for 10,000 answers, and never any more."""
    pair.create_entities("orders", backlog=1)
    (path,) = pair.backlog_paths(1)
    queue = opened(pair, path)
    try:
        for _ in range(10_100):
            assert [] == await queue.look(0, 1)
    finally:
        await queue.close()
