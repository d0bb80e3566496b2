"""The pipeline's report in a real browser: every chart is seen, nothing is fetched, nobody is shut out."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser

from pipeline.report import render
from tests.support.browser import DESKTOP, PHONE, watched_page
from tests.support.report_sample import sample

#: Screenshots of the last run, for people to look at.
SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
CHARTS = [
    "States of each entity by time",
    "orders: sends in each 1 min",
    "orders: how long a send took",
    "invoices: sends in each 1 min",
    "invoices: how long a send took",
    "telemetry/devices: sends in each 1 min",
    "telemetry/devices: how long a send took",
    "Messages waiting, by entity",
    "Money by stage",
    "Messages by partition, the darker the more",
]

SEEN = """
Array.from(document.querySelectorAll("svg[role=img]"))
  .filter(chart => chart.checkVisibility())
  .map(chart => ({
    label: chart.getAttribute("aria-label"),
    width: chart.getBoundingClientRect().width,
    height: chart.getBoundingClientRect().height,
    fill: getComputedStyle(chart.querySelector("rect, circle")).fill,
  }))
"""


@pytest.mark.parametrize(("theme", "size"), [("light", DESKTOP), ("dark", PHONE)])
async def test_the_report_shows_every_chart_and_asks_nobody_for_anything(
    browser: Browser, tmp_path: Path, theme: Literal["light", "dark"], size: tuple[int, int]
) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(*sample(lost=4, killed=2)), encoding="utf-8")
    async with watched_page(browser, theme=theme, size=size) as (page, watch):
        await page.goto(file.as_uri())
        charts = await page.evaluate(SEEN)
        assert CHARTS == [chart["label"] for chart in charts]
        assert [] == [chart for chart in charts if not (0 < chart["width"] <= size[0] and chart["height"] > 40)]
        # The style is the page's own and was let in: marks have colours.
        assert [] == [chart for chart in charts if chart["fill"] == "rgb(0, 0, 0)"]
        assert size[0] == await page.evaluate("document.documentElement.scrollWidth"), "it scrolls sideways"
        assert [file.as_uri()] == [url for url in watch.requests if not url.startswith("data:")]
        assert [] == [rule["id"] for rule in (await Axe().run(page)).response["violations"]]
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=SCREENSHOTS / f"report-{theme}.png", full_page=True)
