"""The command line; `python -m tests.conformance --help` teaches it."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import chosen, reporting, runner, sdist, suites, worker
from .reporting import Row
from .worker import CollectedTest, Verdict

DEFAULT_LANES = 8
RESULT = sdist.REPOSITORY / "build" / "conformance.json"
#: A run of a part must not pass for a whole one.
PARTIAL_RESULT = sdist.SCRATCH / "part.json"
LOGS = sdist.SCRATCH / "logs"
RUNTIME_CHECK = "tests.conformance.runtime_check"

DESCRIPTION = """\
Runs the live tests that ship with the Azure SDK's own source distribution against the embedded broker.

The distribution is downloaded once into build/conformance (nothing of it is committed). Each lane starts a
broker of its own and a pytest process in which a small plugin stands in for Azure's test tooling; tests that
talk to no service are left out, since they would pass without a broker. The tests wait in real time: a whole
run takes about 15 minutes with the default number of lanes.
"""
EXAMPLES = """\
examples:
  python -m tests.conformance                              everything; what `make conformance` does
  python -m tests.conformance --fast                       the chosen part that `make test` runs
  python -m tests.conformance --only test_sessions.py      one file
  python -m tests.conformance --only deferred --jobs 2     tests whose name holds 'deferred'
  python -m tests.conformance --list --only topic          only say which tests that would be

Results: the table below, and build/conformance.json for programs (a part of the tests writes
build/conformance/part.json instead); for failures build/conformance/failures.txt (tracebacks) and
build/conformance/logs (output of pytest and of each broker). Tests that cannot pass here are listed with
their reason in tests/conformance/known.py. The exit code is 0 only if every failure is explained there.
"""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="PATTERN", help="run tests whose file::Class::name holds this text")
    parser.add_argument(
        "--jobs", type=int, default=DEFAULT_LANES, metavar="N", help=f"lanes side by side (default {DEFAULT_LANES})"
    )
    parser.add_argument("--fast", action="store_true", help="only the chosen part, under 90 seconds")
    parser.add_argument("--list", action="store_true", help="list the tests and stop")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    return options


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run came to."""

    verdicts: tuple[Verdict, ...]
    rows: tuple[Row, ...]

    @property
    def unexpected(self) -> list[Verdict]:
        return reporting.unexpected(self.verdicts)


def select(collected: Sequence[CollectedTest], *, only: str | None, fast: bool) -> list[CollectedTest]:
    live = [test for test in collected if test.live]
    if fast:
        live = [test for test in live if chosen.is_chosen(test.node)]
    return [test for test in live if only is None or only in test.node]


def collect_all() -> list[CollectedTest]:
    files = [suite.path for suite in suites.SUITES]
    return worker.collect(tests=sdist.unpacked_tests(), files=files, logs=LOGS)


def run(selected: Sequence[CollectedTest], *, lanes: int, quiet: bool = False) -> Outcome:
    """Run these tests and write all result files but conformance.json."""
    setting = runner.Setting(tests=sdist.unpacked_tests(), logs=LOGS, lanes=lanes)
    progress = _Progress(total=len(selected), quiet=quiet)
    verdicts = runner.run(selected, setting, progress)
    reporting.write_details(verdicts, sdist.SCRATCH / "failures.txt")
    reporting.write_seconds(verdicts, sdist.SCRATCH / "seconds.json")
    return Outcome(verdicts=tuple(verdicts), rows=tuple(reporting.rows_of(verdicts)))


class _Progress:
    """One line for each test as it ends."""

    def __init__(self, *, total: int, quiet: bool) -> None:
        self._total, self._quiet = total, quiet
        self._done = 0
        self._started = time.monotonic()

    def __call__(self, verdict: Verdict) -> None:
        self._done += 1
        if self._quiet:
            return
        elapsed = time.monotonic() - self._started
        name = suites.short_name(verdict.node)
        reason = f"  {verdict.reason}" if verdict.outcome != "passed" else ""
        line = f"[{self._done:>3}/{self._total} {elapsed:5.0f} s] {verdict.outcome:<7} {verdict.seconds:6.1f} s  {name}"
        print(line + reason, flush=True)


def runtime_row() -> tuple[Row, ...]:
    """A second judge, of the app and not the broker: Microsoft's own Functions runtime, where its check is present."""
    if importlib.util.find_spec(RUNTIME_CHECK) is None:
        return ()
    try:
        result: dict[str, Any] = importlib.import_module(RUNTIME_CHECK).run()
    except Exception as error:  # whatever it is, it is reported, and the SDK's results are not lost
        reason = f"the check itself failed: {error!r}"
        return (Row(suite=RUNTIME_CHECK, passed=0, failed=1, skipped=0, reasons=(reason,)),)
    counts = {outcome: result[outcome] for outcome in reporting.OUTCOMES}
    return (Row(suite=result["suite"], reasons=tuple(str(reason) for reason in result["reasons"]), **counts),)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    try:
        selected = select(collect_all(), only=options.only, fast=options.fast)
    except sdist.SdistUnavailable as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    if options.list or not selected:
        print("\n".join(test.node for test in selected) or "no test matches")
        return 0 if selected else 2
    print(f"azure-servicebus {sdist.VERSION}: {len(selected)} live tests in {options.jobs} lanes", flush=True)
    # A terminated run cleans up after itself as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    outcome = run(selected, lanes=options.jobs)
    rows, result = outcome.rows, PARTIAL_RESULT
    if not (options.only or options.fast):
        rows, result = rows + runtime_row(), RESULT
    reporting.write(rows, result)
    return _conclude(outcome, rows, seconds=time.monotonic() - started, written_to=result)


def _conclude(outcome: Outcome, rows: Sequence[Row], *, seconds: float, written_to: Path) -> int:
    print(f"\nnot simply passed:\n{reporting.reasons(rows)}\n")
    print(reporting.table(rows))
    print(reporting.share(outcome.rows))
    for name in reporting.passing_though_listed(outcome.verdicts):
        print(f"passes although listed as known: {name}")
    others_failed = sum(row.failed for row in rows) - sum(row.failed for row in outcome.rows)
    count = len(outcome.unexpected) + others_failed
    print(f"{count} unexpected failures; {seconds:.0f} s; written to {written_to.relative_to(sdist.REPOSITORY)}")
    return 1 if count else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
