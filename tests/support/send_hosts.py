"""The app on the local host in processes of their own, for tests of its HTTP API and of several instances."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.app_process import ROOT
from tests.support.host_fixtures import HostProcess
from tests.support.send_services import PATIENT, PairOnBroker

DEPLOYED = ("function_app.py", "functions", "shared")


class SendHost:
    def __init__(self, process: HostProcess, folder: Path) -> None:
        self.process = process
        self.key = str(json.loads((folder / "keys.json").read_text(encoding="utf-8"))["master"])
        self.log_file = folder / "host.log"
        self.client = httpx.AsyncClient(
            base_url=process.address, headers={"x-functions-key": self.key}, timeout=60, limits=httpx.Limits()
        )

    async def send(self, entity: str, body: bytes = b"x", **headers: str) -> httpx.Response:
        return await self.client.post(f"/api/bus/{entity}/messages", content=body, headers=headers)

    async def route(self, entity: str) -> str:
        answer = await self.send(entity)
        assert 201 == answer.status_code, answer.text
        return str(answer.headers["x-pair-route"])

    async def post(self, path: str) -> dict[str, Any]:
        answer = await self.client.post(f"/api/{path}", content=b"")
        assert 200 == answer.status_code, answer.text
        return dict(answer.json())

    async def status(self) -> dict[str, Any]:
        return dict((await self.client.get("/api/pair")).json())

    async def stop(self) -> None:
        await self.client.aclose()
        await asyncio.to_thread(self.process.stop)


@asynccontextmanager
async def send_hosts(
    pair: PairOnBroker, folder: Path, *, count: int = 1, **settings: str
) -> AsyncIterator[list[SendHost]]:
    """Instances that share everything but memory. They ping only where a test says how often: with each full minute an
    entity that a test has marked unavailable would come back."""
    app = folder / "app"
    app.mkdir()
    for name in DEPLOYED:
        (app / name).symlink_to(ROOT / name)
    config = json.loads((ROOT / "host.json").read_text(encoding="utf-8"))
    config["extensions"]["durableTask"]["hubName"] = f"Send{secrets.token_hex(8)}"
    (app / "host.json").write_text(json.dumps(config), encoding="utf-8")
    trusted = {"SSL_CERT_FILE": str(pair.broker.authority_file)}
    pings = {} if "PING_PRIMARY_INTERVAL" in settings else {"AzureWebJobs.ping_primary.Disabled": "true"}
    chosen = {**pair.app_settings(**PATIENT), **trusted, **pings, "ENABLE_SYPHON": "false", **settings}
    hosts: list[SendHost] = []
    try:
        for number in range(count):
            own = folder / f"host{number}"
            own.mkdir()
            process = await asyncio.to_thread(HostProcess, own, chosen, app)
            hosts.append(SendHost(process, own))
        yield hosts
    finally:
        await asyncio.gather(*(host.stop() for host in hosts))
        shutil.rmtree(app)
