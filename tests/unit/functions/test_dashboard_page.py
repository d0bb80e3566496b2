"""The page is one answer that brings everything along and lets nothing else in."""

from __future__ import annotations

import re

import azure.functions as func
import pytest

from functions import dashboard, events
from functions.dashboard import STATIC, build_page

PAGE_BYTES_MAX = 1_000_000


def get(**headers: str) -> func.HttpResponse:
    user_function = dashboard.dashboard.build(auth_level=None).get_user_function()
    request = func.HttpRequest(method="GET", url="/api/dashboard", headers=headers, body=b"")
    answer = user_function(request)
    assert isinstance(answer, func.HttpResponse)
    return answer


def test_every_static_file_is_in_the_page_and_the_page_loads_none() -> None:
    html = build_page().html.decode()
    assert len(html) < PAGE_BYTES_MAX
    for file in STATIC.iterdir():
        if file.suffix in (".css", ".js"):
            assert file.read_text(encoding="utf-8") in html, file.name
    markup = re.sub(r"<(script|style)>.*?</\1>", "", html, flags=re.DOTALL)
    assert [] == re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', markup)


def test_no_script_or_style_ends_itself_early() -> None:
    """Inlined, a closing tag inside a string would cut the script off."""
    for file in STATIC.iterdir():
        if file.suffix in (".css", ".js"):
            assert not re.search(r"</(script|style)|<!--", file.read_text(encoding="utf-8")), file.name


def test_the_policy_admits_nothing_but_the_page_itself() -> None:
    policy = dict(part.split(" ", 1) for part in build_page().headers["Content-Security-Policy"].split("; "))
    assert "'none'" == policy["default-src"]
    assert "'self'" == policy["connect-src"]
    assert "unsafe" not in str(policy)
    assert len(list(STATIC.glob("*.js"))) == policy["script-src"].count("'sha256-")


def test_an_unchanged_page_is_not_sent_again() -> None:
    first = get()
    assert (200, "text/html") == (first.status_code, first.mimetype)
    again = get(**{"if-none-match": first.headers["ETag"]})
    assert (304, b"") == (again.status_code, again.get_body())


def test_cursors_are_read_by_instance() -> None:
    assert {} == events.read_cursors("")
    assert {"12-ab": 7, "13-cd": 0} == events.read_cursors("12-ab:7,13-cd:0")


@pytest.mark.parametrize(
    "text",
    ["7", "a:", ":7", "a:-1", "a:1,", "a b:1", "a:1;b:2", "a:" + "9" * 19, ",".join(["a:1"] * 51), "x" * 65 + ":1"],
)
def test_cursors_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="`after`"):
        events.read_cursors(text)
