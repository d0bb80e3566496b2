"""Runs tests side by side: each lane has a worker of its own and takes the next test when it is free.

The SDK's tests mostly sleep, so there can be more lanes than cores; but they also assert on time, so not many
more. A test that failed without being expected to is run once more at the end with fewer lanes, and counts by
that second run; the report says so.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .broker_process import BrokerFailed
from .known import Kind, known
from .suites import ROLE_OF_SUITE, Role, expected_seconds, files_of, suite_of
from .worker import CollectedTest, Verdict, Worker, WorkerDied

TEST_SECONDS_MAX = 600.0
RETRY_LANES_MAX = 2
WORKER_STARTS_FAILED_MAX = 3
NO_BROKER = "no broker could be started for it"

Progress = Callable[[Verdict], None]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all lanes of a run share."""

    tests: Path
    logs: Path
    lanes: int
    broker_options: tuple[str, ...] = ()
    test_seconds_max: float = TEST_SECONDS_MAX


class Backlog:
    """Tests still to run, longest first, by role; safe to take from in any lane."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Role, deque[str]] = {role: deque() for role in Role}
        for node in sorted(nodes, key=expected_seconds, reverse=True):
            self._waiting[ROLE_OF_SUITE[suite_of(node)]].append(node)

    def take(self, role: Role) -> str | None:
        with self._lock:
            waiting = self._waiting[role]
            return waiting.popleft() if waiting else None

    def clear(self) -> list[str]:
        with self._lock:
            left = [node for waiting in self._waiting.values() for node in waiting]
            for waiting in self._waiting.values():
                waiting.clear()
            return left


def run(collected: Sequence[CollectedTest], setting: Setting, progress: Progress) -> list[Verdict]:
    """Every test's verdict; those known to need Azure are not run."""
    verdicts, to_run = [], []
    for test in collected:
        reason = known(test.node)
        if reason is not None and reason.kind is Kind.NEEDS_AZURE:
            verdicts.append(Verdict(node=test.node, outcome="skipped", seconds=0.0, reason=str(reason)))
        else:
            to_run.append(test.node)
    first = _run_lanes(to_run, setting, progress, attempt="first")
    again = [verdict.node for verdict in first if verdict.outcome == "failed" and known(verdict.node) is None]
    fewer = replace(setting, lanes=min(RETRY_LANES_MAX, setting.lanes))
    second = {verdict.node: verdict for verdict in _run_lanes(again, fewer, progress, attempt="second")}
    return verdicts + [_judged(verdict, second.get(verdict.node)) for verdict in first]


def _judged(first: Verdict, second: Verdict | None) -> Verdict:
    if second is None:
        return first
    if second.outcome == "passed":
        return replace(second, attempts=2, reason=f"passed when run again; at first: {first.reason}")
    return replace(second, attempts=2)


def _run_lanes(nodes: Sequence[str], setting: Setting, progress: Progress, *, attempt: str) -> list[Verdict]:
    backlog, verdicts, lock = Backlog(nodes), list[Verdict](), threading.Lock()

    def report(verdict: Verdict) -> None:
        with lock:
            verdicts.append(verdict)
            progress(verdict)

    lanes = [
        _Lane(number=number, attempt=attempt, setting=setting, backlog=backlog, report=report)
        for number in range(min(setting.lanes, len(nodes)))
    ]
    for lane in lanes:
        lane.start()
    try:
        for lane in lanes:
            lane.join()
    except KeyboardInterrupt:
        # Leave no process behind: each lane's worker is ended, which lets the lane finish.
        backlog.clear()
        for lane in lanes:
            lane.abort()
        for lane in lanes:
            lane.join()
        raise
    for node in backlog.clear():
        report(Verdict(node=node, outcome="failed", seconds=0.0, reason=NO_BROKER))
    return verdicts


class _Lane(threading.Thread):
    def __init__(self, *, number: int, attempt: str, setting: Setting, backlog: Backlog, report: Progress) -> None:
        super().__init__(name=f"{attempt}-{number}")
        self._setting, self._backlog, self._report = setting, backlog, report
        # The first lane begins with the management tests, the others help out at the end.
        self._roles = (Role.MANAGEMENT, Role.DATA) if number == 0 else (Role.DATA, Role.MANAGEMENT)
        self._starts = 0
        self._starts_failed = 0
        self._worker: Worker | None = None

    def run(self) -> None:
        for role in self._roles:
            node = self._backlog.take(role)
            while node is not None:
                if self._starts_failed >= WORKER_STARTS_FAILED_MAX:
                    self._report_failure(node, time.monotonic(), NO_BROKER)
                    return
                node = self._work_from(node, role)

    def abort(self) -> None:
        worker = self._worker
        if worker is not None:
            worker.kill()

    def _work_from(self, node: str, role: Role) -> str | None:
        """Run this test and the next ones on a fresh worker, until it dies or nothing is left; say what is next."""
        self._starts += 1
        setting = self._setting
        worker = self._worker = Worker(
            tests=setting.tests,
            files=files_of(role),
            logs=setting.logs,
            name=f"{self.name}-{role.value}-{self._starts}",
            options=setting.broker_options,
        )
        running: str | None = node
        started = time.monotonic()
        try:
            with worker:
                while running is not None:
                    started = time.monotonic()
                    self._report(worker.run(running, seconds_max=setting.test_seconds_max))
                    running = self._backlog.take(role)
                return None
        except BrokerFailed as error:
            self._starts_failed += 1
            self._report_failure(node, started, str(error))
        except WorkerDied as error:
            self._report_failure(running or node, started, str(error))
        return self._backlog.take(role)

    def _report_failure(self, node: str, started: float, reason: str) -> None:
        seconds = time.monotonic() - started
        first_line = reason.strip().splitlines()[0]
        self._report(Verdict(node=node, outcome="failed", seconds=seconds, reason=first_line, detail=reason))
