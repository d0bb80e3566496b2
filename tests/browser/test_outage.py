"""The dashboard of the running app, through a whole outage: real app, real broker, real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.support.browser import Watch
from tests.support.dashboard import app, open_dashboard
from tests.support.send_hosts import SendHost
from tests.support.send_services import PairOnBroker, until

DIVERTED = re.compile("(19|20) messages for orders accepted by the backlog")


async def send_many(host: SendHost, entity: str, count: int) -> None:
    """In one request: hundreds at once would be a test of the machine."""
    body = json.dumps([{"Body": f"{number}"} for number in range(count)]).encode()
    answer = await host.send(entity, body, **{"Content-Type": "application/vnd.microsoft.servicebus.json"})
    assert 201 == answer.status_code, answer.text


async def figure(page: Page, label: str) -> int:
    text = await page.locator(".figure", has_text=label).locator("dd").inner_text()
    return int(text.replace(",", ""))


@pytest.mark.timeout(300)
async def test_an_outage_is_shown_from_its_begin_to_the_last_message_delivered(
    page: Page, watch: Watch, pair: PairOnBroker, tmp_path: Path
) -> None:
    pair.create_entities("orders")
    headline = page.locator("#headline")
    async with app(pair, tmp_path, SYPHON_RATE_LIMIT="40") as host:
        await host.send("orders")
        await open_dashboard(page, host)
        await expect(headline).to_have_attribute("data-tone", "ok")
        await expect(headline).to_contain_text("All is well: 1 entity on the primary, nothing waiting.")
        await expect(page.locator("#entities")).to_contain_text("Available")

        await pair.broker.inject(kind="refuse", namespace="primary")
        await send_many(host, "orders", 1)
        await send_many(host, "orders", 19)
        await expect(headline).to_have_attribute("data-tone", "bad")
        await expect(headline).to_contain_text(re.compile(r"Primary unavailable since \d\d:\d\d: 20 messages waiting"))
        await expect(page.locator("#announcer")).to_contain_text("Primary unavailable")
        await expect(page.locator("#entities")).to_contain_text("Unavailable")
        await expect(page.locator("#events")).to_contain_text("orders is unavailable")
        await expect(page.locator("#events")).to_contain_text(DIVERTED)
        await send_many(host, "orders", 380)
        await expect(headline).to_contain_text("400 messages waiting")
        assert 400 == await figure(page, "Waiting")

        await pair.broker.heal()
        await expect(headline).to_contain_text(re.compile(r"Draining: \d+ messages? waiting, about \d+ s left"))
        await expect(headline).to_have_attribute("data-tone", "info")
        await expect(headline).to_contain_text("All is well: 1 entity on the primary, nothing waiting.")
        await until(lambda: len(pair.in_primary("orders")) == 401, seconds=20, what="everything delivered")
        assert 0 == await figure(page, "Waiting")
        assert {"primary": 1, "backlog": 400} == (await host.client.get("/api/events")).json()["accepted"]
        refused = await host.client.get("/api/events", params={"after": "nonsense"})
        assert (400, "urn:paired-namespaces:problem:not-valid") == (refused.status_code, refused.json()["type"])
        watch.expect("status of 503|ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE")  # the app stops
    await expect(page.locator("#contact-text")).to_have_text("Contact lost")
    await expect(page.locator("#lost")).to_contain_text("Trying again. What is shown is from")
