"""The report: the pipeline in a process of its own, over the records that the app and the receivers left."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.stack.lifelines import die_with_parent
from local.stack.options import ROOT

#: Spark takes its time on a machine that is busy with other things.
REPORT_S_MAX = 1_800.0
SUMMARY_BYTES_MAX = 16 * 1024 * 1024
LINE_BYTES_MAX = 1024 * 1024
_PROGRESS = re.compile(r"report: +[\d.]+ s +(.+)")


class ReportFailed(Exception):
    """There is no report; one line says why."""


@dataclass(frozen=True, kw_only=True)
class Report:
    page: Path
    summary: dict[str, Any]


def require_pipeline(root: Path = ROOT) -> None:
    """Asked before anything starts, so that nobody watches an outage that cannot be reported."""
    if not (root / "pipeline" / "__main__.py").is_file():
        raise ReportFailed("the report is made by the package pipeline, which is not here; --no-report goes without it")


async def make_report(events: Path, out: Path, on_line: Callable[[str], None]) -> Report:
    """`on_line` hears every line that the pipeline says, as it says it."""
    command = [sys.executable, "-m", "pipeline", "report", "--events", str(events), "--out", str(out)]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=LINE_BYTES_MAX,
        start_new_session=True,
        preexec_fn=functools.partial(die_with_parent, os.getpid()),
    )
    try:
        async with asyncio.timeout(REPORT_S_MAX):
            last = await _heard(process, on_line)
            await process.wait()
    except TimeoutError:
        raise ReportFailed(f"the report is not ready after {REPORT_S_MAX:g} s") from None
    finally:
        # Spark is a process of its own in the same group; after an orderly end there is nothing left to end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if process.returncode:
        raise ReportFailed(f"`python -m pipeline report` ended with code {process.returncode}: {last}")
    return read_report(out)


async def _heard(process: asyncio.subprocess.Process, on_line: Callable[[str], None]) -> str:
    """The last thing it said."""
    assert process.stdout is not None
    last = "it said nothing"
    async for line in process.stdout:
        text = line.decode("utf-8", "replace").rstrip()
        on_line(text)
        last = text.strip() or last
    return last


def step_in(line: str) -> str | None:
    """What the pipeline is about, where the line tells of progress: `report:  11.2 s  table instances`."""
    found = _PROGRESS.fullmatch(line)
    return found[1] if found else None


def read_report(out: Path) -> Report:
    page, file = out / "report.html", out / "summary.json"
    try:
        if file.stat().st_size > SUMMARY_BYTES_MAX:
            raise ReportFailed(f"{file} is larger than {SUMMARY_BYTES_MAX} bytes")
        summary = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReportFailed(f"the report's {file} cannot be read: {error}") from None
    if not isinstance(summary, dict):
        raise ReportFailed(f"the report's {file} is not a JSON object")
    if not page.is_file():
        raise ReportFailed(f"the report made no {page}")
    return Report(page=page, summary=summary)
