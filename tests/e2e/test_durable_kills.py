"""kill -9 of the host between any two steps of an orchestration, and a start that finishes it with the same result.

Steps are the host's writes to storage: each is a place where a crash leaves another state behind. A spy in the
host process kills it right before or right after the n-th write, for every n there is.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from local.host.keys import load_or_create
from tests.support.host_fixtures import AzuriteProcess, HostProcess, ToyLog, toy_app, toy_settings, until

KILL_SETTING = "TOY_KILL_AT"
DEADLINE_S = 60.0
#: More writes than these orchestrations make; the loop ends when a run survives.
WRITES_MAX = 60

SPY = '''

# Ends the process, as `kill -9` would, at the n-th write to storage.
import signal as _signal
from azure.data.tables.aio import TableClient as _TableClient

_writes = 0


def _deadly(name):
    original = getattr(_TableClient, name)

    async def write(self, *arguments, **options):
        global _writes
        number, _, moment = os.environ.get("TOY_KILL_AT", "0:").partition(":")
        counted = not name.startswith("upsert") and "Instances" in self.table_name
        _writes += counted
        deadly = counted and _writes == int(number)
        if deadly and moment == "before":
            os.kill(os.getpid(), _signal.SIGKILL)
        result = await original(self, *arguments, **options)
        if deadly and moment == "after":
            os.kill(os.getpid(), _signal.SIGKILL)
        return result

    setattr(_TableClient, name, write)


for _name in ("create_entity", "submit_transaction", "delete_entity", "update_entity"):
    _deadly(_name)
'''


def deadly_app(tmp_path: Path) -> Path:
    app = toy_app(tmp_path)
    script = app / "function_app.py"
    script.write_text(script.read_text() + SPY)
    return app


class Runner:
    """Starts the host again and again on the same storage, until the orchestration is over."""

    def __init__(self, tmp_path: Path, azurite: AzuriteProcess, log: ToyLog) -> None:
        self.tmp_path = tmp_path
        self.app = deadly_app(tmp_path)
        self.settings = toy_settings(log, azurite.connection_string)
        self.kills = 0

    def host(self, kill_at: str = "0:") -> HostProcess:
        return HostProcess(self.tmp_path, {**self.settings, KILL_SETTING: kill_at}, self.app)

    def headers(self) -> dict[str, str]:
        return {"x-functions-key": load_or_create(self.tmp_path / "keys.json").master}

    async def finish(self, name: str, value: Any, instance_id: str, kill_at: str, event: bool = False) -> Any:
        """Run to the end with one kill on the way; the output."""
        host = self.host(kill_at)
        try:
            output = await self._drive(host, name, value, instance_id, event)
        except httpx.HTTPError:
            self.kills += 1
            host.reap()
            host = self.host()
            output = await self._drive(host, name, value, instance_id, event)
        host.kill()
        return output

    async def _drive(self, host: HostProcess, name: str, value: Any, instance_id: str, event: bool) -> Any:
        """Start the instance unless it is there, raise the event until it counts, wait for the end."""
        base = f"{host.address}/runtime/webhooks/durabletask"
        end = time.monotonic() + DEADLINE_S
        async with httpx.AsyncClient(headers=self.headers(), timeout=10) as client:
            while time.monotonic() < end:
                status = await client.get(f"{base}/instances/{instance_id}")
                if status.status_code == 404:
                    await client.post(f"{base}/orchestrators/{name}/{instance_id}", json=value)
                elif status.status_code == 200:
                    shown = status.json()
                    assert "Completed" == shown["runtimeStatus"], shown
                    return shown["output"]
                elif event:
                    await client.post(f"{base}/instances/{instance_id}/raiseEvent/go", json="now")
                await asyncio.sleep(0.02)
        raise AssertionError(f"{instance_id} did not finish")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_orchestration_survives_a_kill_between_any_two_steps(
    tmp_path: Path, azurite: AzuriteProcess, toy_log: ToyLog, moment: str
) -> None:
    runner = Runner(tmp_path, azurite, toy_log)
    number = 0
    while runner.kills == number and number < WRITES_MAX:
        number += 1
        output = await runner.finish("many_steps", None, f"{moment}-{number}", f"{number}:{moment}")
        assert ["A", 12, ["C0", "C1", "C2"], "D"] == output
    assert 10 <= runner.kills < WRITES_MAX
    done = {(entry["kind"], str(entry["value"])) for entry in toy_log.entries()}
    assert {("step", step) for step in ("a", "c0", "c1", "c2", "d")} <= done


@pytest.mark.timeout(600)
@pytest.mark.parametrize("event", [True, False])
async def test_both_branches_of_a_wait_survive_a_kill_between_any_two_steps(
    tmp_path: Path, azurite: AzuriteProcess, toy_log: ToyLog, event: bool
) -> None:
    runner = Runner(tmp_path, azurite, toy_log)
    number = 0
    value = {"seconds": 3600 if event else 0.2}
    expected = {"before": "BEFORE", "outcome": "now" if event else "timeout", "after": "AFTER"}
    while runner.kills == number and number < WRITES_MAX:
        number += 1
        assert expected == await runner.finish("timer_or_event", value, f"wait-{number}", f"{number}:after", event)
    assert 3 < runner.kills < WRITES_MAX


@pytest.mark.timeout(60)
async def test_a_five_second_timer_fires_after_a_kill_in_the_middle_of_its_wait(
    tmp_path: Path, azurite: AzuriteProcess, toy_log: ToyLog
) -> None:
    runner = Runner(tmp_path, azurite, toy_log)
    first = runner.host()
    async with httpx.AsyncClient(headers=runner.headers(), timeout=10) as client:
        base = f"{first.address}/runtime/webhooks/durabletask"
        await client.post(f"{base}/orchestrators/timer_or_event/five", json={"seconds": 5})
        await until(lambda: toy_log.entries("step"))
    started = time.monotonic()
    first.kill()
    second = runner.host()
    output = await runner._drive(second, "timer_or_event", None, "five", event=False)
    second.kill()
    assert "timeout" == output["outcome"]
    assert time.monotonic() - started > 4
