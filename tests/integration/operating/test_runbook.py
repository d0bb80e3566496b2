"""What docs/operating.md tells an operator to do, done: nothing accepted is lost on the way."""

from __future__ import annotations

import pytest

from local.broker.broker import Broker, BrokerOptions, NamespaceSpec
from shared import composition
from shared.domain.availability import Event
from shared.domain.message import DataBody, Message, Properties, outgoing
from shared.domain.pair import EntityPath
from tests.support.send_services import KEY, PairOnBroker, Recorder, stored, until
from tests.support.syphon_services import SyphonHost, ids

ORDERS = EntityPath("orders")
SECONDS_MAX = 30.0


def app(pair: PairOnBroker, **settings: str) -> composition.Runtime:
    return composition.build(
        pair.settings(**settings), telemetry=Recorder(), authority_file=str(pair.broker.authority_file)
    )


async def send(runtime: composition.Runtime, *names: str) -> None:
    for name in names:
        message = Message(body=DataBody((b"x",)), properties=Properties(message_id=name))
        await runtime.sender.send(ORDERS, [outgoing(message)])


async def drain(pair: PairOnBroker, runtime: composition.Runtime, queues: list[str]) -> None:
    async with SyphonHost(pair, runtime, queues):
        await until(lambda: not pair.in_backlog(), seconds=SECONDS_MAX, what="an empty backlog")


async def test_growing_and_shrinking_the_number_of_backlog_queues(pair: PairOnBroker) -> None:
    """Growing: the syphon first. Shrinking: the sender first, and the syphon when the extra queues are empty."""
    pair.create_entities("orders", backlog=1)
    small, large = app(pair, BACKLOG_QUEUE_COUNT="1"), app(pair, BACKLOG_QUEUE_COUNT="3")
    try:
        await large.state.in_use()
        assert large.pairing.is_needed, "the next start creates what is missing"
        assert pair.backlog_paths(3)[1:] == list((await large.pairing.pair()).created)
        await small.state.mark(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
        await large.state.refresh()
        await send(small, "a", "b")
        await send(large, "c", "d")
        await large.state.mark(ORDERS, Event.MARKED_HEALTHY, "rehearsal")
        await drain(pair, large, pair.backlog_paths(3))
        assert {"a": 1, "b": 1, "c": 1, "d": 1} == ids(pair, "orders")
        # Who knows fewer queues neither uses nor removes the others.
        paired = await small.pairing.pair()
        assert (pair.backlog_paths(1), ()) == (list(paired.queues), paired.created)
        assert set(pair.backlog_paths(3)) <= {queue.path for queue in pair.secondary.core.queues()}
    finally:
        await small.close()
        await large.close()


@pytest.mark.soak
async def test_moving_to_another_secondary(storage: str) -> None:
    """The new pair starts afresh; a syphon that still has the old secondary brings home what was left there."""
    specs = [NamespaceSpec(name=name) for name in ("primary", "secondary", "elsewhere")]
    async with Broker(specs, BrokerOptions(key=KEY)) as broker:
        pair = PairOnBroker(broker, storage)
        pair.create_entities("orders", backlog=1)
        (path,) = pair.backlog_paths(1)
        moved = {
            "ServiceBusSecondary": broker["elsewhere"].connection_string,
            "SECONDARY_NAMESPACE_NAME": "elsewhere",
            "BACKLOG_QUEUE_COUNT": "1",
        }
        old, new = app(pair, BACKLOG_QUEUE_COUNT="1"), app(pair, **moved)
        try:
            await old.state.mark(ORDERS, Event.MARKED_UNAVAILABLE, "an outage in the middle of the move")
            await send(old, "left behind")
            assert [path] == list((await new.pairing.pair()).created)
            await send(new, "to the primary, as nobody told the new pair of an outage")
            await new.state.mark(ORDERS, Event.MARKED_UNAVAILABLE, "the same outage")
            await send(new, "after the move")
            assert (1, 1) == (len(stored(pair.secondary, path)), len(stored(broker["elsewhere"], path)))
            await old.state.mark(ORDERS, Event.MARKED_HEALTHY, "over")
            await drain(pair, old, [path])
            assert 1 == ids(pair, "orders")["left behind"]
            await new.state.refresh()
            assert ["Unavailable"] == [type(state).__name__ for _, state in new.state.entities()], "states are apart"
            assert 1 == len(stored(broker["elsewhere"], path))
        finally:
            await old.close()
            await new.close()
