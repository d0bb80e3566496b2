"""Links that are of no use any more, closed off every caller's time."""

from __future__ import annotations

import asyncio
from typing import Any

from shared.bounded import CLOSE_SECONDS_MAX, quietly
from shared.ports import Closable

#: Links being closed at once; beyond that the oldest is dropped unclosed, which the operating system survives.
CLOSING_MAX = 32


class Retired:
    """Closes links in the background: a hung one takes its time without anybody waiting for it."""

    def __init__(self) -> None:
        self._closing: dict[asyncio.Task[None], None] = {}

    def take(self, link: Closable, *, last_call: asyncio.Task[Any] | None = None) -> None:
        """`last_call` is a cancelled call that still uses the link; the link is closed after it."""
        if len(self._closing) >= CLOSING_MAX:
            next(iter(self._closing)).cancel()
        task = asyncio.create_task(_close(link, last_call), name="closing a link")
        self._closing[task] = None
        task.add_done_callback(lambda done: self._closing.pop(done, None))

    async def settled(self) -> None:
        """Returns when everything taken so far is closed or given up; for the end of a program."""
        if self._closing:
            await asyncio.wait(list(self._closing), timeout=CLOSE_SECONDS_MAX * 2)


async def _close(link: Closable, last_call: asyncio.Task[Any] | None) -> None:
    if last_call is not None:
        await asyncio.wait([last_call], timeout=CLOSE_SECONDS_MAX)
    await quietly(link.close())
