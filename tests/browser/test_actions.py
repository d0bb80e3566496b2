"""What changes the pair, from the dashboard of the running app: asked first, by keyboard alone, with the right key."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.support.browser import Watch
from tests.support.dashboard import app, give_keys, host_keys, open_dashboard
from tests.support.send_hosts import SendHost
from tests.support.send_services import PairOnBroker

#: Tab stops of the whole page, and more.
TABS_MAX = 60


async def press_until_focused(page: Page, name: str) -> None:
    """Walks the page with the Tab key as a person would, and stops at the button of this name."""
    for _ in range(TABS_MAX):
        await page.keyboard.press("Tab")
        focused = "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
        if name == await page.evaluate(focused):
            return
    raise AssertionError(f"the Tab key does not reach {name!r}")


async def act_by_keyboard(page: Page, name: str, question: str, *, reason: str = "") -> None:
    """Opens the action, sees that it asks, thinks better of it with Escape, then goes through with it."""
    dialog = page.locator("#ask")
    await press_until_focused(page, name)
    await page.keyboard.press("Enter")
    await expect(dialog.locator("h2")).to_have_text(question)
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await page.keyboard.press("Enter")  # the focus is back on the button
    await expect(dialog).to_be_visible()
    await page.keyboard.type(reason)
    await page.keyboard.press("Enter")
    await expect(dialog).to_be_hidden()


async def availability(host: SendHost) -> tuple[str, str]:
    (entity,) = (await host.status())["entities"]
    return entity["availability"], entity["reason"] or ""


async def factories(host: SendHost) -> list[str]:
    return [factory["state"] for factory in (await host.status())["factories"].values()]


@pytest.mark.timeout(300)
async def test_every_action_asks_first_and_needs_no_mouse(page: Page, pair: PairOnBroker, tmp_path: Path) -> None:
    pair.create_entities("orders")
    # Pings would end the rehearsal.
    async with app(pair, tmp_path, PING_PRIMARY_INTERVAL="PT30M", PARTNER_GRACE="PT0S") as host:
        await host.send("orders")
        await open_dashboard(page, host)
        row, toast = page.locator("#entities tbody tr"), page.locator("#toast")
        await expect(row).to_contain_text("Available")

        question = "Rehearse a failover of orders?"
        await act_by_keyboard(page, "Rehearse failover… of orders", question, reason="drill")
        await expect(row).to_contain_text("Unavailable")
        assert ("unavailable", "drill") == await availability(host)
        assert "backlog" == await host.route("orders")

        await act_by_keyboard(page, "Mark healthy… orders", "Mark orders healthy?")
        await expect(toast).to_have_text("orders is marked healthy.")
        await expect(row).to_contain_text("Available")
        assert "available" == (await availability(host))[0]

        await act_by_keyboard(page, "Fault… the secondary", "Fault the secondary?", reason="being moved")
        await expect(page.locator("#headline")).to_contain_text("Pair faulted since")
        await expect(page.locator("#side-secondary")).to_contain_text("being moved")
        assert ["faulted", "faulted"] == await factories(host)

        await act_by_keyboard(page, "Re-open pair…", "Open the pair again?")
        await expect(page.locator("#side-primary")).to_contain_text("Factory open")
        assert ["open", "open"] == await factories(host)

        await act_by_keyboard(page, "Close… the primary", "Close the primary?")
        await expect(page.locator("#side-primary")).to_contain_text("Factory closed")
        assert "closed" == (await factories(host))[0]
        await page.close()  # before the app stops


async def test_a_wrong_key_is_told_from_a_right_one(
    page: Page, watch: Watch, pair: PairOnBroker, tmp_path: Path
) -> None:
    pair.create_entities("orders")
    async with app(pair, tmp_path) as host:
        await host.send("orders")
        watch.expect("status of 401")
        await page.goto(f"{host.process.address}/api/dashboard")
        await give_keys(page, "not-a-key")
        await expect(page.locator("#keys-problem")).to_contain_text("The function key was refused.")
        await expect(page.locator("#content")).to_be_hidden()

        function_key, admin_key = host_keys(host)
        await give_keys(page, function_key)
        await expect(page.locator("#headline")).to_contain_text("All is well")
        assert "" == await page.evaluate("sessionStorage.getItem('pair.admin-key')")
        assert [0, ""] == await page.evaluate("[localStorage.length, document.cookie]")

        await page.click("text=Rehearse failover…")
        await page.fill("#ask-key", function_key)  # a function key does not act
        await page.click("#ask-confirm")
        await expect(page.locator("#ask-problem")).to_contain_text("The admin key was refused: nothing was changed.")
        assert "available" == (await availability(host))[0]
        await page.fill("#ask-key", admin_key)
        await page.click("#ask-confirm")
        await expect(page.locator("#toast")).to_contain_text("orders fails over")

        await page.click("text=Close… >> nth=0")
        await expect(page.locator("#ask-key-row")).to_be_hidden()
        await page.click("#ask-cancel")
        assert ["open", "open"] == await factories(host)
        await page.close()
