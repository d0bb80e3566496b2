"""Batches that are sent and not settled yet: a few at a time, side by side, while the next one is taken and sent.

The service is asked about each message of each; over a distance, waiting for its answers is nearly all that a drain
takes its time for. What is sent and not settled comes again if this process dies, hence the bounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Self

from shared.bounded import give_up
from shared.domain.pair import EntityPath

#: Sent and not settled, the one that is being sent included.
BATCHES_MAX = 4
#: The bodies of those that are settled; messages can be a hundred megabytes large. However large they are, one batch is
#: settled while the next is sent.
BYTES_MAX = 16 * 2**20


class Settling:
    """Leaving it waits until all are settled, also after trouble with one of them, which is raised then."""

    def __init__(self, path: EntityPath) -> None:
        self._path = path
        self._sizes: dict[asyncio.Task[None], int] = {}
        self._error: BaseException | None = None

    @property
    def _is_full(self) -> bool:
        count = len(self._sizes)
        return count >= BATCHES_MAX or (count > 1 and sum(self._sizes.values()) >= BYTES_MAX)

    async def room(self) -> None:
        """Returns when one more batch may be sent; raises what went wrong with one that was."""
        while self._error is None and self._is_full:
            await asyncio.wait(self._sizes, return_when=asyncio.FIRST_COMPLETED)
            self._forget_ended()
        self._forget_ended()
        if self._error is not None:
            raise self._error

    async def start(self, settling: Coroutine[None, None, None], size: int) -> None:
        self._sizes[asyncio.create_task(settling, name=f"settling of {self._path}")] = size
        # It comes before whatever is done next with the same receiver: locks are running.
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while self._sizes:
                await asyncio.wait(self._sizes)
                self._forget_ended()
        finally:
            # Nobody waits for them any more: whoever waited was told to end.
            for task in self._sizes:
                give_up(task)
        if error is None and self._error is not None:
            raise self._error

    def _forget_ended(self) -> None:
        for task in [one for one in self._sizes if one.done()]:
            del self._sizes[task]
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            self._error = self._error or error
