"""A worker: one broker process and one pytest process that runs the tests it is told to, one by one."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

from .broker_process import BrokerProcess
from .sdist import REPOSITORY

COLLECT_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 10.0
CHANNEL_VARIABLE = "CONFORMANCE_CHANNEL"
CONNECTION_STRING_VARIABLE = "CONFORMANCE_CONNECTION_STRING"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How one test ended."""

    node: str
    outcome: str
    seconds: float
    reason: str = ""
    detail: str = ""
    attempts: int = 1


@dataclass(frozen=True, kw_only=True)
class CollectedTest:
    node: str
    live: bool


class WorkerDied(Exception):
    """The pytest process ended or stopped answering."""


class PytestProcess:
    """pytest over some of the SDK's files, driven through a channel; see `shim/plugin.py` for the other end."""

    def __init__(self, *, tests: Path, files: Sequence[str], log: Path) -> None:
        self._tests = tests
        self._files = files
        self._log = log
        #: What the pytest process sees on top of this one's environment.
        self.environment: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._log_file: IO[bytes] | None = None
        self.collected: list[CollectedTest] = []

    def __enter__(self) -> PytestProcess:
        ours, theirs = multiprocessing.Pipe()
        self._channel: Connection = ours
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._log_file = self._log.open("wb")
        environment = {**os.environ, **self.environment, CHANNEL_VARIABLE: str(theirs.fileno())}
        environment["PYTHONPATH"] = str(REPOSITORY)
        environment.pop("PYTEST_ADDOPTS", None)
        self._process = subprocess.Popen(
            self._command(),
            cwd=self._tests,
            stdin=subprocess.DEVNULL,
            stdout=self._log_file,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs.fileno()],
            env=environment,
        )
        theirs.close()
        try:
            collected = self._receive(COLLECT_SECONDS_MAX)
        except BaseException:
            self.__exit__()
            raise
        assert isinstance(collected, list)
        self.collected = [CollectedTest(node=node, live=live) for node, live in collected]
        return self

    def _command(self) -> list[str]:
        settings = str(REPOSITORY / "tests" / "conformance" / "shim" / "worker.ini")
        plugins = ("tests.conformance.shim.plugin", "no:cacheprovider", "no:timeout", "no:xdist")
        loaded = [argument for plugin in plugins for argument in ("-p", plugin)]
        return [sys.executable, "-m", "pytest", "-q", "-c", settings, "--rootdir", ".", *loaded, *self._files]

    def run(self, node: str, *, seconds_max: float) -> Verdict:
        started = time.monotonic()
        try:
            self._channel.send(node)
            answer = self._receive(seconds_max)
        except OSError as error:
            raise WorkerDied(f"the pytest process is gone ({error!r})") from error
        assert isinstance(answer, dict)
        return Verdict(node=node, **{**answer, "seconds": time.monotonic() - started})

    def kill(self) -> None:
        process = self._process
        if process is not None:
            process.kill()

    def _receive(self, seconds_max: float) -> object:
        if not self._channel.poll(seconds_max):
            raise WorkerDied(f"no answer after {seconds_max:.0f} s")
        try:
            answer: object = self._channel.recv()
        except EOFError:
            ending = self._log.read_text(errors="replace")[-1500:]
            raise WorkerDied(f"the pytest process ended:\n{ending}") from None
        return answer

    def __exit__(self, *problem: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            try:
                self._channel.send(None)
                process.wait(STOP_SECONDS_MAX)
            except (OSError, subprocess.TimeoutExpired):
                process.kill()
                process.wait()
        self._channel.close()
        if self._log_file is not None:
            self._log_file.close()


class Worker:
    """A pytest process and the broker it talks to, both fresh."""

    def __init__(self, *, tests: Path, files: Sequence[str], logs: Path, name: str, options: tuple[str, ...]) -> None:
        self._broker = BrokerProcess(log=logs / f"{name}.broker.log", options=options)
        self._pytest = PytestProcess(tests=tests, files=files, log=logs / f"{name}.pytest.log")

    def __enter__(self) -> Worker:
        address = self._broker.__enter__().address
        self._pytest.environment = {**address.environment, CONNECTION_STRING_VARIABLE: address.connection_string}
        try:
            self._pytest.__enter__()
        except BaseException:
            self._broker.__exit__()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        try:
            self._pytest.__exit__()
        finally:
            self._broker.__exit__()

    def kill(self) -> None:
        """End the pytest process at once, from another thread; whoever waits for it is told that it is gone."""
        self._pytest.kill()

    def run(self, node: str, *, seconds_max: float) -> Verdict:
        verdict = self._pytest.run(node, seconds_max=seconds_max)
        if ended := self._broker.ended:
            raise WorkerDied(f"the broker process ended: {ended}")
        return verdict


def collect(*, tests: Path, files: Sequence[str], logs: Path) -> list[CollectedTest]:
    """All tests of these files; needs no broker."""
    with PytestProcess(tests=tests, files=files, log=logs / "collect.log") as pytest_process:
        return pytest_process.collected
