"""Storage goes away and comes back: orchestrations and timers wait for it and go on."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from local.host.keys import load_or_create
from tests.support.host_fixtures import AzuriteProcess, HostProcess, ToyLog, toy_app, toy_settings, until, until_async


@pytest.mark.timeout(180)
async def test_the_host_outlives_an_outage_of_storage(tmp_path: Path, toy_log: ToyLog) -> None:
    azurite = AzuriteProcess(tmp_path / "azurite")
    settings = toy_settings(toy_log, azurite.connection_string, TOY_SCHEDULE="* * * * * *")
    settings["AzureWebJobs.every_second.Disabled"] = "false"
    host = HostProcess(tmp_path, settings, toy_app(tmp_path))
    base = f"{host.address}/runtime/webhooks/durabletask"
    headers = {"x-functions-key": load_or_create(tmp_path / "keys.json").master}
    host_log = tmp_path / "host.log"
    try:
        async with httpx.AsyncClient(headers=headers, timeout=60) as client:
            await client.post(f"{base}/orchestrators/timer_or_event/outage", json={"seconds": 3600})
            await until(lambda: toy_log.entries("step") and toy_log.entries("timer"))
            azurite.stop()
            await until(lambda: "task hub" in (text := host_log.read_text()) and "waits for it" in text)
            assert 500 == (await client.get(f"{base}/instances/outage")).status_code
            assert 200 == (await client.get(f"{host.address}/api/text")).status_code
            azurite.start()
            ticks = len(toy_log.entries("timer"))

            async def accepted() -> bool:
                return (await client.post(f"{base}/instances/outage/raiseEvent/go", json=1)).status_code in (202, 410)

            async def finished() -> bool:
                return (await client.get(f"{base}/instances/outage")).status_code == 200

            await until_async(accepted)
            await until_async(finished)
            await until(lambda: len(toy_log.entries("timer")) > ticks + 1)
        assert 0 == host.stop()
        assert "Traceback" not in host_log.read_text()
    finally:
        azurite.stop()
