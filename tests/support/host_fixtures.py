"""Azurite, hosts and toy apps for tests of the local host."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from local.host.host import HostOptions
from local.host.storage import development_connection_string
from local.stack.azurite import azurite_command
from local.stack.lifelines import die_with_parent
from local.stack.ports import PortPicker

ROOT = Path(__file__).resolve().parents[2]
TOY_APP = ROOT / "tests" / "support" / "host_apps" / "toy"
DEADLINE_S = 30.0
POLL_S = 0.02
START_TIMEOUT_S = 30.0
START_TRIES_MAX = 3

T = TypeVar("T")


async def until(check: Callable[[], T], *, deadline_s: float = DEADLINE_S) -> T:
    """Poll a condition; its first true value."""
    end = time.monotonic() + deadline_s
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {check}")
        await asyncio.sleep(POLL_S)


async def until_async(check: Callable[[], Awaitable[T]], *, deadline_s: float = DEADLINE_S) -> T:
    """The same for a condition that must be awaited."""
    end = time.monotonic() + deadline_s
    while True:
        value = await check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {check}")
        await asyncio.sleep(POLL_S)


class AzuriteProcess:
    """A storage emulator of its own, on free ports, gone with the test run."""

    def __init__(self, location: Path) -> None:
        for tries_left in reversed(range(START_TRIES_MAX)):
            picker = PortPicker()
            blob, queue, table = (picker.pick(name, 0, 0).number for name in ("blob", "queue", "table"))
            picker.release()
            self.connection_string = development_connection_string(blob, queue, table)
            self.table_port = table
            self._command = azurite_command(ROOT, location=location, blob=blob, queue=queue, table=table)
            try:
                self.start()
                return
            except AssertionError:
                # Somebody else may have taken a port between our looking and Azurite's listening: it ends then.
                if self._process.poll() is None or not tries_left:
                    self.stop()
                    raise

    def start(self) -> None:
        """Start, or start again with the same data."""
        self._process = subprocess.Popen(
            self._command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=functools.partial(die_with_parent, os.getpid()),
        )
        wait_for_port(self.table_port, gives_up=lambda: self._process.poll() is not None)

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def wait_for_port(
    port: int, timeout_s: float = START_TIMEOUT_S, *, gives_up: Callable[[], bool] = lambda: False
) -> None:
    end = time.monotonic() + timeout_s
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if gives_up() or time.monotonic() > end:
                raise AssertionError(f"nothing listens on port {port}") from None
            time.sleep(POLL_S)


class ToyLog:
    """What the toy app's functions noted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def entries(self, kind: str | None = None) -> list[dict[str, Any]]:
        lines = self.path.read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines]
        return [entry for entry in found if kind is None or entry["kind"] == kind]


def toy_settings(log: ToyLog, storage: str, **more: str) -> dict[str, str]:
    """Settings that make the toy app run, with everything but HTTP and durable switched off."""
    off = {
        f"AzureWebJobs.{name}.Disabled": "true"
        for name in (
            "every_second", "take_text", "take_binary", "take_batch", "take_session", "take_subscription",
            "take_and_leave", "take_dead", "take_nothing",
        )
    }  # fmt: skip
    base = {"TOY_LOG": str(log.path), "AzureWebJobsStorage": storage, "TOY_SCHEDULE": "00:00:01", "TOY_QUEUE": "toy"}
    return {**off, **base, **more}


def toy_app(tmp_path: Path, **host_json: Any) -> Path:
    """A copy of the toy app with a task hub of its own, so that tests do not meet in storage."""
    app = tmp_path / "toy"
    if not app.exists():
        app.mkdir()
        shutil.copy(TOY_APP / "function_app.py", app)
        config = json.loads((TOY_APP / "host.json").read_text(encoding="utf-8"))
        config["extensions"]["durableTask"]["hubName"] = f"Toy{secrets.token_hex(8)}"
        config.update(host_json)
        (app / "host.json").write_text(json.dumps(config), encoding="utf-8")
    return app


def toy_options(tmp_path: Path, settings: Mapping[str, str], app: Path = TOY_APP) -> HostOptions:
    return HostOptions(directory=app, port=0, keys_file=tmp_path / "keys.json", overrides=dict(settings))


class HostProcess:
    """The host as a process, to be killed."""

    def __init__(
        self,
        tmp_path: Path,
        settings: Mapping[str, str],
        app: Path = TOY_APP,
        port: int = 0,
        more: Sequence[str] = (),
    ) -> None:
        arguments = [sys.executable, "-m", "local.host", "--app", str(app), "--port", str(port), *more]
        arguments += ["--keys", str(tmp_path / "keys.json")]
        for name, value in settings.items():
            arguments += ["--set", f"{name}={value}"]
        self.log = (tmp_path / "host.log").open("a", encoding="utf-8")
        self._process = subprocess.Popen(
            arguments,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            preexec_fn=functools.partial(die_with_parent, os.getpid()),
        )
        self.address = self._read_address()

    def _read_address(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("READY "):
            self._process.wait(10)
            raise AssertionError(f"the host did not start: {line!r}; see {self.log.name}")
        return line.split()[1]

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._wait()

    def reap(self) -> None:
        """Take note of a process that has ended by itself."""
        self._wait()

    def stop(self, timeout_s: float = 30) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._wait(timeout_s)

    def _wait(self, timeout_s: float = 30) -> int:
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()
            self.log.close()
        return code


def get(url: str) -> tuple[int, bytes]:
    """A plain request without any client library."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.status, answer.read()
