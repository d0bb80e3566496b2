"""The page: verdict first, everything escaped, everything bounded, nothing fetched."""

from __future__ import annotations

import functools
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from pipeline.report import LISTED_MAX, render
from tests.support.report_sample import sample

Summary, Tables = dict[str, Any], dict[str, list[dict[str, Any]]]
#: What a page could fetch or run with. Links within the page are none of it.
FETCHING = ("src", "srcset", "action", "data", "poster", "background", "onload", "onclick", "onerror")
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def position(self, phrase: str) -> int:
        found = self.text.find(phrase)
        assert found >= 0, f"{phrase!r} is not on the page"
        return found


@functools.cache
def page(*, lost: int = 0, killed: int = 0) -> Page:
    return Page(render(*sample(lost=lost, killed=killed)))


def empty() -> tuple[Summary, Tables]:
    summary, tables = sample()
    nothing = {name: 0 for name, value in summary.items() if isinstance(value, int)}
    return {**summary, **nothing, "costs": None, "longest_wait_seconds": None}, {name: [] for name in tables}


def test_every_element_is_closed_and_every_chart_is_sound_svg() -> None:
    text, found = render(*sample(lost=4)), page(lost=4)
    assert ([], []) == (found.open, found.unbalanced)
    charts = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    # Time line, three times sends and latency, drain, costs, heat: each wide and narrow.
    assert 2 * (1 + 3 * 2 + 1 + 1 + 1) == len(charts)
    for chart in charts:
        root = ElementTree.fromstring(chart)
        assert "img" == root.get("role")
        assert root.get("aria-label")
        assert root.findall(".//title")


def test_the_page_has_no_script_and_fetches_nothing() -> None:
    found = page(lost=4)
    assert [] == [tag for tag, _ in found.tags if tag in ("script", "iframe", "object", "embed", "form", "img")]
    assert [] == [(tag, name) for tag, attributes in found.tags for name in attributes if name in FETCHING]
    assert {"data:,"} == {attributes["href"] for tag, attributes in found.tags if tag == "link"}
    assert all(str(attributes["href"]).startswith("#") for tag, attributes in found.tags if tag == "a")
    policy = next(attributes["content"] for tag, attributes in found.tags if "http-equiv" in attributes)
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "url(" not in render(*sample())
    assert [] == [tag for tag, attributes in found.tags if "style" in attributes]  # the policy would ignore it


def test_the_verdict_comes_first_and_says_what_is_proved() -> None:
    found = page()
    assert found.position("0 lost, and proved") < found.position("States by time")
    assert "Holes in the proof" not in found.text


def test_what_is_lost_is_listed_by_name() -> None:
    found = page(lost=4)
    assert found.position("4 lost") < found.position("order-000003-8c1f6a") < found.position("States by time")


def test_holes_in_the_proof_are_said_loudly() -> None:
    found = page(killed=2)
    assert found.position("0 known to be lost, but the records have holes") < found.position("Holes in the proof")
    assert found.position("17 records are missing") < found.position("States by time")
    assert "This is not a proof" in found.text
    assert ("div", {"class": "holes", "role": "alert"}) in found.tags


def test_markup_in_the_records_stays_text() -> None:
    summary, tables = sample(lost=1)
    evil = '"><script>alert(1)</script><svg onload=alert(2)>'
    for rows in tables.values():
        for row in rows:
            row |= {name: evil for name in ("entity", "path", "reason", "key_hash", "message_id") if name in row}
    summary["costs"]["prices"]["source"] = evil
    text = render(summary, tables)
    found = Page(text)
    assert "<script" not in text
    assert [] == [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert ([], []) == (found.open, found.unbalanced)


@pytest.mark.parametrize("name", ["time_line", "outages", "sends", "deliveries", "partition_keys", "drain"])
def test_big_tables_are_cut_and_the_page_says_by_how_much(name: str) -> None:
    summary, tables = sample()
    before = len(render(summary, tables))
    tables[name] = [{**row, "entity": f"e-{copy}-{row.get('entity')}"} for copy in range(300) for row in tables[name]]
    text = render(summary, tables)
    assert len(text) < before + 400_000
    assert re.search(r"[\d,]+ more( entities)?,? ", Page(text).text)


def test_the_list_of_lost_messages_is_cut_with_the_count_of_the_rest() -> None:
    summary, tables = sample(lost=200)
    assert f"{200 - LISTED_MAX} more are not shown" in Page(render(summary, tables)).text


def test_the_arithmetic_of_costs_is_spelled_out_and_assumptions_are_marked() -> None:
    found = page()
    found.position("3 × USD 0.80 = USD 2.40, and 6 × USD 0.80 = USD 4.80")
    found.position("62: operations a minute at a backlog queue while something waits in it")
    found.position("86,100 forwarded + 12 dead-lettered")
    assert {"measured", "assumed"} <= set(found.words)


def test_the_time_line_shows_trouble_first_and_entities_before_their_keys() -> None:
    found = page()
    names = ["orders", "invoices", "notifications", "telemetry/devices", "orders (key 9f86d081884c)", "audit-trail"]
    assert names == [word for word in found.words if word in names][: len(names)]


def test_an_outage_that_is_not_over_says_so() -> None:
    assert "not over" in page().words


def test_a_page_about_nothing_says_so_in_every_section() -> None:
    found = Page(render(*empty()))
    for phrase in (
        "There are no sends and no changes of state on record.",
        "There are no sends on record.",
        "Nothing was ever diverted in this time.",
        "Costs were not computed for this report.",
        "No message on record has a key",
        "There are none.",
    ):
        found.position(phrase)
    assert ([], []) == (found.open, found.unbalanced)
