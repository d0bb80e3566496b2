"""Parcels that wait in a lane, and what becomes of them."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from shared.domain.failures import Failure
from shared.domain.message import Outgoing
from shared.ports import SendFailed

#: Entries beyond which answered ones are looked for and forgotten.
FORGET_FROM = 100


class LaneFull(Exception):
    """Too many parcels are waiting already."""


class Flushed(Exception):
    """The parcel was taken back, because the lane is not to be used for now."""

    def __init__(self, *, indefinite: bool) -> None:
        super().__init__()
        #: It was tried before, without an answer.
        self.indefinite = indefinite


@dataclass(frozen=True, kw_only=True)
class Delivered:
    #: An earlier try may have arrived as well.
    possible_duplicate: bool


DELIVERED = Delivered(possible_duplicate=False)


@dataclass(eq=False, slots=True)
class Waiting:
    """Messages that travel together, and the caller's answer."""

    messages: Sequence[Outgoing]
    answer: asyncio.Future[Delivered]
    deadline: float
    #: Parcels of one key may share a transfer.
    key: Hashable = None
    #: From then on (in the loop's time) too little is left for a fair try; None: any time is good enough.
    late_from: float | None = None
    failures: int = 0
    under_way: bool = False
    indefinite: bool = False


class Deadlines:
    """One timer for all who wait: a timer of its own for each would cost as much as the rest of waiting.

    The nearest deadline sets the timer. Those who got their answer long before stay in the heap until it is their turn,
    or until there are many of them.
    """

    def __init__(self, expire: Callable[[Waiting], None]) -> None:
        self._expire = expire
        self._waiting: list[tuple[float, int, Waiting]] = []
        self._number = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._forget_at = FORGET_FROM

    def watch(self, waiting: Waiting, deadline: float) -> None:
        if len(self._waiting) >= self._forget_at:
            self._forget_answered()
        heapq.heappush(self._waiting, (deadline, next(self._number), waiting))
        if self._timer is None or deadline < self._timer_at:
            self._set(deadline)

    def _forget_answered(self) -> None:
        """Messages are not to be kept alive by a timer; doubling the mark keeps the cost of looking small."""
        self._waiting = [entry for entry in self._waiting if not entry[2].answer.done()]
        heapq.heapify(self._waiting)
        self._forget_at = max(FORGET_FROM, 2 * len(self._waiting))

    def _set(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = asyncio.get_running_loop().call_at(when, self._due)

    def _due(self) -> None:
        now = asyncio.get_running_loop().time()
        self._timer = None
        while self._waiting and (self._waiting[0][2].answer.done() or self._waiting[0][0] <= now):
            _, _, waiting = heapq.heappop(self._waiting)
            if not waiting.answer.done():
                self._expire(waiting)
        if self._waiting:
            self._set(self._waiting[0][0])

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def expire(waiting: Waiting) -> None:
    if not waiting.answer.done():
        indefinite = waiting.under_way or waiting.indefinite
        tried = waiting.under_way or waiting.failures > 0
        detail = "no answer in time" if tried else "it could not be sent in time"
        waiting.answer.set_exception(SendFailed(Failure.TIMEOUT, detail, indefinite=indefinite, tried=tried))


def fail(group: Iterable[Waiting], failed: SendFailed) -> None:
    """Each caller gets an exception of its own, with what is known of its own parcel."""
    for waiting in group:
        if not waiting.answer.done():
            failure = SendFailed(
                failed.failure,
                failed.detail,
                indefinite=failed.indefinite or waiting.indefinite,
                bytes_over=failed.bytes_over,
            )
            waiting.answer.set_exception(failure)
