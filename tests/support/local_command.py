"""A command of `local` as a process of its own: its output, its children, and whether anything is left of it."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

from local.stack.lifelines import die_with_parent
from tests.support.host_fixtures import ROOT

DEADLINE_S = 60.0


class Command:
    """A running `python -m ...`, its output collected."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **(environment or {})},
            preexec_fn=functools.partial(die_with_parent, os.getpid()),
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
        self.process.stdout.close()

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def until(self, text: str) -> None:
        end = time.monotonic() + DEADLINE_S
        while text not in self.text:
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{text!r} did not come:\n{self.text}")
            time.sleep(0.02)

    def ended(self, seconds: float = DEADLINE_S) -> int:
        code = self.process.wait(seconds)
        self._reader.join(10)
        return code

    def descendants(self) -> list[int]:
        """Its children and theirs, by the kernel's own list."""
        found, open_ = [], [self.process.pid]
        while open_:
            pid = open_.pop()
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            found += [int(child) for child in children]
            open_ += [int(child) for child in children]
        return found

    def ports(self) -> list[int]:
        return [int(port) for port in re.findall(r"(?:127\.0\.0\.1|localhost):(\d+)", self.text)]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_gone(pids: list[int]) -> None:
    end = time.monotonic() + DEADLINE_S
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < end, f"still there: {[pid for pid in pids if alive(pid)]}"
        time.sleep(0.02)
