"""Fixtures of tests in a browser; a conftest imports what it needs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page

from tests.support.browser import Watch, chromium, watched_page


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as running:
        yield running


@pytest.fixture
async def watched(browser: Browser) -> AsyncIterator[tuple[Page, Watch]]:
    async with watched_page(browser) as page_and_watch:
        yield page_and_watch


@pytest.fixture
def page(watched: tuple[Page, Watch]) -> Page:
    return watched[0]


@pytest.fixture
def watch(watched: tuple[Page, Watch]) -> Watch:
    return watched[1]
