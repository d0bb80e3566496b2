"""Fixtures of the host's tests; a conftest imports those it needs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import httpx
import pytest

from local.host.host import HOST_ID_SETTING, Host
from local.stack.azurite import AzuriteMissing
from tests.support.host_fixtures import TOY_APP, AzuriteProcess, ToyLog, toy_app, toy_options, toy_settings, until_async

if TYPE_CHECKING:
    from local.broker.broker import Broker


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzuriteProcess]:
    """One storage emulator for the run; every test has a task hub of its own."""
    try:
        process = AzuriteProcess(tmp_path_factory.mktemp("azurite"))
    except AzuriteMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
    yield process
    process.stop()


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker with the toy app's entities."""
    from local.broker.broker import Broker, BrokerOptions, NamespaceSpec

    options = BrokerOptions(entities=TOY_APP / "entities.json")
    async with Broker([NamespaceSpec(name="toy")], options) as running:
        yield running


@pytest.fixture
def toy_log(tmp_path: Path) -> ToyLog:
    return ToyLog(tmp_path / "toy.log")


class RunningHost:
    """A host with a client for it."""

    def __init__(self, host: Host, client: httpx.AsyncClient) -> None:
        self.host = host
        self.client = client
        self.key = {"x-functions-key": host.keys.development}

    async def get(self, path: str, **more: Any) -> httpx.Response:
        return await self.client.get(path, **more)

    async def start(self, name: str, value: Any = None, instance_id: str | None = None) -> str:
        """Start an orchestration through the toy app's durable client; its id."""
        path = f"/api/start/{name}" + (f"/{instance_id}" if instance_id else "")
        answer = await self.client.post(path, headers=self.key, json=value)
        assert 202 == answer.status_code, answer.text
        return str(answer.json()["id"])

    async def manage(self, verb: str, instance_id: str, body: Any = None, **query: str) -> Any:
        answer = await self.client.post(
            f"/api/manage/{verb}/{instance_id}", headers=self.key, json=body, params=query
        )
        assert 200 == answer.status_code, answer.text
        return answer.json()

    async def status(self, instance_id: str, **query: str) -> httpx.Response:
        headers = {"x-functions-key": self.host.keys.master}
        path = f"/runtime/webhooks/durabletask/instances/{instance_id}"
        return await self.client.get(path, headers=headers, params=query)

    async def finished(self, instance_id: str, deadline_s: float = 20) -> dict[str, Any]:
        """The status of an instance once it is over."""

        async def look() -> dict[str, Any] | None:
            answer = await self.status(instance_id)
            return answer.json() if answer.status_code == 200 else None

        return (await until_async(look, deadline_s=deadline_s)) or {}

    async def reaches(self, instance_id: str, runtime_status: str) -> None:
        async def look() -> bool:
            answer = await self.status(instance_id)
            return answer.status_code != 404 and answer.json()["runtimeStatus"] == runtime_status

        await until_async(look)


class StartHost(Protocol):
    def __call__(self, **settings: str) -> contextlib.AbstractAsyncContextManager[RunningHost]: ...


@pytest.fixture
def start_host(azurite: AzuriteProcess, toy_log: ToyLog, tmp_path: Path) -> Iterator[StartHost]:
    """Starts the toy app in this process; `take_text=on` and the like switch its listeners on."""
    before = dict(os.environ)
    app = toy_app(tmp_path)

    @contextlib.asynccontextmanager
    async def start(**settings: str) -> AsyncIterator[RunningHost]:
        chosen = toy_settings(toy_log, azurite.connection_string, **{HOST_ID_SETTING: app.parent.name})
        for name, value in settings.items():
            if value == "on":
                chosen[f"AzureWebJobs.{name}.Disabled"] = "false"
            else:
                chosen[name] = value
        async with (
            Host(toy_options(tmp_path, chosen, app)) as host,
            httpx.AsyncClient(base_url=host.address, timeout=30) as client,
        ):
            yield RunningHost(host, client)

    yield start
    os.environ.clear()
    os.environ.update(before)


