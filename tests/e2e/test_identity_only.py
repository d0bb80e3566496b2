"""The whole local stack by identity: no connection string and no key anywhere in the app's settings."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_local_command import ANY_PORTS, LocalCommand

SETTINGS = {
    "FUNCTIONS_WORKER_RUNTIME": "python",
    "ENABLE_SYPHON": "true",
    "BACKLOG_QUEUE_COUNT": "2",
    "FAILOVER_INTERVAL": "PT0S",
    "PING_PRIMARY_INTERVAL": "PT1S",
    "PRIMARY_ATTEMPT_TIMEOUT": "PT2S",
    "STATE_REFRESH": "PT0.2S",
    "PARTNER_GRACE": "PT1S",
}
MESSAGES = 10
PATIENCE_S = 60.0


@pytest.fixture
def running(tmp_path: Path) -> Iterator[LocalCommand]:
    settings = tmp_path / "identity.settings.json"
    settings.write_text(json.dumps({"IsEncrypted": False, "Values": SETTINGS}), encoding="utf-8")
    command = LocalCommand(tmp_path / "data", str(settings), "--identity", *ANY_PORTS)
    command.until("Ctrl-C stops everything.")
    yield command
    command.process.terminate()
    command.ended()


class App:
    def __init__(self, command: LocalCommand) -> None:
        (self.base,) = re.findall(r"function app +(\S+)", command.text)
        (self.key,) = re.findall(r"admin key +(\S+)", command.text)
        self.control = re.findall(r"administration and faults: (\S+?)\)", command.text)[0]

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
        request = urllib.request.Request(
            f"{self.base}/api/{path}", body if method == "POST" else None, {"x-functions-key": self.key}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers.get("x-pair-route") or json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def fault(self, **fault: str) -> None:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.control}/$faults", json.dumps(fault).encode(), headers, method="POST")
        urllib.request.urlopen(request, timeout=10).close()

    def heal(self) -> None:
        urllib.request.urlopen(
            urllib.request.Request(f"{self.control}/$faults", method="DELETE"), timeout=10
        ).close()

    def send(self, route: str) -> None:
        self.until(lambda: self.ask("POST", "bus/orders/messages", b"x") == (201, route), f"a send by the {route}")

    def until(self, look: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not look():
            assert time.monotonic() < end, f"not within {PATIENCE_S:g} s: {what}; {self.ask('GET', 'pair')}"
            time.sleep(0.1)

    def status(self) -> dict[str, Any]:
        return dict(self.ask("GET", "pair")[1])


def test_identity_alone_runs_the_whole_stack(running: LocalCommand) -> None:
    host = next(pid for pid in running.descendants() if "local.host" in Path(f"/proc/{pid}/cmdline").read_text())
    environment = Path(f"/proc/{host}/environ").read_text()
    assert "ServiceBusPrimary__fullyQualifiedNamespace=localhost:" in environment
    assert "AzureWebJobsStorage__tableServiceUri=https://" in environment
    assert [] == re.findall(r"SharedAccessKey|AccountKey|UseDevelopmentStorage", environment)
    app = App(running)

    # Pairing by the administration API, and a send, both with tokens.
    app.until(lambda: app.status()["paired_at"], "the pair is paired")
    app.send("primary")
    # The primary breaks, messages wait, a ping finds it well again, and the syphon's triggers drain the backlog.
    app.fault(kind="refuse", namespace="primary")
    for _ in range(MESSAGES):
        app.send("backlog")
    assert app.status()["backlog"]["waiting"] >= MESSAGES
    app.heal()
    app.send("primary")
    app.until(lambda: app.status()["backlog"]["waiting"] == 0, "an empty backlog")
    assert 0 == sum(queue["dead_lettered"] for queue in app.status()["backlog"]["queues"])
    # Closing is coordinated through storage, with tokens too.
    assert 200 == app.ask("POST", "pair/primary/close", b'{"reason": "rehearsal"}')[0]
    app.until(lambda: app.status()["factories"]["secondary"]["state"] == "faulted", "the partner follows")
    assert 200 == app.ask("POST", "pair/open", b"{}")[0]
    app.send("primary")
