"""The whole app on local hosts in processes of their own, for tests that close, kill and open."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from local.host.host import HOST_ID_SETTING
from shared.adapters.factories import TableFactoryStore
from shared.adapters.tables import TableStateStore
from shared.domain.factory import Factories
from tests.support.host_fixtures import ROOT, HostProcess
from tests.support.send_services import PATIENT, PairOnBroker

T = TypeVar("T")
POLL_S = 0.05
DEPLOYED = ("function_app.py", "functions", "shared")


async def until(look: Callable[[], Awaitable[T | None]], *, seconds: float, what: str) -> T:
    """The first true value of what is looked at."""
    end = time.monotonic() + seconds
    while True:
        value = await look()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        await asyncio.sleep(POLL_S)


def app_folder(folder: Path) -> Path:
    """The app as it is deployed, with a task hub of its own, so that tests do not meet in storage."""
    app = folder / "app"
    app.mkdir()
    for name in DEPLOYED:
        (app / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "host.json", app)
    config = json.loads((app / "host.json").read_text(encoding="utf-8"))
    config["extensions"]["durableTask"]["hubName"] = f"Closing{secrets.token_hex(8)}"
    (app / "host.json").write_text(json.dumps(config), encoding="utf-8")
    return app


class AppHost:
    """One process that runs the app, and a client with its admin key."""

    def __init__(self, pair: PairOnBroker, app: Path, folder: Path, settings: dict[str, str]) -> None:
        folder.mkdir(exist_ok=True)
        self.pair = pair
        self._settings = {**settings, HOST_ID_SETTING: app.parent.name}
        self._app, self._folder = app, folder
        self._process: HostProcess | None = None
        self._client: httpx.AsyncClient | None = None

    async def start(self) -> None:
        self._process = await asyncio.to_thread(HostProcess, self._folder, self._settings, self._app)
        key = json.loads((self._folder / "keys.json").read_text(encoding="utf-8"))
        headers = {"x-functions-key": str(key["master"])}
        self._client = httpx.AsyncClient(base_url=self._process.address, headers=headers, timeout=60)

    async def kill(self) -> None:
        """kill -9: nothing of it gets the time to finish."""
        process, client = self._process, self._client
        self._process = self._client = None
        if process is not None and client is not None:
            await asyncio.to_thread(process.kill)
            await client.aclose()

    async def stop(self) -> None:
        process, client = self._process, self._client
        self._process = self._client = None
        if process is not None and client is not None:
            await client.aclose()
            await asyncio.to_thread(process.stop)

    @property
    def client(self) -> httpx.AsyncClient:
        assert self._client is not None, "the host is not running"
        return self._client

    def log(self) -> str:
        return (self._folder / "host.log").read_text(encoding="utf-8")

    async def post(self, path: str, body: dict[str, Any] | None = None, *, expected: int = 200) -> dict[str, Any]:
        answer = await self.client.post(f"/api/{path}", json=body or {})
        assert expected == answer.status_code, answer.text
        return dict(answer.json())

    async def send(self, entity: str) -> httpx.Response:
        return await self.client.post(f"/api/bus/{entity}/messages", content=b"x")

    async def status(self) -> dict[str, Any]:
        return dict((await self.client.get("/api/pair")).json())

    async def history(self) -> str:
        """Everything the durable store knows of the pair's orchestration, as text."""
        settings = self.pair.settings()
        path = f"/runtime/webhooks/durabletask/instances/pair-{settings.pair.name}"
        query = {"showHistory": "true", "showHistoryOutput": "true", "showInput": "true"}
        return (await self.client.get(path, params=query)).text

    async def coordination(self) -> dict[str, Any]:
        return dict(json.loads(await self.history() or "{}"))


@asynccontextmanager
async def factories_of(pair: PairOnBroker) -> AsyncIterator[Callable[[], Awaitable[Factories]]]:
    """Looks at what is in the table, past every app."""
    settings = pair.settings()
    table = TableStateStore(settings.state_storage, settings.pair.name)
    yield TableFactoryStore(table).load
    await table.close()


@asynccontextmanager
async def app_hosts(
    pair: PairOnBroker, folder: Path, *, count: int = 1, **settings: str
) -> AsyncIterator[list[AppHost]]:
    """Processes that share everything but memory."""
    app = app_folder(folder)
    chosen = {**pair.app_settings(**PATIENT), "ENABLE_SYPHON": "false", **settings}
    hosts = [AppHost(pair, app, folder / f"host{number}", chosen) for number in range(count)]
    try:
        await asyncio.gather(*(host.start() for host in hosts))
        yield hosts
    finally:
        await asyncio.gather(*(host.stop() for host in hosts))
