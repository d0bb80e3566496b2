"""The broker is killed and started again while a function works through a thousand messages."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from local.stack.lifelines import die_with_parent
from local.stack.ports import PortPicker
from tests.support.host_fixtures import ROOT, TOY_APP, AzuriteProcess, HostProcess, ToyLog, toy_settings, until

KEY = "key-for-tests-only"
MESSAGES = 1000


class BrokerProcess:
    """The broker on fixed ports with its data on disk, so that it can come back."""

    def __init__(self, data: Path) -> None:
        picker = PortPicker()
        self._amqp, self._admin = (picker.pick(name, 0, 0).number for name in ("amqp", "admin"))
        picker.release()
        self._data = data
        self.connection_string = (
            f"Endpoint=sb://127.0.0.1:{self._amqp};SharedAccessKeyName=RootManageSharedAccessKey;"
            f"SharedAccessKey={KEY};UseDevelopmentEmulator=true;"
        )
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "local.broker", "--namespace", f"toy:{self._amqp}:{self._admin}"]
        command += ["--entities", str(TOY_APP / "entities.json"), "--data", str(self._data), "--key", KEY]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True,
            preexec_fn=functools.partial(die_with_parent, os.getpid()),
        )  # fmt: skip
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == "ready":
                return
        raise AssertionError("the broker did not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.mark.timeout(300)
async def test_all_of_a_thousand_messages_are_handled_though_the_broker_is_killed_twice(
    tmp_path: Path, azurite: AzuriteProcess, toy_log: ToyLog
) -> None:
    broker = BrokerProcess(tmp_path / "broker")
    settings = toy_settings(toy_log, azurite.connection_string, ToyBus=broker.connection_string, TOY_QUEUE="toy-many")
    settings["AzureWebJobs.take_text.Disabled"] = "false"
    async with (
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
        client.get_queue_sender("toy-many") as sender,
    ):
        for start in range(0, MESSAGES, 100):
            await sender.send_messages([ServiceBusMessage(f"m{n}") for n in range(start, start + 100)])
    host = HostProcess(tmp_path, settings)
    try:
        for handled in (200, 600):
            await until(lambda limit=handled: len(toy_log.entries("text")) > limit, deadline_s=60)  # type: ignore[misc]
            broker.kill()
            broker.start()
        bodies = lambda: {entry["body"] for entry in toy_log.entries("text")}  # noqa: E731  # asked for repeatedly
        await until(lambda: len(bodies()) == MESSAGES, deadline_s=120)
        assert {f"m{n}" for n in range(MESSAGES)} == bodies()
        assert 0 == host.stop()
    finally:
        broker.kill()
