"""The report: the pipeline in a process of its own, over the records that the app and the receivers left."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.stack.lifelines import die_with_parent
from local.stack.options import ROOT

REPORT_S_MAX = 600.0
SUMMARY_BYTES_MAX = 16 * 1024 * 1024


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


async def make_report(events: Path, out: Path, log: Callable[[str], None]) -> Report:
    command = [sys.executable, "-m", "pipeline", "report", "--events", str(events), "--out", str(out)]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=functools.partial(die_with_parent, os.getpid()),
    )
    try:
        async with asyncio.timeout(REPORT_S_MAX):
            said, _ = await process.communicate()
    except TimeoutError:
        raise ReportFailed(f"the report is not ready after {REPORT_S_MAX:g} s") from None
    finally:
        # Spark is a process of its own in the same group; after an orderly end there is nothing left to end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    lines = said.decode("utf-8", "replace").splitlines()
    for line in lines:
        log(line)
    if process.returncode:
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        raise ReportFailed(f"`python -m pipeline report` ended with code {process.returncode}: {last}")
    return read_report(out)


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
