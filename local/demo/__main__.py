"""`python -m local.demo`: a rehearsed outage with one live picture, and a verdict at the end."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from local.demo.app_client import CallFailed
from local.demo.audit import AuditFailed
from local.demo.figures import Outcome
from local.demo.options import DemoOptions, parse_options
from local.demo.picture import as_svg
from local.demo.rehearsal import Rehearsal
from local.demo.report import Report, ReportFailed, make_report, require_pipeline, step_in
from local.demo.verdict import as_json, judge
from local.demo.view import View, view_for
from local.host.errors import HostError
from local.stack.azurite import AzuriteMissing
from local.stack.children import ChildFailed
from local.stack.ports import PortTaken
from local.stack.stack import StackError

EXACT, NOT_EXACT, STOPPED = 0, 1, 130
#: What is said in one line; anything else is a mistake of ours and keeps its traceback.
EXPECTED = (
    StackError, ChildFailed, PortTaken, AzuriteMissing, HostError, CallFailed, AuditFailed, ReportFailed,
)  # fmt: skip


class InUse(Exception):
    """Another demo writes to the same folder."""


def main(arguments: list[str]) -> int:
    options = parse_options(arguments)
    try:
        if options.with_report:
            require_pipeline()
        with own_folder(options) as log:
            return asyncio.run(run(options, log))
    except (InUse, *EXPECTED) as error:
        print(f"demo: {error}", file=sys.stderr)
        return NOT_EXACT


@contextmanager
def own_folder(options: DemoOptions) -> Iterator[TextIO]:
    """Emptied at the start, so that results are of this run; one demo at a time."""
    options.folder.mkdir(parents=True, exist_ok=True)
    with (options.folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"another demo uses {options.folder}; wait for it, or choose --out") from None
        (options.out / "demo.json").unlink(missing_ok=True)
        for name in ("data", "telemetry", "report"):
            shutil.rmtree(options.folder / name, ignore_errors=True)
        with (options.folder / "demo.log").open("w", encoding="utf-8", buffering=1) as log:
            handler = logging.StreamHandler(log)
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
            logging.basicConfig(level=logging.WARNING, handlers=[handler])
            logging.getLogger("local.demo").setLevel(logging.INFO)
            yield log


async def run(options: DemoOptions, log: TextIO) -> int:
    """The first signal stops everything in order, the second at once."""
    title = f"paired namespaces, a rehearsed outage: {options.fault}"
    view = view_for(sys.stdout, title)
    rehearsal = Rehearsal(options, view, log)
    playing = asyncio.ensure_future(play(options, rehearsal, view, log))
    signals: list[int] = []

    def on_signal(number: int) -> None:
        signals.append(number)
        if len(signals) > 1:
            rehearsal.kill()
        playing.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal, number)
    keep = options.keep
    try:
        outcome = await playing
        keep |= not outcome.verdict.is_exact
        view.verdict(outcome)
        if options.picture is not None and rehearsal.at_the_end_of_the_outage is not None:
            options.picture.write_text(as_svg(rehearsal.at_the_end_of_the_outage, outcome, title), encoding="utf-8")
        return EXACT if outcome.verdict.is_exact else NOT_EXACT
    except asyncio.CancelledError:
        print("demo: stopped; nothing runs any more", file=sys.stderr)
        return STOPPED
    except BaseExceptionGroup as group:
        keep = True
        raise first_of(group) from None
    finally:
        view.close()
        if not keep:
            shutil.rmtree(options.folder / "data", ignore_errors=True)


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first; the rest of a group followed from it."""
    inner = group.exceptions[0]
    return first_of(inner) if isinstance(inner, BaseExceptionGroup) else inner


async def play(options: DemoOptions, rehearsal: Rehearsal, view: View, log: TextIO) -> Outcome:
    try:
        await rehearsal.run()
        report = await reported(options, rehearsal, view, log) if options.with_report else None
        rehearsal.board.reported = 1.0
        view.show(rehearsal.board.snapshot(asyncio.get_running_loop().time()))
    finally:
        view.close()
    summary = None if report is None else report.summary
    totals = rehearsal.ledger.totals()
    verdict = judge(totals, summary)
    results = options.out / "demo.json"
    about = {
        "fault": options.fault,
        "seed": options.seed,
        "rate": options.rate,
        "duration_s": options.schedule.duration_s,
        "outage_s": options.schedule.outage_s,
        "report": None if report is None else str(report.page),
    }
    write_json(results, as_json(totals, verdict, about))
    return Outcome(
        totals=totals,
        verdict=verdict,
        summary=summary,
        page=None if report is None else report.page,
        results=results,
    )


async def reported(options: DemoOptions, rehearsal: Rehearsal, view: View, log: TextIO) -> Report:
    def on_line(line: str) -> None:
        print(line, file=log)
        if (step := step_in(line)) is not None:
            rehearsal.board.step()
            rehearsal.say(f"report: {step}")
            view.show(rehearsal.board.snapshot(asyncio.get_running_loop().time()))

    rehearsal.say("Spark follows every message through the records")
    view.show(rehearsal.board.snapshot(asyncio.get_running_loop().time()))
    return await make_report(rehearsal.telemetry, options.folder / "report", on_line)


def write_json(path: Path, content: dict[str, object]) -> None:
    """Whole or not at all."""
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    os.replace(draft, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
