"""Time as a collaborator: the broker never reads a clock of its own.

`SystemClock` follows the running event loop; `ManualClock` moves only when told, so that lock expiry, time to live and
schedules are tested without waiting.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the Unix epoch, UTC."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Run the callback once, at or after `when`, on the broker's own thread."""
        ...


class SystemClock:
    #: A loop timer is asked for at most this far ahead; the broker looks again then. Guards against wall-clock steps.
    LONGEST_DELAY_S = 3600.0

    def now(self) -> float:
        return time.time()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        delay = min(max(0.0, when - time.time()), self.LONGEST_DELAY_S)
        return asyncio.get_running_loop().call_later(delay, callback)


class _ManualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A clock that stands still until `advance` is called, which fires what became due, in order."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._due: list[tuple[float, int, _ManualTimer]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        timer = _ManualTimer(callback)
        heapq.heappush(self._due, (when, next(self._order), timer))
        return timer

    @property
    def pending(self) -> list[float]:
        """When timers that are still set will fire."""
        return sorted(when for when, _, timer in self._due if timer.callback is not None)

    def advance(self, seconds: float) -> None:
        target = self._now + seconds
        while self._due and self._due[0][0] <= target:
            when, _, timer = heapq.heappop(self._due)
            self._now = max(self._now, when)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
        self._now = target
