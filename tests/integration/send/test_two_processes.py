"""Two instances of the app in processes of their own, with one Table Storage between them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.support.send_hosts import SendHost, send_hosts
from tests.support.send_services import PairOnBroker

STATE_REFRESH_S = 1.0
BOUND_S = STATE_REFRESH_S + 0.5
SETTINGS = {"STATE_REFRESH": "PT1S", "FAILOVER_INTERVAL": "PT0S"}


async def seconds_until(host: SendHost, entity: str, expected: str, started: float) -> float:
    while True:
        if await host.route(entity) == expected:
            return time.monotonic() - started
        assert time.monotonic() - started < 10, f"{entity} is not sent to the {expected}"
        await asyncio.sleep(0.02)


async def test_failover_and_return_of_one_are_those_of_the_other(
    pair: PairOnBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(pair.broker.authority_file))
    pair.create_entities("orders", "others")
    async with send_hosts(pair, tmp_path, count=2, **SETTINGS) as (one, other):
        assert ["primary", "primary"] == [await one.route("orders"), await other.route("orders")]
        # A fault that strikes once: the second instance could send to the primary all along, and must not.
        await pair.broker.inject(kind="full", namespace="primary", entity="orders", count=1)
        assert "backlog" == await one.route("orders")
        failed_over = time.monotonic()
        took = await seconds_until(other, "orders", "backlog", failed_over)
        assert took < BOUND_S
        assert ["primary", "primary"] == [await one.route("others"), await other.route("others")]

        await other.post("entities/orders/healthy")
        healthy = time.monotonic()
        back = await asyncio.gather(*(seconds_until(host, "orders", "primary", healthy) for host in (one, other)))
        assert max(back) < BOUND_S
        print(f"\n  second diverts after {took:.2f} s; back after {back[0]:.2f} s and {back[1]:.2f} s")  # noqa: T201


async def test_a_failing_backlog_queue_leaves_the_rotation_of_both(
    pair: PairOnBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(pair.broker.authority_file))
    pair.create_entities("orders")
    async with send_hosts(pair, tmp_path, count=2, **SETTINGS) as (one, other):
        await one.post("entities/orders/unavailable")
        assert "backlog" == await one.route("orders")
        (used,) = [queue["path"] for queue in (await one.status())["backlog"]["queues"] if queue["active"]]
        fault = await pair.broker.inject(kind="disable", namespace="secondary", entity=used)
        assert "backlog" == await one.route("orders")
        left = time.monotonic()
        while True:
            queues = (await other.status())["backlog"]["queues"]
            if used in [queue["path"] for queue in queues if not queue["in_rotation"]]:
                break
            assert time.monotonic() - left < BOUND_S, "the other instance has not heard of it"
            await asyncio.sleep(0.02)

        await pair.broker.inject(kind="full", namespace="secondary")
        for host in (one, other):
            answer = await host.send("orders")
            assert (503, "5") == (answer.status_code, answer.headers["retry-after"])
        waiting = len(pair.in_backlog())
        assert 2 == waiting

        await pair.broker.heal()
        del fault
        for host in (one, other):
            started = time.monotonic()
            while (await host.send("orders")).status_code != 201:
                assert time.monotonic() - started < 20, "no queue came back"
                await asyncio.sleep(0.1)
        assert 4 == len(pair.in_backlog())
