"""How fast does the syphon bring a backlog home, beside a bare loop over the same SDK and one message at a time?"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from azure.servicebus import ServiceBusMessageBatch, ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

from benchmarks import Figure, compared
from benchmarks._clients import broker, inject
from shared import composition
from shared.adapters.sdk_messages import sdk_message
from shared.composition import Runtime
from shared.domain.availability import Event
from shared.domain.backlog import backlog_queue_paths
from shared.domain.envelope import wrap
from shared.domain.message import DataBody, Message, Properties
from shared.domain.pair import EntityPath
from shared.settings import Settings
from tests.conformance.broker_process import BrokerProcess
from tests.support.send_services import azurite

MESSAGES = 20_000
ROUNDS = 3
SINGLES = 1_000
BODY_BYTES = 1_000
BATCH = 100
IDLE_S = 1.0
BARE_SHARE_GOAL, SINGLE_FACTOR_GOAL = 0.8, 5.0
DESTINATION, DEAD = EntityPath("orders"), EntityPath("dead")
PAST_SHARE_GOAL = 0.8
NAME = "primary"
#: Both namespaces answer everything so much later: about as far as the next region, and one of a pair is in another.
DISTANCE_S = 0.01
FAR_MESSAGES, FAR_BARE, FAR_SINGLES = 5_000, 1_000, 100


def measure() -> Iterable[Figure]:
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        storage = stack.enter_context(azurite()).connection_string
        primary = stack.enter_context(broker(DESTINATION, DEAD))
        settings = _settings(primary.address.connection_string, "", storage, check=False)
        queue = backlog_queue_paths(settings.pair.primary, 1)[0]
        secondary = stack.enter_context(broker(queue))
        settings = _settings(primary.address.connection_string, secondary.address.connection_string, storage)
        yield from _figures(asyncio.run(_measure(settings, queue, [primary, secondary])))


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


class Round(NamedTuple):
    """Messages a second, one after the other."""

    syphon: float
    bare: float
    singles: float
    #: Received and completed by the hundred, and sent nowhere: no order of calls drains faster.
    unsent: float


class Measured(NamedTuple):
    near: list[Round]
    far: list[Round]
    #: Half of the messages are for a dead destination: messages a second that got home or were got past, each beside
    #: the syphon's own of that round.
    past: list[tuple[float, float]]


async def _measure(settings: Settings, queue: EntityPath, brokers: list[BrokerProcess]) -> Measured:
    runtime = composition.build(settings)
    near, past = [], []
    for _ in range(ROUNDS):
        near.append(await _round(runtime, queue, MESSAGES, MESSAGES, SINGLES))
        past.append((await _past_the_dead(runtime, queue), near[-1].syphon))
    for one in brokers:
        inject(one.address, kind="delay", delay_s=DISTANCE_S, points=["send", "deliver", "settle", "management"])
    far = [await _round(runtime, queue, FAR_MESSAGES, FAR_BARE, FAR_SINGLES) for _ in range(ROUNDS)]
    await runtime.close()
    return Measured(near, far, past)


async def _round(runtime: Runtime, queue: EntityPath, ours: int, bare: int, singles: int) -> Round:
    settings = runtime.settings
    await _fill(settings, queue, ours)
    syphon_s = await _syphon(runtime, queue)
    await _fill(settings, queue, bare)
    bare_s = await _loop(settings, queue, bare, BATCH)
    await _fill(settings, queue, singles)
    singles_s = await _loop(settings, queue, singles, 1)
    await _fill(settings, queue, bare)
    unsent_s = await _loop(settings, queue, bare, BATCH, send=False)
    return Round(ours / syphon_s, bare / bare_s, singles / singles_s, bare / unsent_s)


async def _past_the_dead(runtime: Runtime, queue: EntityPath) -> float:
    await runtime.state.mark(DEAD, Event.MARKED_UNAVAILABLE, "benchmark")
    await _fill(runtime.settings, queue, MESSAGES, DESTINATION, DEAD)
    # One call: its own message goes, and it returns when nothing is left in the queue that could go.
    seconds = await _syphon(runtime, queue, calls=1)
    await runtime.state.mark(DEAD, Event.MARKED_HEALTHY, "benchmark")
    await _syphon(runtime, queue)
    return MESSAGES / seconds


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


async def _syphon(runtime: Runtime, queue: EntityPath, calls: int | None = None) -> float:
    """As the host does it: a message wakes a call, and is completed when the call returns. Seconds to the last."""
    connection = runtime.settings.secondary.connection_string
    async with _client(connection) as client, client.get_queue_receiver(queue) as host:
        started = ended = time.perf_counter()
        while calls != 0 and (woken := await host.receive_messages(1, max_wait_time=IDLE_S)):
            (message,) = woken
            assert message.sequence_number is not None
            await runtime.syphon.tend(queue, message.sequence_number)
            await host.complete_message(message)
            ended = time.perf_counter()
            calls = None if calls is None else calls - 1
        return ended - started


async def _loop(settings: Settings, queue: EntityPath, count: int, batch: int, *, send: bool = True) -> float:
    """What anybody would write first: receive, send on as it is, complete. Seconds, with everything opened before."""
    async with (
        _client(settings.secondary.connection_string) as source,
        _client(settings.primary.connection_string) as target,
        source.get_queue_receiver(queue) as receiver,
        target.get_queue_sender(DESTINATION) as sender,
    ):
        started = time.perf_counter()
        while count > 0:
            messages = await receiver.receive_messages(min(batch, count), max_wait_time=IDLE_S)
            assert messages, f"{count} messages are missing"
            if send:
                await _send_on(sender, messages)
            await _complete(receiver, messages)
            count -= len(messages)
        return time.perf_counter() - started


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
    beside_bare = compared([(one.syphon, one.bare) for one in measured.near])
    yield Figure(
        name=f"draining {MESSAGES:,} messages of 1 KB",
        value=beside_bare.ours,
        unit="messages/s",
        yardstick="bare loop: receive 100, send one batch, complete 100",
        yardstick_value=beside_bare.yardstick,
        ratio=beside_bare.ratio,
        goal=f">= {BARE_SHARE_GOAL} of the bare loop",
        met=beside_bare.ratio >= BARE_SHARE_GOAL,
    )
    yield _beside_singles("draining, beside one message at a time", measured.near)
    yield _most("received and completed, sent nowhere", measured.near)
    beside_all = compared(measured.past)
    yield Figure(
        name="one of two destinations down: got home or got past",
        value=beside_all.ours,
        unit="messages/s",
        yardstick="draining with both destinations up",
        yardstick_value=beside_all.yardstick,
        ratio=beside_all.ratio,
        goal=f">= {PAST_SHARE_GOAL} of full speed",
        met=beside_all.ratio >= PAST_SHARE_GOAL,
    )
    far = f"{DISTANCE_S * 1000:g} ms away"
    beside_bare = compared([(one.syphon, one.bare) for one in measured.far])
    yield Figure(
        name=f"draining, both namespaces {far}",
        value=beside_bare.ours,
        unit="messages/s",
        yardstick="the bare loop, as far",
        yardstick_value=beside_bare.yardstick,
        ratio=beside_bare.ratio,
    )
    yield _beside_singles(f"draining, {far}, beside one message at a time", measured.far)
    yield _most(f"received and completed, sent nowhere, {far}", measured.far)


def _beside_singles(name: str, rounds: list[Round]) -> Figure:
    beside = compared([(one.syphon, one.singles) for one in rounds])
    return Figure(
        name=name,
        value=beside.ours,
        unit="messages/s",
        yardstick="receive 1, send 1, complete 1",
        yardstick_value=beside.yardstick,
        ratio=beside.ratio,
        goal=f">= {SINGLE_FACTOR_GOAL:g} times",
        met=beside.ratio >= SINGLE_FACTOR_GOAL,
    )


def _most(name: str, rounds: list[Round]) -> Figure:
    """What the SDK takes for that alone bounds every drain that completes batch after batch."""
    beside = compared([(one.unsent, one.singles) for one in rounds])
    return Figure(
        name=name,
        value=beside.ours,
        unit="messages/s",
        yardstick="receive 1, send 1, complete 1",
        yardstick_value=beside.yardstick,
        ratio=beside.ratio,
    )
