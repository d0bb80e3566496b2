"""The page with recorded answers: many entities, hostile names, lost contact."""

from __future__ import annotations

import asyncio
import json

from playwright.async_api import Page, expect

from tests.support.browser import Watch
from tests.support.dashboard import RecordedApp, entity, many, pair_answer, queue

#: Of a page with 200 entities and 50 queues; every row that is drawn costs at each update.
ELEMENTS_MAX = 1500
UNFOLDED_ELEMENTS_MAX = 3000


async def test_200_entities_and_50_queues_stay_usable(page: Page) -> None:
    app = RecordedApp(many())
    await app.open(page)
    rows, queues = page.locator("#entities tbody tr"), page.locator("#queues tbody tr")
    await expect(page.locator("#headline")).to_contain_text("3 of 200 entities unavailable since")
    await expect(page.locator("#headline")).to_contain_text(
        "1,204 messages waiting, draining will take at least 3 min."  # of one queue nobody can tell yet
    )
    await expect(rows).to_have_count(5)  # those in trouble
    await expect(queues).to_have_count(3)
    assert ELEMENTS_MAX > await page.evaluate("document.querySelectorAll('*').length")

    await page.fill("#entities-filter", "tenant-19 available")
    await expect(rows).to_have_count(9)  # tenant-19, and 190 to 197
    await page.fill("#entities-filter", "nobody")
    await expect(page.locator("#entities-more")).to_contain_text("No entity matches the filter.")
    await page.fill("#entities-filter", "")
    await page.click("text=Show the 195 healthy entities")
    await expect(rows).to_have_count(50)
    await page.click("text=Show 50 more of 200")
    await expect(rows).to_have_count(100)
    await page.click("text=Show the 47 healthy queues")
    await expect(queues).to_have_count(50)
    assert UNFOLDED_ELEMENTS_MAX > await page.evaluate("document.querySelectorAll('*').length")

    await page.click("text=1 watched key")
    await expect(page.locator(".watched li")).to_contain_text("customer-7")


async def test_an_update_leaves_focus_filter_and_open_parts_alone(page: Page) -> None:
    app = RecordedApp(many())
    await app.open(page)
    button = page.get_by_role("button", name="Mark healthy… tenant-1/orders")
    await button.focus()
    await page.evaluate("document.querySelector('#entities tbody tr').dataset.seen = 'yes'")
    app.answer["entities"].insert(0, entity("accounts", "unavailable"))
    await expect(page.locator("#entities tbody tr")).to_have_count(6)
    await expect(button).to_be_focused()
    await expect(page.locator("#entities tr[data-seen]")).to_have_count(1)


async def test_names_from_outside_are_text_and_reach_the_app_as_they_are(page: Page) -> None:
    hostile = "a b/<img src=x onerror=alert(1)>/100%?x=1#y"
    app = RecordedApp(pair_answer([entity(hostile)], [queue(0)], warnings=["<script>alert(2)</script>"]))
    await app.open(page)
    await expect(page.locator("#entities .path")).to_have_text(hostile)
    await expect(page.locator("#warnings")).to_have_text("<script>alert(2)</script>")
    assert 0 == await page.locator("img").count()
    await page.click("text=Rehearse failover…")
    await page.fill("#ask-reason", "ein Grund & noch einer")
    await page.click("#ask-confirm")
    await expect(page.locator("#toast")).to_contain_text("fails over")
    path = "a%20b/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E/100%25%3Fx%3D1%23y"
    reason = "ein%20Grund%20%26%20noch%20einer"
    assert [(f"/api/entities/{path}/unavailable?reason={reason}", "{}")] == app.asked


async def test_a_fault_without_a_reason_is_not_sent(page: Page) -> None:
    app = RecordedApp(pair_answer([], [queue(0)]))
    await app.open(page)
    await page.get_by_role("button", name="Fault… the primary").click()
    await page.fill("#ask-reason", "   ")
    await page.click("#ask-confirm")
    await expect(page.locator("#ask-problem")).to_have_text("A fault needs a reason.")
    assert [] == app.asked
    await page.fill("#ask-reason", "moved")
    await page.click("#ask-confirm")
    await expect(page.locator("#toast")).to_have_text("The primary is faulted.")
    (path, body) = app.asked[0]
    assert ("/api/pair/primary/fault", "moved") == (path, json.loads(body)["reason"])


async def test_an_old_picture_says_so_and_lost_contact_comes_back(page: Page, watch: Watch) -> None:
    watch.expect("status of 500")
    app = RecordedApp(pair_answer([entity("orders")], [queue(0)]))
    await app.open(page)
    await expect(page.locator("#contact-text")).to_contain_text("Live")
    app.status = 500
    await expect(page.locator("#contact-text")).to_have_text("Contact lost")
    await expect(page.locator("#lost")).to_contain_text("The app answered 500")
    await expect(page.locator("body")).to_have_class("old")
    app.status = None
    await expect(page.locator("#contact-text")).to_contain_text("Live")
    await expect(page.locator("#lost")).to_be_hidden()
    await expect(page.locator("body")).not_to_have_class("old")


async def test_a_picture_that_no_answer_renews_is_called_old(page: Page) -> None:
    await page.clock.install()
    app = RecordedApp(pair_answer([entity("orders")], [queue(0)]))
    await app.open(page)
    await expect(page.locator("#contact-text")).to_contain_text("Live")
    app.is_silent = True
    await page.clock.run_for(18_000)
    await expect(page.locator("#contact-text")).to_contain_text("No new answer, updated 1")
    await expect(page.locator("body")).to_have_class("old")


async def test_an_answer_that_cannot_be_shown_is_told_and_asking_goes_on(page: Page, watch: Watch) -> None:
    watch.expect("TypeError")
    good = pair_answer([entity("orders")], [queue(0)])
    app = RecordedApp({**good, "backlog": None})
    await app.open(page)
    await expect(page.locator("#lost")).to_contain_text("what the app answered cannot be shown. Trying again.")
    app.answer = good
    await expect(page.locator("#contact-text")).to_contain_text("Live")


async def test_an_action_whose_question_was_left_tells_that_it_was_not_done(page: Page, watch: Watch) -> None:
    watch.expect("status of 503")
    app = RecordedApp(pair_answer([entity("orders")], [queue(0)]))
    app.may_refuse = asyncio.Event()
    await app.open(page)
    await page.click("text=Rehearse failover…")
    await page.click("#ask-confirm")
    await page.keyboard.press("Escape")
    app.may_refuse.set()
    told = "Rehearse a failover of orders? Not done: Shared state is away. Try again."
    await expect(page.locator("#toast")).to_have_text(told)
