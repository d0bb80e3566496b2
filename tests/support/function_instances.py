"""Every function of the app in a process of its own, as a plan that scales by function runs them.

The processes share Table Storage and the broker, and nothing else. Durable functions stay together, since the platform
always scales them as one group.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from local.host.host import HOST_ID_SETTING
from tests.support.app_process import run_python
from tests.support.closing_hosts import app_folder
from tests.support.host_fixtures import HostProcess

DURABLE = "durable"
DURABLE_TRIGGERS = ("orchestrationTrigger", "activityTrigger")
#: Processes that start at the same time: more of them only take each other's time.
STARTING_MAX = 4
INDEX = """
import json, function_app
functions = function_app.app.get_functions()
print(json.dumps({f.get_function_name(): f.get_trigger().type for f in functions}))
"""


def function_groups(settings: Mapping[str, str]) -> dict[str, list[str]]:
    """What runs together: every function alone, but the durable ones."""
    done = run_python("-c", INDEX, settings=settings)
    assert 0 == done.returncode, done.stderr
    groups: dict[str, list[str]] = {}
    for name, trigger in json.loads(done.stdout).items():
        groups.setdefault(DURABLE if trigger in DURABLE_TRIGGERS else name, []).append(name)
    return groups


class FunctionInstances:
    """Clients by the name of the function whose process they talk to."""

    def __init__(self, folder: Path, settings: Mapping[str, str], groups: Mapping[str, list[str]]) -> None:
        self.groups = groups
        self._folder, self._app = folder, app_folder(folder)
        self._settings = {**settings, HOST_ID_SETTING: folder.name}
        self._processes: dict[str, HostProcess] = {}
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def start(self) -> None:
        at_once = asyncio.Semaphore(STARTING_MAX)

        async def one(name: str) -> None:
            async with at_once:
                await self.start_one(name)

        await asyncio.gather(*(one(name) for name in self.groups))

    async def start_one(self, name: str) -> None:
        own = self._folder / name
        own.mkdir(exist_ok=True)
        more = ("--listen-for", ",".join(self.groups[name]))
        process = await asyncio.to_thread(HostProcess, own, self._settings, self._app, 0, more)
        key = str(json.loads((own / "keys.json").read_text(encoding="utf-8"))["master"])
        self._processes[name] = process
        self._clients[name] = httpx.AsyncClient(
            base_url=process.address, headers={"x-functions-key": key}, timeout=60
        )

    async def stop(self) -> None:
        await asyncio.gather(*(client.aclose() for client in self._clients.values()))
        await asyncio.gather(*(asyncio.to_thread(process.stop) for process in self._processes.values()))

    @property
    def pids(self) -> set[int]:
        return {process.pid for process in self._processes.values()}

    async def listening(self) -> dict[str, list[str]]:
        """What each process says it runs."""
        found = {}
        for name, client in self._clients.items():
            status = (await client.get("/admin/host/status")).json()
            assert [] == status["errors"]
            found[name] = [function["name"] for function in status["functions"]]
        return found

    async def call(self, function: str, method: str, path: str, **more: Any) -> httpx.Response:
        return await self._clients[function].request(method, f"/api/{path}", **more)

    async def run_timer(self, function: str) -> None:
        answer = await self._clients[function].post(f"/admin/functions/{function}", json={})
        assert 202 == answer.status_code

    def log(self, name: str) -> str:
        return (self._folder / name / "host.log").read_text(encoding="utf-8")


@asynccontextmanager
async def function_instances(folder: Path, settings: Mapping[str, str]) -> AsyncIterator[FunctionInstances]:
    running = FunctionInstances(folder, settings, await asyncio.to_thread(function_groups, settings))
    try:
        await running.start()
        yield running
    finally:
        await running.stop()
