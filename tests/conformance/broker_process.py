"""A broker in a process of its own, started and stopped through its public command line."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .sdist import REPOSITORY

START_SECONDS_MAX = 20.0
STOP_SECONDS_MAX = 5.0
KEY = "conformance-key"
READY = "ready"
CONNECTION_STRING = re.compile(r"Endpoint=sb://\S+")
VARIABLE = re.compile(r"\b(REQUESTS_CA_BUNDLE|SSL_CERT_FILE|IDENTITY_ENDPOINT|IDENTITY_HEADER)=(\S+)")


class BrokerFailed(Exception):
    """The broker did not start."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """What the broker printed at its start: how to reach it, and the variables that make clients trust it."""

    connection_string: str
    environment: Mapping[str, str]

    @classmethod
    def parse(cls, printed: str) -> Address:
        found = CONNECTION_STRING.search(printed)
        if found is None:
            raise BrokerFailed(f"no connection string in what the broker printed:\n{printed}")
        return cls(connection_string=found.group(), environment=dict(VARIABLE.findall(printed)))

    @property
    def authority(self) -> str:
        return self.environment["SSL_CERT_FILE"]


class BrokerProcess:
    """`with BrokerProcess(log=...) as broker: broker.address`."""

    def __init__(self, *, log: Path, options: tuple[str, ...] = ()) -> None:
        self.log = log
        self.options = options
        self.address = Address(connection_string="", environment={})
        self._process: subprocess.Popen[str] | None = None
        self._log_file: IO[str] | None = None

    def __enter__(self) -> BrokerProcess:
        command = [sys.executable, "-m", "local.broker", "--namespace", "conformance:0:0", "--key", KEY, *self.options]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._log_file = self.log.open("w")
        self._process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=self._log_file,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            self.address = self._wait_until_ready(self._process)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if self._log_file is not None:
            self._log_file.close()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise BrokerFailed("the broker is not running")
        return self._process.pid

    @property
    def ended(self) -> str:
        """Empty while the process runs, else how it ended."""
        if self._process is None:
            return "it was stopped"
        code = self._process.poll()
        return "" if code is None else f"exit code {code}"

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> Address:
        assert process.stdout is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        printed = ""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                if not selector.select(timeout=0.2):
                    continue
                line = os.read(process.stdout.fileno(), 65536).decode()
                if not line:
                    break
                printed += line
                if READY in printed.splitlines():
                    return Address.parse(printed)
        errors = self.log.read_text()[-2000:]
        raise BrokerFailed(f"the broker did not say it is ready. It printed:\n{printed}\n{errors}")
