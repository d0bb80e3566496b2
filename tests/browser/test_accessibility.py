"""Nobody is shut out: labels, roles, contrast and small screens, judged by axe in both themes."""

from __future__ import annotations

from typing import Literal

import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser, Page, expect

from tests.support.browser import DESKTOP, PHONE, watched_page
from tests.support.dashboard import RecordedApp, ago, many

EVENT = {"id": 1, "number": 1, "event": "availability.changed", "times": 1, "first_at": ago(9), "at": ago(9)}
UNAVAILABLE = {**EVENT, "path": "orders", "before": "suspect", "after": "unavailable", "reason": "time-out"}


async def broken_rules(page: Page) -> list[tuple[str, list[str]]]:
    found = (await Axe().run(page)).response["violations"]
    return [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found]


@pytest.mark.parametrize(("theme", "size"), [("light", PHONE), ("dark", DESKTOP)])
async def test_the_page_and_its_dialogs_break_no_rule(
    browser: Browser, theme: Literal["light", "dark"], size: tuple[int, int]
) -> None:
    async with watched_page(browser, theme=theme, size=size) as (page, _):
        answer = many()
        answer["warnings"] = ["Something is odd."]
        answer["factories"]["secondary"] |= {"state": "closed", "since": ago(9), "reason": "moved", "by": "ann"}
        await RecordedApp(answer, [UNAVAILABLE]).open(page)
        await expect(page.locator("#headline")).to_contain_text("Secondary closed since")
        assert [] == await broken_rules(page)
        assert size[0] == await page.evaluate("document.documentElement.scrollWidth"), "it scrolls sideways"

        await page.get_by_role("button", name="Fault… the primary").click()
        await page.fill("#ask-reason", " ")
        await page.click("#ask-confirm")
        await expect(page.locator("#ask-problem")).to_be_visible()
        assert [] == await broken_rules(page)
        await page.click("#ask-cancel")
        await page.click("#open-keys")
        assert [] == await broken_rules(page)


async def test_axe_finds_what_is_wrong(page: Page) -> None:
    await RecordedApp(many()).open(page)
    await page.evaluate("document.getElementById('entities-filter').removeAttribute('aria-label')")
    await page.evaluate("document.getElementById('entities-filter').removeAttribute('placeholder')")
    await page.evaluate("document.getElementById('headline-text').style.color = '#f2c9c9'")
    await expect(page.locator("#headline")).to_contain_text("unavailable")
    assert {"label", "color-contrast"} <= {rule for rule, _ in await broken_rules(page)}
