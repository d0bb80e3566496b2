"""Ending tasks that use the Service Bus SDK.

Before Python 3.12, `asyncio.wait_for` drops a cancellation that arrives together with the result it waits for, and the
SDK reads every frame through it: a task that was cancelled once may go on for ever. So it is told until it has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any

from local.host.errors import one_line

log = logging.getLogger(__name__)

CANCEL_AGAIN_S = 0.25


async def cancel_all(tasks: Collection[asyncio.Future[Any]], *, seconds: float) -> set[asyncio.Future[Any]]:
    """Cancels until all have ended or time is up; those that have not ended."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    left = {task for task in tasks if not task.done()}
    while left and loop.time() < until:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.info("%r ended with %s", task, one_line(error))
    return left


async def give_time(task: asyncio.Future[Any], *, seconds: float) -> None:
    """Waits for a task that nobody needs the result of, and ends it when its time is up."""
    await asyncio.wait((task,), timeout=seconds)
    await cancel_all((task,), seconds=seconds)
