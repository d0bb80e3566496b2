"""What does a partitioned queue cost beside a plain one, seen by a client and in the broker's own processor time?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from azure.servicebus import ServiceBusReceiver, ServiceBusSender
from azure.servicebus.management import ServiceBusAdministrationClient

from benchmarks import Compared, Figure, compare
from benchmarks._clients import (
    batched_per_second,
    broker,
    received_per_second,
    receiver_from,
    sender_to,
    singles_per_second,
)

ROUNDS = 7
SINGLES, BATCHES, BATCH, TURN = 700, 8, 500, 300
ONE_KB, BATCHED_BODY_BYTES = 1000, 100
SLOWDOWN_GOAL = 1.3
PROCESSOR_ROUNDS = 5


def measure() -> Iterable[Figure]:
    with ExitStack() as stack:
        ours = stack.enter_context(broker("plain"))
        address = ours.address.connection_string
        with ServiceBusAdministrationClient.from_connection_string(
            address, connection_verify=ours.address.authority
        ) as administration:
            administration.create_queue("partitioned", enable_partitioning=True)
        to_plain = stack.enter_context(sender_to(address, "plain"))
        to_partitioned = stack.enter_context(sender_to(address, "partitioned"))
        from_plain = stack.enter_context(receiver_from(address, "plain"))
        from_partitioned = stack.enter_context(receiver_from(address, "partitioned"))

        def single(sender: ServiceBusSender) -> float:
            return singles_per_second(sender, count=SINGLES, body_bytes=ONE_KB)

        def batched(sender: ServiceBusSender) -> float:
            return batched_per_second(sender, batches=BATCHES, batch=BATCH, body_bytes=BATCHED_BODY_BYTES)

        yield _figure("single sends", compare(lambda: single(to_partitioned), lambda: single(to_plain), rounds=ROUNDS))
        yield _figure("batches", compare(lambda: batched(to_partitioned), lambda: batched(to_plain), rounds=ROUNDS))
        yield _figure(
            "receive and complete",
            compare(
                lambda: received_per_second(from_partitioned, count=TURN),
                lambda: received_per_second(from_plain, count=TURN),
                rounds=ROUNDS,
            ),
        )

        def turn(sender: ServiceBusSender, receiver: ServiceBusReceiver) -> Callable[[], float]:
            def act() -> float:
                single(sender)
                received_per_second(receiver, count=SINGLES)
                return 0.0

            return lambda: processor_seconds(ours.pid, act) / SINGLES

        yield from _processor(turn(to_partitioned, from_partitioned), turn(to_plain, from_plain))


def _figure(title: str, result: Compared) -> Figure:
    slowdown = 1 / result.ratio
    return Figure(
        name=f"{title}, partitioned queue",
        value=result.ours,
        unit="messages/s",
        yardstick="the same on a plain queue",
        yardstick_value=result.yardstick,
        ratio=result.ratio,
        goal=f"not slower than {SLOWDOWN_GOAL:g} times",
        met=slowdown <= SLOWDOWN_GOAL,
    )


def _processor(ours: Callable[[], float], plain: Callable[[], float]) -> Iterator[Figure]:
    result = compare(ours, plain, rounds=PROCESSOR_ROUNDS)
    yield Figure(
        name="processor time of the broker: send, receive, complete, partitioned queue",
        value=result.ours * 1e6,
        unit="us/message",
        yardstick="the same on a plain queue",
        yardstick_value=result.yardstick * 1e6,
        ratio=result.ratio,
        goal=f"<= {SLOWDOWN_GOAL:g} times",
        met=result.ratio <= SLOWDOWN_GOAL,
    )


def processor_seconds(pid: int, work: Callable[[], object]) -> float:
    """What a process spends while the work is done."""
    before = _spent(pid)
    work()
    return _spent(pid) - before


def _spent(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
