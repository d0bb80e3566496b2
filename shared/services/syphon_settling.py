"""Batches that are sent and not settled yet: a few at a time, side by side, while the next one is taken and sent.

The service is asked about each message of each; over a distance, waiting for its answers is nearly all that a drain
takes its time for. What is sent and not settled comes again if this process dies, hence the bounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from shared.bounded import give_up
from shared.domain.pair import EntityPath

BATCHES_MAX = 4
#: Their bodies together: messages can be a hundred megabytes large.
BYTES_MAX = 16 * 2**20


class Settling:
    def __init__(self, path: EntityPath) -> None:
        self._path = path
        self._sizes: dict[asyncio.Task[None], int] = {}
        self._error: BaseException | None = None

    async def room(self) -> None:
        """Returns when one more batch may be sent; raises what went wrong with one that was."""
        while self._error is None and (len(self._sizes) >= BATCHES_MAX or sum(self._sizes.values()) >= BYTES_MAX):
            await asyncio.wait(self._sizes, return_when=asyncio.FIRST_COMPLETED)
            self._forget_ended()
        self._forget_ended()
        if self._error is not None:
            raise self._error

    def start(self, settling: Coroutine[None, None, None], size: int) -> None:
        self._sizes[asyncio.create_task(settling, name=f"settling of {self._path}")] = size

    async def finish(self) -> None:
        """Returns when all are settled, also after trouble with one of them, which is raised then."""
        try:
            while self._sizes:
                await asyncio.wait(self._sizes)
                self._forget_ended()
        finally:
            # Nobody waits for them any more: whoever waited was told to end.
            for task in self._sizes:
                give_up(task)
        if self._error is not None:
            raise self._error

    def _forget_ended(self) -> None:
        for task in [one for one in self._sizes if one.done()]:
            del self._sizes[task]
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            self._error = self._error or error
