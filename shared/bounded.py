"""Waiting for a call into an SDK, with a bound that holds.

Before Python 3.12, `asyncio.wait_for` drops a cancellation that arrives together with the result it waits for, and the
Service Bus SDK reads every frame through it. A cancelled call may therefore go on as if nothing had been said, so
`asyncio.timeout` around it is no bound, and neither is `await` after `cancel()`. Here the call has a task of its own:
whoever waits for it leaves in time, and the call is told again and again to end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

_LOGGER = logging.getLogger(__name__)

#: How often, and how many times at most, a call that was given up is told to end.
CANCEL_AGAIN_SECONDS = 0.5
CANCELS_MAX = 20
#: How often a call of many steps is looked at within the time it has for one.
LOOKS = 3
CLOSE_SECONDS_MAX = 5.0

T = TypeVar("T")


async def within(seconds: float, call: Awaitable[T]) -> T:
    """The call's result; TimeoutError when there is none in time, and the call is given up."""
    task = asyncio.ensure_future(call)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        give_up(task)
        raise
    if not done:
        give_up(task)
        raise TimeoutError
    return task.result()


async def while_it_moves(seconds: float, call: Awaitable[T], moved: Callable[[], object]) -> T:
    """The call's result, of a call of many steps; TimeoutError when nothing has moved for so long, and it is given up.

    Looking now and then costs less than a timer for each step; a third of the time may pass before the first look.
    """
    task = asyncio.ensure_future(call)
    last, looks_alike = moved(), 0
    try:
        while not task.done() and looks_alike < LOOKS:
            await asyncio.wait([task], timeout=seconds / LOOKS)
            now = moved()
            last, looks_alike = now, looks_alike + 1 if now == last else 0
    except asyncio.CancelledError:
        give_up(task)
        raise
    if not task.done():
        give_up(task)
        raise TimeoutError
    return task.result()


async def quietly(closing: Awaitable[None]) -> None:
    """Closing never holds anybody, nor does it fail: what is not closed is dropped with its connection."""
    try:
        await within(CLOSE_SECONDS_MAX, closing)
    except Exception as error:
        _LOGGER.debug("something did not close: %r", error)


def give_up(task: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more: it is to end, and what it ends with is of no interest."""
    task.add_done_callback(_forget)
    _cancel(task, CANCELS_MAX)


def _cancel(task: asyncio.Future[Any], times: int) -> None:
    if task.done():
        return
    if not times:
        _LOGGER.warning("a call that was given up does not end: %r", task)
        return
    task.cancel()
    asyncio.get_running_loop().call_later(CANCEL_AGAIN_SECONDS, _cancel, task, times - 1)


def _forget(task: asyncio.Future[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOGGER.debug("a call that was given up ended with %r", error)
