"""A broker in a process of its own that can be killed and started again on the same ports and data."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.broker import KEY

REPOSITORY = Path(__file__).resolve().parents[2]
START_S = 30.0
STOP_S = 10.0
_PORTS = re.compile(r"AMQP and HTTPS administration on port (\d+), plain administration and control on port (\d+)")


class BrokerProcess:
    """`with BrokerProcess(folder, {"orders": {}}) as broker:`; queues by name, with emulator properties."""

    def __init__(self, folder: Path, queues: dict[str, dict[str, Any]]) -> None:
        self._folder = folder
        self._ports = (0, 0)
        self._process: subprocess.Popen[str] | None = None
        config = {"Queues": [{"Name": name, "Properties": properties} for name, properties in queues.items()]}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "entities.json").write_text(
            json.dumps({"UserConfig": {"Namespaces": [{"Name": "primary", **config}]}})
        )

    @property
    def connection_string(self) -> str:
        return (
            f"Endpoint=sb://127.0.0.1:{self._ports[0]};SharedAccessKeyName=RootManageSharedAccessKey;"
            f"SharedAccessKey={KEY};UseDevelopmentEmulator=true;"
        )

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._forget()

    def start(self) -> None:
        amqp, admin = self._ports
        command = [sys.executable, "-m", "local.broker", "--namespace", f"primary:{amqp}:{admin}", "--key", KEY]
        command += ["--data", str(self._folder / "data"), "--entities", str(self._folder / "entities.json")]
        with (self._folder / "broker.log").open("a") as log:
            self._process = subprocess.Popen(
                command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True
            )
        printed = self._read_until_ready(self._process)
        found = _PORTS.search(printed)
        assert found is not None, printed
        self._ports = int(found[1]), int(found[2])

    def kill(self) -> None:
        """kill -9: no goodbye, no last write."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """How it ended."""
        assert self._process is not None
        code = self._process.wait(STOP_S)
        self._forget()
        return code

    def inject(self, **fault: object) -> None:
        url, headers = f"http://127.0.0.1:{self._ports[1]}/$faults", {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(fault).encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=STOP_S) as answer:
            assert 201 == answer.status

    def _forget(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    def _read_until_ready(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        deadline = time.monotonic() + START_S
        printed = ""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while "\nready\n" not in printed:
                left = deadline - time.monotonic()
                assert left > 0, f"the broker did not start in time:\n{printed}"
                if selector.select(left):
                    part = os.read(process.stdout.fileno(), 65536)
                    assert part, f"the broker ended:\n{printed}{(self._folder / 'broker.log').read_text()}"
                    printed += part.decode()
        return printed
