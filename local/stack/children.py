"""Child processes: started, watched, and stopped for certain."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence

from local.stack.lifelines import die_with_parent

LINE_LIMIT_BYTES = 1024 * 1024
LAST_LINES = 5
STOP_TIMEOUT_S = 20.0


class ChildFailed(Exception):
    """A child did not start, or ended while it was needed."""


class Child:
    """One process of the stack, its output handed on line by line."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        on_line: Callable[[str, str], None],
    ) -> None:
        self.name = name
        self._command = command
        self._environment = environment
        self._on_line = on_line
        self._process: asyncio.subprocess.Process | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._last: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
        self._started = 0.0
        self.ready_after_s = 0.0

    async def start(self) -> None:
        self._started = time.monotonic()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                env=dict(self._environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=LINE_LIMIT_BYTES,
                # A session of its own: Ctrl-C in the terminal reaches us alone, and we stop the parts in order.
                start_new_session=True,
                preexec_fn=functools.partial(die_with_parent, os.getpid()),
            )
        except OSError as error:
            raise ChildFailed(f"{self.name} cannot be started: {error}") from None
        self._readers.append(asyncio.create_task(self._read()))

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                # A line above the limit: the stream has dropped it and goes on.
                continue
            if not line:
                return
            text = line.decode("utf-8", "replace").rstrip("\n")
            if text.strip():
                self._last.append(text)
            self._on_line(self.name, text)

    def mark_ready(self) -> None:
        self.ready_after_s = time.monotonic() - self._started

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def ended(self) -> str:
        """Wait for the end of the process; why it ended, in one line."""
        assert self._process is not None
        code = await self._process.wait()
        await asyncio.gather(*self._readers)
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        said = f": {self._last[-1].strip()}" if self._last else ""
        return f"{self.name} {how}{said}"

    async def stop(self) -> None:
        """Ask it to stop; make it stop."""
        if self._process is None or self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
        await asyncio.gather(*self._readers)

    def kill(self) -> None:
        """End the process and whatever it started, at once."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
