"""Who may set and clear faults: anybody who reaches the port, but no web page of another origin."""

from __future__ import annotations

import json

import pytest

from local.broker.control import ControlApi
from local.broker.faults import FaultPlan
from local.broker.http import Request

JSON = {"content-type": "application/json"}
THROTTLE = json.dumps({"kind": "throttle"}).encode()


def _ask(plan: FaultPlan, method: str, headers: dict[str, str], host: str = "127.0.0.1:5300") -> int:
    asked = Request(method=method, raw_path="/$faults", headers={"host": host, **headers}, body=THROTTLE)
    return ControlApi(plan).handle(asked).status


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_by_its_content_type_sets_a_fault(kind: str) -> None:
    plan = FaultPlan()
    assert 201 == _ask(plan, "POST", {"content-type": kind})
    assert 1 == len(plan.rules)


@pytest.mark.parametrize("headers", [{}, {"content-type": "text/plain"}, {"content-type": "application/jsonp"}])
def test_what_a_page_could_send_without_asking_sets_nothing(headers: dict[str, str]) -> None:
    plan = FaultPlan()
    assert 415 == _ask(plan, "POST", headers)
    assert {} == plan.rules


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://evil.example", "127.0.0.1:5300"),
        ("null", "127.0.0.1:5300"),
        ("http://127.0.0.1:3000", "127.0.0.1:5300"),
        ("http://evil.example:5300", "evil.example:5300"),
        ("http://localhost.evil.example", "localhost.evil.example"),
    ],
    ids=["another site", "a sandboxed page", "another port", "a name made to point here", "a name like ours"],
)
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_page_of_another_origin_changes_nothing(method: str, origin: str, host: str) -> None:
    plan = FaultPlan()
    assert 201 == _ask(plan, "POST", JSON)
    assert 403 == _ask(plan, method, {**JSON, "origin": origin}, host)
    assert [1] == list(plan.rules)


@pytest.mark.parametrize("host", ["127.0.0.1:5300", "localhost:5300", "[::1]:5300"])
def test_the_brokers_own_origin_may_change_faults(host: str) -> None:
    plan = FaultPlan()
    assert 201 == _ask(plan, "POST", {**JSON, "origin": f"http://{host}"}, host)
    assert 200 == _ask(plan, "DELETE", {"origin": f"http://{host}"}, host)
    assert {} == plan.rules
