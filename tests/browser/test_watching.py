"""The watch over pages convicts what it should: a test that trusts it must be able to fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.support.browser import Watch, chromium_path, watched_page


def page_of(folder: Path, script: str) -> str:
    file = folder / "page.html"
    file.write_text(f"<!doctype html><title>t</title><p id=done></p><script>{script}</script>", encoding="utf-8")
    return file.as_uri()


async def test_a_quiet_page_passes(page: Page, watch: Watch, tmp_path: Path) -> None:
    await page.goto(page_of(tmp_path, "console.warn('only a warning')"))
    assert [] == watch.verdict()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("console.error('broken')", "console: broken"),
        ("throw new Error('boom')", "uncaught: boom"),
        ("fetch('http://127.0.0.2:9/other').catch(() => {})", "asked another origin: http://127.0.0.2:9/other"),
    ],
)
async def test_a_page_that_misbehaves_fails_its_test(browser: Browser, tmp_path: Path, script: str, said: str) -> None:
    async def open_it() -> None:
        async with watched_page(browser) as (page, watch):
            watch.expect("ERR_CONNECTION_REFUSED|ERR_UNSAFE_PORT|blocked by CORS")
            await page.goto(page_of(tmp_path, script), wait_until="networkidle")

    with pytest.raises(AssertionError, match=said):
        await open_it()


def test_a_machine_without_chromium_skips_on_a_laptop_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install chromium"):
        chromium_path()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"):
        chromium_path()
