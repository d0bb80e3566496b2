"""Is the embedded broker fast, small and quick to start, and does a long queue leave it so?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks import Figure, compare
from benchmarks._clients import (
    bare_sink,
    batched_per_second,
    broker,
    received_per_second,
    receiver_from,
    sender_to,
    singles_per_second,
)

ROUNDS = 7
SINGLES = 700
BATCHES, BATCH = 8, 500
ONE_KB = 1000
BATCHED_BODY_BYTES = 100

SINGLES_GOAL, BATCHED_GOAL, SINK_SHARE_GOAL = 1_000, 8_000, 0.7
MEMORY_GOAL_BYTES = 4_096
START_GOAL_S = 1.0
WAITING, WAITING_SLOWDOWN_GOAL = 100_000, 1.5
MEMORY_MESSAGES = 20_000
FILL_BATCH = 200
STARTS = 5
TURN = 300


def measure() -> Iterable[Figure]:
    yield from sends()
    yield from durable_sends()
    yield from memory()
    yield from start_up()
    yield from long_queue()


def sends() -> Iterator[Figure]:
    """One SDK client, one message after the other and in batches, beside a sink that stores nothing."""
    with ExitStack() as stack:
        ours = stack.enter_context(broker("bench"))
        name, sink = stack.enter_context(bare_sink())
        to_broker = stack.enter_context(sender_to(ours.address.connection_string, "bench"))
        to_sink = stack.enter_context(sender_to(sink, "bench"))
        single = compare(
            lambda: singles_per_second(to_broker, count=SINGLES, body_bytes=ONE_KB),
            lambda: singles_per_second(to_sink, count=SINGLES, body_bytes=ONE_KB),
            rounds=ROUNDS,
        )
        batched = compare(
            lambda: batched_per_second(to_broker, batches=BATCHES, batch=BATCH, body_bytes=BATCHED_BODY_BYTES),
            lambda: batched_per_second(to_sink, batches=BATCHES, batch=BATCH, body_bytes=BATCHED_BODY_BYTES),
            rounds=ROUNDS,
        )
    for title, result, goal in (
        ("single sends of 1 KB, one client", single, SINGLES_GOAL),
        (f"sends in batches of {BATCH} (100 B), one client", batched, BATCHED_GOAL),
    ):
        yield Figure(
            name=title,
            value=result.ours,
            unit="messages/s",
            yardstick=name,
            yardstick_value=result.yardstick,
            ratio=result.ratio,
            goal=f">= {goal:,} and >= {SINK_SHARE_GOAL} of the sink",
            met=result.ours >= goal and result.ratio >= SINK_SHARE_GOAL,
        )


def durable_sends() -> Iterator[Figure]:
    """What it costs that an acknowledged message survives a kill: the same sends with and without a data folder."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        durable = stack.enter_context(broker("bench", options=("--data", folder)))
        volatile = stack.enter_context(broker("bench"))
        to_durable = stack.enter_context(sender_to(durable.address.connection_string, "bench"))
        to_volatile = stack.enter_context(sender_to(volatile.address.connection_string, "bench"))
        single = compare(
            lambda: singles_per_second(to_durable, count=SINGLES, body_bytes=ONE_KB),
            lambda: singles_per_second(to_volatile, count=SINGLES, body_bytes=ONE_KB),
            rounds=ROUNDS,
        )
        batched = compare(
            lambda: batched_per_second(to_durable, batches=BATCHES, batch=BATCH, body_bytes=BATCHED_BODY_BYTES),
            lambda: batched_per_second(to_volatile, batches=BATCHES, batch=BATCH, body_bytes=BATCHED_BODY_BYTES),
            rounds=ROUNDS,
        )
    for title, result in (("single sends of 1 KB", single), (f"sends in batches of {BATCH} (100 B)", batched)):
        yield Figure(
            name=f"durable {title}, one client",
            value=result.ours,
            unit="messages/s",
            yardstick="the broker without --data",
            yardstick_value=result.yardstick,
            ratio=result.ratio,
        )


def memory() -> Iterator[Figure]:
    """What a waiting message of 1 KB costs the broker's process."""
    with broker("bench") as ours, sender_to(ours.address.connection_string, "bench") as sender:
        batched_per_second(sender, batches=5, batch=FILL_BATCH, body_bytes=ONE_KB)
        before = resident_bytes(ours.pid)
        batches = MEMORY_MESSAGES // FILL_BATCH
        batched_per_second(sender, batches=batches, batch=FILL_BATCH, body_bytes=ONE_KB)
        each = (resident_bytes(ours.pid) - before) / MEMORY_MESSAGES
    yield Figure(
        name="memory of a waiting 1 KB message",
        value=each,
        unit="bytes",
        yardstick="its body",
        yardstick_value=ONE_KB,
        ratio=each / ONE_KB,
        goal=f"< {MEMORY_GOAL_BYTES:,}",
        met=each < MEMORY_GOAL_BYTES,
    )


def resident_bytes(pid: int) -> int:
    """From the kernel itself: `ps` is not on every machine."""
    _, resident_pages, *_ = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return int(resident_pages) * os.sysconf("SC_PAGE_SIZE")


def start_up() -> Iterator[Figure]:
    """From the command to a printed connection string, interpreter included."""

    def broker_start() -> float:
        started = time.perf_counter()
        with broker():
            return time.perf_counter() - started

    def interpreter_start() -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import asyncio, ssl"], check=True)
        return time.perf_counter() - started

    result = compare(broker_start, interpreter_start, rounds=STARTS)
    yield Figure(
        name="start of the broker process",
        value=result.ours,
        unit="s",
        yardstick="Python importing asyncio and ssl",
        yardstick_value=result.yardstick,
        ratio=result.ratio,
        goal=f"< {START_GOAL_S:g} s",
        met=result.ours < START_GOAL_S,
    )


def long_queue() -> Iterator[Figure]:
    """Whether 100,000 waiting messages slow a send or a receive; the yardstick is an empty queue beside it."""
    with ExitStack() as stack:
        ours = stack.enter_context(broker("short", "long"))
        address = ours.address.connection_string
        to_short = stack.enter_context(sender_to(address, "short"))
        to_long = stack.enter_context(sender_to(address, "long"))
        batched_per_second(to_long, batches=WAITING // BATCH, batch=BATCH, body_bytes=BATCHED_BODY_BYTES)
        sent = compare(
            lambda: singles_per_second(to_long, count=TURN, body_bytes=ONE_KB),
            lambda: singles_per_second(to_short, count=TURN, body_bytes=ONE_KB),
            rounds=ROUNDS,
        )
        from_short = stack.enter_context(receiver_from(address, "short"))
        from_long = stack.enter_context(receiver_from(address, "long"))
        received = compare(
            lambda: received_per_second(from_long, count=TURN),
            lambda: received_per_second(from_short, count=TURN),
            rounds=ROUNDS,
        )
    for title, result in (("send", sent), ("receive and complete", received)):
        slowdown = 1 / result.ratio
        yield Figure(
            name=f"{title} with {WAITING:,} messages waiting",
            value=result.ours,
            unit="messages/s",
            yardstick="the same on a short queue",
            yardstick_value=result.yardstick,
            ratio=result.ratio,
            goal=f"not slower than {WAITING_SLOWDOWN_GOAL:g} times",
            met=slowdown <= WAITING_SLOWDOWN_GOAL,
        )
