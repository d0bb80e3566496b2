"""A primary namespace whose broker is a process of its own and keeps its data, to be killed and started again."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.management import ServiceBusAdministrationClient

from local.stack.lifelines import die_with_parent
from tests.support.app_process import ROOT

KEY = "a-key-for-tests-only"
PEEK_AT_ONCE = 250
STOP_SECONDS_MAX = 10


class CrashingPrimary:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self.connection_string = ""
        self.authority = ""

    def __enter__(self) -> CrashingPrimary:
        self._folder.mkdir()
        self.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.kill()

    def start(self) -> None:
        arguments = ["--namespace", f"primary:{self._port}:0", "--key", KEY, "--data", str(self._folder / "data")]
        arguments += ["--certificates", str(self._folder / "certificates")]
        with (self._folder / "broker.log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "local.broker", *arguments],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=functools.partial(die_with_parent, os.getpid()),
            )
        assert self._process.stdout is not None
        printed = ""
        for line in self._process.stdout:
            printed += line
            if "ready" in line:
                break
        found = re.search(r"Endpoint=sb://[^:;]+:(\d+)\S*", printed)
        assert found is not None, printed
        self.connection_string, self._port = found[0], int(found[1])
        trusted = re.search(r"SSL_CERT_FILE=(\S+)", printed)
        assert trusted is not None, printed
        self.authority = trusted[1]

    def kill(self) -> None:
        """kill -9: nothing of it gets the time to finish."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(STOP_SECONDS_MAX)
            if process.stdout is not None:
                process.stdout.close()

    def create(
        self,
        *,
        queues: Iterable[str] = (),
        session_queues: Iterable[str] = (),
        topics: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`topics`: each with the name of its subscription."""
        with ServiceBusAdministrationClient.from_connection_string(
            self.connection_string, connection_verify=self.authority
        ) as administration:
            for path in queues:
                administration.create_queue(path)
            for path in session_queues:
                administration.create_queue(path, requires_session=True)
            for path, subscription in topics.items():
                administration.create_topic(path)
                administration.create_subscription(path, subscription)

    async def message_ids(self, path: str) -> list[str]:
        """All that is stored, looked at through the SDK."""
        found: list[str] = []
        client = ServiceBusClient.from_connection_string(self.connection_string)
        async with client, client.get_queue_receiver(path) as receiver:
            number = 1
            while messages := await receiver.peek_messages(PEEK_AT_ONCE, sequence_number=number):
                found += [str(message.message_id) for message in messages]
                number = (messages[-1].sequence_number or 0) + 1
        return found
