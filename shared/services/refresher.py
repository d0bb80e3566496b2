"""Keeps a view of shared state fresh for as long as it is used, in a task of its own.

It looks for changes of others now and then, and carries our own to them at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from shared.bounded import CLOSE_SECONDS_MAX, give_up

_LOGGER = logging.getLogger(__name__)

#: How long the first use waits for shared state; it goes on without after that.
FIRST_LOAD_SECONDS_MAX = 1.0
#: Unused for so long, refreshing stops until the next use.
IDLE_SECONDS = 600.0


class Refresher:
    def __init__(
        self, *, refresh: Callable[[], Awaitable[None]], save: Callable[[], Awaitable[object]], every: timedelta
    ) -> None:
        """Neither call may raise: the task is to outlive all trouble with shared state."""
        self._refresh = refresh
        self._save = save
        self._every_s = every.total_seconds()
        self._task: asyncio.Task[None] | None = None
        self._first_load = asyncio.Event()
        self._hurry = asyncio.Event()
        self._used_at = 0.0
        #: When the first load is not waited for any more.
        self._go_on_at = 0.0

    def is_fresh(self, now: float) -> bool:
        """Whether refreshing is under way and nothing is to be waited for; `now`, in the loop's time, keeps it so."""
        self._used_at = now
        return self._is_running and (self._first_load.is_set() or now >= self._go_on_at)

    @property
    def _is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def in_use(self) -> None:
        """Free of any wait, except for the first load, for which everybody waits."""
        now = asyncio.get_running_loop().time()
        if self.is_fresh(now):
            return
        is_first = not self._is_running
        if is_first:
            self._start(now)
        try:
            await asyncio.wait_for(self._first_load.wait(), max(self._go_on_at - now, 0.0))
        except TimeoutError:
            if is_first:
                _LOGGER.warning("shared state did not load within %s s; sending goes on", FIRST_LOAD_SECONDS_MAX)

    def hurry(self) -> None:
        """There is something of ours to carry to the others."""
        self._hurry.set()

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            give_up(task)
            await asyncio.wait([task], timeout=CLOSE_SECONDS_MAX)

    def _start(self, now: float) -> None:
        self._first_load.clear()
        self._go_on_at = now + FIRST_LOAD_SECONDS_MAX
        self._task = asyncio.create_task(self._keep_fresh(), name="pair state")

    async def _keep_fresh(self) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() - self._used_at < IDLE_SECONDS:
            started = loop.time()
            self._hurry.clear()
            await self._refresh()
            self._first_load.set()
            rest = self._every_s - (loop.time() - started)
            await self._wait_or_hurry(max(rest, self._every_s / 10))

    async def _wait_or_hurry(self, seconds: float) -> None:
        """Until it is time to look again, carrying changes of our own to the others as they happen."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (rest := until - loop.time()) > 0:
            try:
                await asyncio.wait_for(self._hurry.wait(), rest)
            except TimeoutError:
                return
            self._hurry.clear()
            await self._save()
