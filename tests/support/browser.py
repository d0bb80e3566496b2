"""Pages in a real browser: the machine's own Chromium, driven by Playwright.

Every page is watched: an error on its console, an uncaught exception, or a request to an origin that is not the page's
own fails the test that opened it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: For a page to show what a test waits for.
WAIT_SECONDS_MAX = 30.0
DESKTOP = (1280, 900)
PHONE = (390, 844)
#: What a page carries in itself; nothing is fetched for it.
OWN_SCHEMES = ("data", "blob", "about")


def chromium_path() -> str:
    """Without Chromium a test is skipped on a laptop, and fails where CI=true."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        reason = "Chromium is not installed: pages are tested in a real browser (Debian: apt-get install chromium)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return found


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


class Watch:
    """What a page did that it should not; `expect` names the console errors that a test provokes on purpose."""

    def __init__(self, page: Page) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._expected: list[re.Pattern[str]] = []
        self._page = page
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))
        page.on("request", self._asked)

    def expect(self, pattern: str) -> None:
        self._expected.append(re.compile(pattern))

    @property
    def outside(self) -> list[str]:
        """Requests to another origin than that of the page itself."""
        own = origin_of(self._page.url)
        return [url for url in self.requests if urlsplit(url).scheme not in OWN_SCHEMES and origin_of(url) != own]

    @property
    def unexpected(self) -> list[str]:
        return [error for error in self.errors if not any(one.search(error) for one in self._expected)]

    def verdict(self) -> list[str]:
        return [*self.unexpected, *(f"asked another origin: {url}" for url in self.outside)]

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "assert"):
            self.errors.append(f"console: {message.text} ({message.location.get('url', '')})")

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    program = chromium_path()
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, headless=True, args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def watched_page(
    browser: Browser,
    *,
    theme: Literal["light", "dark"] = "light",
    size: tuple[int, int] = DESKTOP,
) -> AsyncIterator[tuple[Page, Watch]]:
    """A page with storage of its own. Leaving it fails the test for whatever the watch has seen."""
    width, height = size
    context = await browser.new_context(
        color_scheme=theme, viewport={"width": width, "height": height}, locale="en-GB", timezone_id="UTC"
    )
    context.set_default_timeout(WAIT_SECONDS_MAX * 1000)
    page = await context.new_page()
    watch = Watch(page)
    try:
        yield page, watch
        if verdict := watch.verdict():
            raise AssertionError("the page misbehaved:\n" + "\n".join(verdict))
    finally:
        await context.close()
