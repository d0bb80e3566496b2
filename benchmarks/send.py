"""What does the pair cost a sender while the primary is healthy, and how fast is it while messages are diverted?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

import httpx
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from benchmarks import Compared, Figure, compared
from benchmarks._send_services import Services, http_app, services
from shared.domain.availability import Event
from shared.domain.pair import EntityPath
from shared.paired_sender import PairedSender

# Many short rounds: what else the machine does then hits both sides alike, and the median of the ratios is steady.
SEQUENTIAL_ROUNDS = 121
SINGLES = 25
ROUNDS = 21
CALLERS = 64
PER_CALLER = 8
HTTP_ROUNDS = 5
HTTP_REQUESTS = 200
HTTP_CALLERS = 32
BODY = b"x" * 1000
LINK_OPENS_S = 1.5

SEQUENTIAL_GOAL, CONCURRENT_GOAL, DIVERTED_GOAL = 0.95, 4.0, 0.9
OVERHEAD_GOAL_US = 100.0
DIVERTED = EntityPath("diverted")
Send = Callable[[], Awaitable[object]]


def measure() -> Iterable[Figure]:
    with services() as running:
        yield from asyncio.run(_sdk_figures(running))
        yield from _http_figures(running)


async def _sdk_figures(running: Services) -> list[Figure]:
    client = ServiceBusClient.from_connection_string(running.settings["ServiceBusPrimary"])
    bus = PairedSender(running.settings, authority_file=running.authority_file, create_queues=False)
    async with client, client.get_queue_sender("bench") as sender, bus:
        await bus.pair()
        await bus.runtime.state.mark(DIVERTED, Event.MARKED_UNAVAILABLE, "benchmark")
        lock = asyncio.Lock()

        async def raw() -> None:
            await sender.send_messages(ServiceBusMessage(BODY))

        async def raw_one_at_a_time() -> None:
            async with lock:  # the SDK's sender breaks when two use it
                await sender.send_messages(ServiceBusMessage(BODY))

        async def paired() -> None:
            await bus.send("bench", ServiceBusMessage(BODY))

        async def diverted() -> None:
            await bus.send(DIVERTED, ServiceBusMessage(BODY))

        for warm in (raw, paired, diverted):
            await warm()
        for crowd in (paired, diverted):
            await _concurrent(crowd)  # a crowded lane opens a second link, once
            await asyncio.sleep(LINK_OPENS_S)
            await _concurrent(crowd)
        sequential = await _compare(lambda: _sequential(paired), lambda: _sequential(raw), SEQUENTIAL_ROUNDS)
        concurrent = await _compare(lambda: _concurrent(paired), lambda: _concurrent(raw_one_at_a_time), ROUNDS)
        detour = await _compare(lambda: _sequential(diverted), lambda: _sequential(paired), SEQUENTIAL_ROUNDS)
        crowd_detour = await _compare(lambda: _concurrent(diverted), lambda: _concurrent(paired), ROUNDS)
    overhead_us = (1 / sequential.ours - 1 / sequential.yardstick) * 1e6
    raw_name = "raw SDK, same broker"
    return [
        _ratio("sends one after the other", sequential, raw_name, SEQUENTIAL_GOAL),
        Figure(
            name="overhead of a healthy send",
            value=overhead_us,
            unit="microseconds",
            yardstick="raw SDK send, microseconds",
            yardstick_value=1e6 / sequential.yardstick,
            ratio=overhead_us * sequential.yardstick / 1e6,
            goal=f"< {OVERHEAD_GOAL_US:g}",
            met=overhead_us < OVERHEAD_GOAL_US,
        ),
        _ratio(f"{CALLERS} callers of single messages", concurrent, "raw SDK, one call at a time", CONCURRENT_GOAL),
        _ratio("diverted sends, one after the other", detour, "healthy sends", DIVERTED_GOAL),
        _ratio(f"diverted sends, {CALLERS} callers", crowd_detour, f"healthy sends, {CALLERS} callers", None),
    ]


def _ratio(name: str, result: Compared, yardstick: str, goal: float | None) -> Figure:
    return Figure(
        name=name,
        value=result.ours,
        unit="messages/s",
        yardstick=yardstick,
        yardstick_value=result.yardstick,
        ratio=result.ratio,
        goal="" if goal is None else f">= {goal:g} times",
        met=None if goal is None else result.ratio >= goal,
    )


async def _compare(
    ours: Callable[[], Awaitable[float]], yardstick: Callable[[], Awaitable[float]], rounds: int
) -> Compared:
    """In turns, and every other time the other one first: what slows the machine down slows both."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            theirs = await yardstick()
            pairs.append((await ours(), theirs))
        else:
            mine = await ours()
            pairs.append((mine, await yardstick()))
    return compared(pairs)


async def _sequential(send: Send) -> float:
    started = time.perf_counter()
    for _ in range(SINGLES):
        await send()
    return SINGLES / (time.perf_counter() - started)


async def _concurrent(send: Send) -> float:
    async def caller() -> None:
        for _ in range(PER_CALLER):
            await send()

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return CALLERS * PER_CALLER / (time.perf_counter() - started)


def _http_figures(running: Services) -> list[Figure]:
    """The HTTP endpoint beside one that does nothing but call the raw SDK, both on the same host."""
    with (
        http_app(running.settings, bare=False) as ours,
        http_app(running.settings, bare=True) as bare,
    ):
        rates = asyncio.run(_http_rates(ours, bare))
    name = "bare endpoint over the raw SDK"
    return [
        _ratio(f"HTTP, {callers} caller{'s' if callers > 1 else ''}", result, name, None)
        for callers, result in rates.items()
    ]


async def _http_rates(ours: tuple[str, str], bare: tuple[str, str]) -> dict[int, Compared]:
    async def rate(target: tuple[str, str], callers: int) -> float:
        address, key = target
        headers = {"x-functions-key": key}
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=30) as client:

            async def caller() -> None:
                for _ in range(HTTP_REQUESTS // callers):
                    answer = await client.post("/api/bus/bench/messages", content=BODY)
                    assert answer.status_code == 201, answer.text

            await client.post("/api/bus/bench/messages", content=BODY)
            started = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(callers)))
            return HTTP_REQUESTS // callers * callers / (time.perf_counter() - started)

    return {
        callers: compared([(await rate(ours, callers), await rate(bare, callers)) for _ in range(HTTP_ROUNDS)])
        for callers in (1, HTTP_CALLERS)
    }
