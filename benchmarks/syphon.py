"""How fast does the syphon bring a backlog home, beside a bare loop over the same SDK and one message at a time?"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from azure.servicebus import ServiceBusMessageBatch, ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

from benchmarks import Figure, compared
from benchmarks._clients import broker
from shared import composition
from shared.adapters.sdk_messages import sdk_message
from shared.composition import Runtime
from shared.domain.availability import Event
from shared.domain.backlog import backlog_queue_paths
from shared.domain.envelope import wrap
from shared.domain.message import DataBody, Message, Properties
from shared.domain.pair import EntityPath
from shared.settings import Settings
from tests.support.send_services import azurite

MESSAGES = 20_000
ROUNDS = 2
SINGLES = 1_000
BODY_BYTES = 1_000
BATCH = 100
IDLE_S = 1.0
BARE_SHARE_GOAL, SINGLE_FACTOR_GOAL = 0.8, 5.0
DESTINATION, DEAD = EntityPath("orders"), EntityPath("dead")
MIXED = 10_000
PAST_SHARE_GOAL = 0.8
NAME = "primary"


def measure() -> Iterable[Figure]:
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        storage = stack.enter_context(azurite()).connection_string
        primary = stack.enter_context(broker(DESTINATION, DEAD)).address
        settings = _settings(primary.connection_string, "", storage, check=False)
        queue = backlog_queue_paths(settings.pair.primary, 1)[0]
        secondary = stack.enter_context(broker(queue)).address
        settings = _settings(primary.connection_string, secondary.connection_string, storage)
        yield from _figures(asyncio.run(_measure(settings, queue)))


def _settings(primary: str, secondary: str, storage: str, *, check: bool = True) -> Settings:
    other = "Endpoint=sb://other:1;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true;"
    return Settings.from_env(
        {
            "ServiceBusPrimary": primary,
            "ServiceBusSecondary": secondary if check else other,
            "PRIMARY_NAMESPACE_NAME": NAME,
            "AzureWebJobsStorage": storage,
            "BACKLOG_QUEUE_COUNT": "1",
        }
    )


async def _measure(settings: Settings, queue: EntityPath) -> Measured:
    """The syphon and the bare loop in turns over a backlog each, then half of the messages for a dead destination."""
    pairs = []
    runtime = composition.build(settings)
    for _ in range(ROUNDS):
        await _fill(settings, queue, MESSAGES)
        ours = await _rate(MESSAGES, lambda: _syphon(runtime, queue))
        await _fill(settings, queue, MESSAGES)
        bare = await _rate(MESSAGES, lambda: _loop(settings, queue, BATCH))
        pairs.append((ours, bare))
    await _fill(settings, queue, SINGLES)
    singles = await _rate(SINGLES, lambda: _loop(settings, queue, 1))
    await runtime.state.mark(DEAD, Event.MARKED_UNAVAILABLE, "benchmark")
    await _fill(settings, queue, MIXED, DESTINATION, DEAD)
    # One call: its own message goes, and it returns when nothing is left in the queue that could go.
    past = await _rate(MIXED, lambda: _one_call(runtime, queue))
    await runtime.close()
    return Measured(pairs, singles, past)


class Measured(NamedTuple):
    """Messages a second: (syphon, bare loop) for each round; one at a time; got home or got past, half and half."""

    rounds: list[tuple[float, float]]
    singles: float
    past: float


async def _rate(count: int, drain: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await drain()
    return count / (time.perf_counter() - started)


async def _fill(settings: Settings, queue: EntityPath, count: int, *destinations: EntityPath) -> None:
    turns = destinations or (DESTINATION,)
    body = DataBody((b"x" * BODY_BYTES,))
    async with _client(settings.secondary.connection_string) as client, client.get_queue_sender(queue) as sender:
        for start in range(0, count, BATCH):
            batch = await sender.create_message_batch()
            for number in range(start, min(start + BATCH, count)):
                message = Message(body=body, properties=Properties(message_id=f"m-{number}"))
                batch.add_message(sdk_message(wrap(message, turns[number % len(turns)])))
            await sender.send_messages(batch)


async def _syphon(runtime: Runtime, queue: EntityPath) -> None:
    """As the host does it: a message wakes a call, and is completed when the call returns."""
    connection = runtime.settings.secondary.connection_string
    async with _client(connection) as client, client.get_queue_receiver(queue) as host:
        while await _woken(runtime, queue, host):
            pass


async def _one_call(runtime: Runtime, queue: EntityPath) -> None:
    connection = runtime.settings.secondary.connection_string
    async with _client(connection) as client, client.get_queue_receiver(queue) as host:
        assert await _woken(runtime, queue, host)


async def _woken(runtime: Runtime, queue: EntityPath, host: ServiceBusReceiver) -> bool:
    woken = await host.receive_messages(1, max_wait_time=IDLE_S)
    for message in woken:
        assert message.sequence_number is not None
        await runtime.syphon.tend(queue, message.sequence_number)
        await host.complete_message(message)
    return bool(woken)


async def _loop(settings: Settings, queue: EntityPath, batch: int) -> None:
    """What anybody would write first: receive, send on as it is, complete."""
    async with (
        _client(settings.secondary.connection_string) as source,
        _client(settings.primary.connection_string) as target,
        source.get_queue_receiver(queue) as receiver,
        target.get_queue_sender(DESTINATION) as sender,
    ):
        while messages := await receiver.receive_messages(batch, max_wait_time=IDLE_S):
            await _send_on(sender, messages)
            await _complete(receiver, messages)


async def _send_on(sender: ServiceBusSender, messages: list[ServiceBusReceivedMessage]) -> None:
    if len(messages) == 1:
        await sender.send_messages(messages[0])
        return
    batch: ServiceBusMessageBatch = await sender.create_message_batch()
    for message in messages:
        batch.add_message(message)
    await sender.send_messages(batch)


async def _complete(receiver: ServiceBusReceiver, messages: list[ServiceBusReceivedMessage]) -> None:
    for message in messages:
        await receiver.complete_message(message)


def _client(connection_string: object) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(connection_string.reveal())  # type: ignore[attr-defined]


def _figures(measured: Measured) -> Iterator[Figure]:
    singles = measured.singles
    beside = compared(measured.rounds)
    yield Figure(
        name=f"draining {MESSAGES:,} messages of 1 KB",
        value=beside.ours,
        unit="messages/s",
        yardstick="bare loop: receive 100, send one batch, complete 100",
        yardstick_value=beside.yardstick,
        ratio=beside.ratio,
        goal=f">= {BARE_SHARE_GOAL} of the bare loop",
        met=beside.ratio >= BARE_SHARE_GOAL,
    )
    yield Figure(
        name="draining, beside one message at a time",
        value=beside.ours,
        unit="messages/s",
        yardstick="receive 1, send 1, complete 1",
        yardstick_value=singles,
        ratio=beside.ours / singles,
        goal=f">= {SINGLE_FACTOR_GOAL:g} times",
        met=beside.ours / singles >= SINGLE_FACTOR_GOAL,
    )
    yield Figure(
        name="one of two destinations down: got home or got past",
        value=measured.past,
        unit="messages/s",
        yardstick="draining with both destinations up",
        yardstick_value=beside.ours,
        ratio=measured.past / beside.ours,
        goal=f">= {PAST_SHARE_GOAL} of full speed",
        met=measured.past / beside.ours >= PAST_SHARE_GOAL,
    )
