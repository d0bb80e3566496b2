"""What the local Functions host costs: HTTP against bare uvicorn, dispatch against a bare SDK loop, and its start."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from benchmarks import Figure, compare
from benchmarks._clients import broker

ROOT = Path(__file__).resolve().parents[1]
APP = ROOT / "benchmarks" / "_host_app"
ROUNDS = 5
CONNECTIONS = 16
REQUESTS = 4000
MESSAGES = 2000
RECEIVE_AT_ONCE = 100
DEADLINE_S = 60.0
STOP_S = 30.0
HTTP_GOAL = 0.5
DISPATCH_GOAL = 0.6
START_GOAL_S = 15.0


def measure() -> Iterable[Figure]:
    yield from http()
    yield dispatch()
    yield from start()


# HTTP


def http() -> Iterator[Figure]:
    with process("benchmarks._bare_uvicorn") as bare, host() as hosted:
        for name in ("async_noop", "sync_noop"):
            ours = functools.partial(rate, hosted, f"/api/{name}")
            found = compare(ours, functools.partial(rate, bare, "/"), rounds=ROUNDS)
            yield Figure(
                name=f"host: HTTP function ({name.replace('_', ' ')})", value=found.ours, unit="requests/s",
                yardstick="bare uvicorn", yardstick_value=found.yardstick, ratio=found.ratio,
                goal=f">= {HTTP_GOAL} of it", met=found.ratio >= HTTP_GOAL,
            )  # fmt: skip


def rate(address: str, path: str) -> float:
    return asyncio.run(requests_per_second(address, path))


async def requests_per_second(address: str, path: str) -> float:
    """Keep-alive connections, one request at a time on each."""
    port = int(address.rpartition(":")[2])
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n".encode()
    each = REQUESTS // CONNECTIONS
    await asyncio.gather(*(talk(port, request, 50) for _ in range(CONNECTIONS)))
    started = time.perf_counter()
    await asyncio.gather(*(talk(port, request, each) for _ in range(CONNECTIONS)))
    return each * CONNECTIONS / (time.perf_counter() - started)


async def talk(port: int, request: bytes, count: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(count):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode("latin-1"))
        found = re.search(rb"content-length: (\d+)", head)
        await reader.readexactly(int(found.group(1)) if found else 0)
    writer.close()
    await writer.wait_closed()


# Service Bus


def dispatch() -> Figure:
    found = compare(triggered_per_second, looped_per_second, rounds=3)
    return Figure(
        name="host: Service Bus trigger", value=found.ours, unit="messages/s",
        yardstick="SDK receive-and-complete loop", yardstick_value=found.yardstick, ratio=found.ratio,
        goal=f">= {DISPATCH_GOAL} of it", met=found.ratio >= DISPATCH_GOAL,
    )  # fmt: skip


def triggered_per_second() -> float:
    with broker("bench") as running:
        asyncio.run(fill(running.address.connection_string))
        with host(f"BenchBus={running.address.connection_string}") as address:
            return wait_for_all(address)


def wait_for_all(address: str) -> float:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        with urllib.request.urlopen(f"{address}/api/progress", timeout=5) as answer:
            progress = json.load(answer)
        if progress["count"] >= MESSAGES:
            return float((progress["count"] - 1) / progress["seconds"])
        time.sleep(0.25)
    raise RuntimeError(f"only {progress['count']} of {MESSAGES} messages in {DEADLINE_S} s")


def looped_per_second() -> float:
    with broker("bench") as running:
        asyncio.run(fill(running.address.connection_string))
        return asyncio.run(loop(running.address.connection_string))


async def fill(connection_string: str) -> None:
    async with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_queue_sender("bench") as sender,
    ):
        for _ in range(MESSAGES // RECEIVE_AT_ONCE):
            await sender.send_messages([ServiceBusMessage(b"x" * 100) for _ in range(RECEIVE_AT_ONCE)])


async def loop(connection_string: str) -> float:
    """Receive a batch, complete each message, from the first message to the last."""
    async with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_queue_receiver("bench") as receiver,
    ):
        count, started = 0, 0.0
        while count < MESSAGES:
            for message in await receiver.receive_messages(RECEIVE_AT_ONCE, max_wait_time=5):
                started = started or time.perf_counter()
                await receiver.complete_message(message)
                count += 1
        return (count - 1) / (time.perf_counter() - started)


# Start


def start() -> Iterator[Figure]:
    """`python -m local` from nothing to its ready message, with a fresh data folder."""
    with tempfile.TemporaryDirectory() as data:
        ports = [f"--{name}-port=0" for name in ("http", "primary", "primary-admin", "secondary", "secondary-admin",
                                                 "blob", "queue", "table")]  # fmt: skip
        running = subprocess.Popen(
            [sys.executable, "-m", "local", "--data", data, *ports], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        try:
            seconds, parts = read_ready(running)
        finally:
            running.terminate()
            running.wait(STOP_S)
            if running.stdout is not None:
                running.stdout.close()
    yield Figure(
        name="host: start of everything", value=seconds, unit="s", goal=f"< {START_GOAL_S:.0f} s",
        met=seconds < START_GOAL_S,
    )  # fmt: skip
    for part, part_s in parts.items():
        yield Figure(
            name=f"host: start of {part}", value=part_s, unit="s", yardstick="start of everything",
            yardstick_value=seconds, ratio=part_s / seconds,
        )  # fmt: skip


def read_ready(running: subprocess.Popen[str]) -> tuple[float, dict[str, float]]:
    """Seconds until everything was ready, and until each part was."""
    assert running.stdout is not None
    for line in running.stdout:
        if found := re.match(r"Ready after ([\d.]+) s \((.*)\)", line):
            parts = re.findall(r"(\w+) ([\d.]+) s", found.group(2))
            return float(found.group(1)), {name: float(part_s) for name, part_s in parts}
    raise RuntimeError("`python -m local` ended before it was ready")


# Processes


@contextmanager
def host(*settings: str) -> Iterator[str]:
    """The host with the benchmark's app; without a connection its trigger is refused and the rest goes on."""
    with tempfile.TemporaryDirectory() as keys:
        arguments = ["--app", str(APP), "--port", "0", "--keys", f"{keys}/keys.json"]
        for pair in settings:
            arguments += ["--set", pair]
        with process("local.host", *arguments) as address:
            yield address


@contextmanager
def process(module: str, *arguments: str) -> Iterator[str]:
    running = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        if not line.startswith("READY "):
            raise RuntimeError(f"{module} did not start")
        yield line.split()[1]
    finally:
        running.terminate()
        running.wait(STOP_S)
        if running.stdout is not None:
            running.stdout.close()
