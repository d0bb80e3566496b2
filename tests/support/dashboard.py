"""The dashboard of the running app in a browser, and a recorded app for what a real one takes too long to show."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.async_api import Page, Route, expect

from functions.dashboard import build_page
from tests.support.browser import WAIT_SECONDS_MAX
from tests.support.send_hosts import SendHost, send_hosts
from tests.support.send_services import PairOnBroker

SETTINGS = {
    "ENABLE_SYPHON": "true",
    "FAILOVER_INTERVAL": "PT0S",
    "PING_PRIMARY_INTERVAL": "PT1S",
    "PRIMARY_ATTEMPT_TIMEOUT": "PT5S",
    "STATE_REFRESH": "PT0.5S",
}
#: Answered by the test itself; nothing is looked up or connected.
RECORDED_ORIGIN = "http://recorded.invalid"

expect.set_options(timeout=WAIT_SECONDS_MAX * 1000)


@asynccontextmanager
async def app(pair: PairOnBroker, folder: Path, **settings: str) -> AsyncIterator[SendHost]:
    trust = {"SSL_CERT_FILE": str(pair.broker.authority_file)}
    async with send_hosts(pair, folder, count=1, **{**SETTINGS, **trust, **settings}) as (host,):
        yield host


def host_keys(host: SendHost) -> tuple[str, str]:
    """A function key, which only looks, and the admin key."""
    keys = json.loads((host.log_file.parent / "keys.json").read_text(encoding="utf-8"))
    return next(iter(keys["host"].values())), keys["master"]


async def open_dashboard(page: Page, host: SendHost, *, with_admin_key: bool = True) -> None:
    function_key, admin_key = host_keys(host)
    await page.goto(f"{host.process.address}/api/dashboard")
    await give_keys(page, function_key, admin_key if with_admin_key else "")
    await expect(page.locator("#contact-text")).to_contain_text("Live")


async def give_keys(page: Page, function_key: str, admin_key: str = "") -> None:
    await page.fill("#function-key", function_key)
    await page.fill("#admin-key", admin_key)
    await page.click("#use-keys")


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def entity(path: str, availability: str = "available", **more: Any) -> dict[str, Any]:
    since = None if availability == "available" else ago(180)
    reason = None if availability == "available" else "time-out: no answer in time"
    return {"path": path, "availability": availability, "since": since, "reason": reason, **more}


def queue(index: int, **changes: Any) -> dict[str, Any]:
    quiet = {"in_rotation": True, "out_since": None, "out_reason": None, "active": 0, "dead_lettered": 0}
    unmoved = {"scheduled": 0, "oldest": None, "forwarded": None, "rate": None, "seconds_left": None, "problem": None}
    return {"path": f"contoso/x-servicebus-transfer/{index}", **quiet, **unmoved, **changes}


def pair_answer(entities: list[dict[str, Any]], queues: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """As GET /api/pair answers."""
    rate = sum(one["rate"] or 0 for one in queues)
    left = [one["seconds_left"] for one in queues if one["seconds_left"] is not None]
    durations = {"failover_interval": "PT1M", "ping_primary_interval": "PT1M", "partner_grace": "PT5S"}
    factory = {"state": "open", "since": None, "reason": "", "by": ""}
    return {
        "pair": {"primary": "contoso", "secondary": "contoso-west"},
        "at": ago(0),
        "options": {"backlog_queue_count": len(queues), "enable_syphon": True, **durations},
        "factories": {"primary": dict(factory), "secondary": dict(factory)},
        "entities": entities,
        "backlog": {
            "waiting": sum(one["active"] for one in queues),
            "drain": {"rate": rate, "seconds_left": max(left) if left else None},
            "queues": queues,
        },
        "paired_at": ago(9000),
        "warnings": [],
        "coordination": None,
        **changes,
    }


def many() -> dict[str, Any]:
    """200 entities and 50 queues, some of them in every kind of trouble."""
    key = {"key": "customer-7", "availability": "unavailable", "since": ago(60), "reason": "partition unavailable"}
    entities = [
        *(entity(f"tenant-{number}/orders", "unavailable") for number in range(3)),
        entity("invoices", "suspect"),
        entity("payments", watched_keys=1, keys=[key]),
        *(entity(f"tenant-{number}/orders") for number in range(3, 198)),
    ]
    queues = [
        queue(0, active=1000, oldest=ago(170), rate=5.0, seconds_left=200.0),
        queue(1, active=204, oldest=ago(100), dead_lettered=2),
        queue(2, in_rotation=False, out_since=ago(50), out_reason="time-out: no answer in time"),
        *(queue(index) for index in range(3, 50)),
    ]
    return pair_answer(entities, queues)


class RecordedApp:
    """Answers a page's requests in the app's place. What it is asked to do is noted."""

    def __init__(self, answer: dict[str, Any], events: list[dict[str, Any]] | None = None) -> None:
        self.answer = answer
        self.events = events or []
        self.accepted = {"primary": 0, "backlog": 0}
        #: What GET /api/pair answers instead.
        self.status: int | None = None
        #: Takes requests and never answers.
        self.is_silent = False
        self.asked: list[tuple[str, str]] = []
        #: What is asked of it is refused, once the test lets it answer.
        self.may_refuse: asyncio.Event | None = None

    async def open(self, page: Page) -> None:
        await page.route("**/*", self._serve)
        await page.goto(f"{RECORDED_ORIGIN}/api/dashboard")
        await give_keys(page, "any")

    async def _serve(self, route: Route) -> None:
        request, path = route.request, route.request.url.removeprefix(RECORDED_ORIGIN)
        if path == "/api/dashboard":
            page = build_page()
            await route.fulfill(body=page.html, headers=page.headers, content_type="text/html; charset=utf-8")
        elif self.is_silent:
            return
        elif self.status is not None:
            await route.fulfill(status=self.status)
        elif request.method == "POST":
            self.asked.append((path, request.post_data or ""))
            if self.may_refuse is None:
                await route.fulfill(json={})
            else:
                await self.may_refuse.wait()
                await route.fulfill(status=503, json={"detail": "Shared state is away.", "action": "Try again."})
        elif path.startswith("/api/events"):
            number = max((event["number"] for event in self.events), default=0)
            more = {"started_at": ago(9000), "counts": {}, "after": f"1-a:{number}"}
            await route.fulfill(json={"instance": "1-a", "accepted": self.accepted, "events": self.events, **more})
        else:
            await route.fulfill(json=self.answer)
