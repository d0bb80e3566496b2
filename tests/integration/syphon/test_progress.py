"""What `GET /api/pair` says of a drain while it is going on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.send_hosts import SendHost, send_hosts
from tests.support.send_services import PairOnBroker
from tests.support.syphon_services import backlog_payload, fill

RATE = 40
MESSAGES = 1_200
STEADY_AFTER = 200
SETTINGS = {"ENABLE_SYPHON": "true", "BACKLOG_QUEUE_COUNT": "1", "SYPHON_RATE_LIMIT": str(RATE)}


async def test_the_rate_of_a_drain_and_the_time_left_are_shown(
    pair: PairOnBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(pair.broker.authority_file))
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    fill(pair, queue, [backlog_payload("orders", f"m-{n}") for n in range(MESSAGES)])
    async with send_hosts(pair, tmp_path, **SETTINGS) as (host,):
        shown = await _once_it_is_steady(host)
        (of_queue,) = shown["queues"]
        assert (queue, of_queue["seconds_left"]) == (of_queue["path"], shown["drain"]["seconds_left"])
        assert 0 < of_queue["forwarded"] < MESSAGES
        assert 0 < of_queue["active"] == shown["waiting"] < MESSAGES
        # Its own estimate is of late; within a factor of two it is of use.
        assert 0.5 < of_queue["seconds_left"] / (of_queue["active"] / RATE) < 2
        assert 0.5 < shown["drain"]["rate"] / RATE < 2


async def _once_it_is_steady(host: SendHost) -> dict[str, Any]:
    end = time.monotonic() + 30
    while True:
        shown: dict[str, Any] = (await host.status())["backlog"]
        is_steady = (shown["queues"][0]["forwarded"] or 0) > STEADY_AFTER
        if is_steady and shown["drain"]["seconds_left"] is not None:
            return shown
        assert time.monotonic() < end, f"nobody tells how long it will take: {shown}"
        await asyncio.sleep(0.2)
