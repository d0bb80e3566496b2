"""The pytest plugin of a worker: stand-ins in place, tests run one by one as the parent names them.

With `CONFORMANCE_CHANNEL` (a file descriptor) set, the plugin replaces pytest's loop: it sends the collected
tests, then runs each node id it is sent and answers with the outcome, until it is sent None. Without it,
pytest runs as usual, which is handy for looking at one test by hand.
"""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from . import devtools, network
from .backend import CONNECTION_STRING_VARIABLE, ConnectionParts

CHANNEL_VARIABLE = "CONFORMANCE_CHANNEL"
LIVE_MARKERS = ("live_test_only", "liveTest")
REASON_CHARACTERS_MAX = 6000
# Collecting needs no broker; nothing connects to this.
NO_BROKER = "Endpoint=sb://localhost:1/;SharedAccessKeyName=none;SharedAccessKey=none"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Earlier than `pytest_configure`: the SDK's conftest already imports what we stand in for."""
    parts = ConnectionParts.parse(os.environ.setdefault(CONNECTION_STRING_VARIABLE, NO_BROKER))
    host, _, port = parts.host.partition(":")
    network.allow_loopback_only()
    network.use_plain_tcp(f"{host}:{port}")
    devtools.install(endpoint_suffix=f":{port}")


@pytest.fixture(scope="session")
def test_proxy() -> None:
    """Azure's recording proxy, which nothing here goes through."""


def is_live(item: pytest.Item) -> bool:
    """Whether a test talks to a service at all; the others would pass without a broker and prove nothing."""
    marked = any(item.get_closest_marker(name) for name in LIVE_MARKERS)
    return marked or getattr(getattr(item, "function", None), "needs_broker", False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    descriptor = os.environ.get(CHANNEL_VARIABLE)
    if descriptor is None:
        return None
    if session.testsfailed:
        raise session.Failed(f"{session.testsfailed} errors while collecting")
    channel = Connection(int(descriptor))
    items = {item.nodeid: item for item in session.items}
    channel.send([(node, is_live(item)) for node, item in items.items()])
    while (node := channel.recv()) is not None:
        reports = runtestprotocol(items[node], log=False, nextitem=None)
        channel.send(outcome_of(reports))
    return True


def outcome_of(reports: list[Any]) -> dict[str, Any]:
    """One verdict out of the set-up, call and tear-down reports."""
    seconds = sum(report.duration for report in reports)
    for report in reports:
        if report.skipped:
            return {"outcome": "skipped", "reason": _skip_reason(report), "detail": "", "seconds": seconds}
    for report in reports:
        if report.failed:
            detail = report.longreprtext[-REASON_CHARACTERS_MAX:]
            return {"outcome": "failed", "reason": _crash_line(report), "detail": detail, "seconds": seconds}
    return {"outcome": "passed", "reason": "", "detail": "", "seconds": seconds}


def _skip_reason(report: Any) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr)


def _crash_line(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message.splitlines()[0] if crash is not None and crash.message else report.longreprtext[-200:]
    where = f" ({os.path.basename(crash.path)}:{crash.lineno})" if crash is not None else ""
    return f"{report.when}: {text}{where}"
