"""functionTimeout for many calls at the price of one timer.

A timer per call is most of what a small call costs; so one look now and then over all running calls does instead.
A call may run over its time by a quarter of it, at most by a second.
"""

from __future__ import annotations

import asyncio

LOOK_EVERY_MAX_S = 1.0


class WatchedCall:
    """A task that is cancelled when its time is over."""

    __slots__ = ("expired", "task", "until")

    def __init__(self, task: asyncio.Task[object], until: float) -> None:
        self.task = task
        self.until = until
        self.expired = False

    def is_timeout(self) -> bool:
        """Whether the cancellation just caught was ours; then it counts as dealt with."""
        return self.expired and self.task.uncancel() <= 0


class Deadlines:
    """Cancels tasks that run longer than the limit; without a limit it does nothing."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._every_s = LOOK_EVERY_MAX_S if limit_s is None else min(LOOK_EVERY_MAX_S, limit_s / 4)
        self._calls: set[WatchedCall] = set()
        self._next: asyncio.TimerHandle | None = None

    def enter(self) -> WatchedCall | None:
        """Watch the current task from now on."""
        task = asyncio.current_task()
        if self._limit_s is None or task is None:
            return None
        loop = asyncio.get_running_loop()
        call = WatchedCall(task, loop.time() + self._limit_s)
        self._calls.add(call)
        if self._next is None:
            self._next = loop.call_later(self._every_s, self._look)
        return call

    def leave(self, call: WatchedCall | None) -> None:
        if call is not None:
            self._calls.discard(call)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for call in self._calls:
            if call.until <= now and not call.expired:
                call.expired = True
                call.task.cancel()
        self._next = loop.call_later(self._every_s, self._look) if self._calls else None
