"""A lane's worker: the owner of a link.

It makes one call on its link at a time, unless it has lent it to a caller. A worker that is stuck in a transfer which
nobody waits for any more is abandoned together with its link; what it still does is without effect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Protocol

from shared.domain.failures import Failure, is_about_one_message, is_about_the_entity
from shared.ports import Link, SendFailed
from shared.services.parcels import DELIVERED, Delivered, Waiting, fail

_LOGGER = logging.getLogger(__name__)

#: Tries of one parcel where the connection failed: a link that was idle may be dead without anybody knowing.
CONNECTION_TRIES_MAX = 2
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 2.0
#: How often a lent link is looked after; a borrower is called back by so much before its deadline.
LENT_LOOK_S = 0.05
#: Looks without a borrower before looking ends.
LENT_LOOKS_UNUSED_MAX = 20


class Desk(Protocol):
    """What a worker needs of its lane."""

    refused: SendFailed | None

    def take(self, worker: Worker) -> list[Waiting]: ...

    def take_all(self) -> list[Waiting]: ...

    def put_back(self, group: Iterable[Waiting]) -> None: ...

    def expire(self, waiting: Waiting) -> None: ...

    def new_link(self) -> Link: ...

    def retire(self, link: Link, *, last_call: asyncio.Task[None] | None = None) -> None: ...

    def abandoned(self, worker: Worker) -> None: ...


class Worker:
    """Owns one link at a time and makes one call on it at a time, unless it has lent it."""

    def __init__(self, lane: Desk) -> None:
        self._lane = lane
        self._link: Link | None = None
        self._is_proven = False
        self._is_gone = False
        self._borrower: asyncio.Task[Any] | None = None
        self._lent_until = 0.0
        self._is_overdue = False
        #: How often the borrower was told to give the link back.
        self._cancels = 0
        self._looks_unused = 0
        self._look: asyncio.TimerHandle | None = None
        self._backoff_s = BACKOFF_FIRST_S
        self._breach: asyncio.TimerHandle | None = None
        self._wake: asyncio.Future[None] | None = None
        #: What the transfer under way carries, and since when, in the loop's time.
        self._group: list[Waiting] = []
        self._sending_since: float | None = None
        self._task = asyncio.create_task(self._work(), name="lane")
        self._task.add_done_callback(self._ended)

    @property
    def is_idle(self) -> bool:
        return self._wake is not None and self._borrower is None

    def wake_up(self) -> None:
        if self._wake is not None and not self._is_gone:
            self._wake.set_result(None)
            self._wake = None

    @property
    def is_overdue(self) -> bool:
        return self._is_overdue

    @property
    def seconds_under_way(self) -> float:
        """How long the transfer has been without an answer; opening a link and resting do not count."""
        return 0.0 if self._sending_since is None else asyncio.get_running_loop().time() - self._sending_since

    def give_up(self) -> None:
        """Ends the transfer under way before its time, as if that were over."""
        if self._borrower is not None:
            self._lent_until = 0.0
        elif self._group:
            self._breached(self._group)

    def lend(self, deadline: float) -> Link | None:
        """The link, if it is free and has worked before. The borrower is cancelled when it keeps it too long."""
        if self._wake is None or self._borrower is not None or not self._is_proven:
            return None
        loop = asyncio.get_running_loop()
        until, now = deadline - LENT_LOOK_S, loop.time()
        if until - now < LENT_LOOK_S:
            return None
        self._borrower, self._lent_until, self._is_overdue = asyncio.current_task(loop), until, False
        self._looks_unused = 0
        self._sending_since = now
        if self._look is None:
            self._look = loop.call_later(LENT_LOOK_S, self._look_after)
        return self._link

    def _look_after(self) -> None:
        """One timer for all borrowers, one after the other: a timer for each of them would cost more than sending."""
        loop = asyncio.get_running_loop()
        self._look = None
        if self._borrower is not None and loop.time() >= self._lent_until:
            # At every look: a call into the SDK may drop a cancellation (see shared.bounded).
            self._is_overdue = True
            self._borrower.cancel()
            self._cancels += 1
        self._looks_unused += 1
        if self._borrower is not None or self._looks_unused < LENT_LOOKS_UNUSED_MAX:
            self._look = loop.call_later(LENT_LOOK_S, self._look_after)

    def take_back(self, *, broken: bool) -> None:
        while self._cancels and self._borrower is not None:
            self._borrower.uncancel()
            self._cancels -= 1
        self._borrower = self._sending_since = None
        if broken:
            self._retire_link()

    def abandon(self) -> None:
        self._is_gone = True
        if self._look is not None:
            self._look.cancel()
        self._unwatch()
        self._task.cancel()
        self._retire_link(last_call=self._task)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._is_gone:
            group = self._lane.take(self)
            if group:
                await self._deliver(group)
            else:
                self._wake = loop.create_future()
                await self._wake

    async def _deliver(self, group: list[Waiting]) -> None:
        self._watch(group)
        try:
            link = self._link = self._link or self._lane.new_link()
            await link.open()
            # Whoever was told meanwhile that nothing was sent must be right about it.
            group = [waiting for waiting in group if not waiting.answer.done()]
            if self._is_gone or not group:
                self._unwatch()
                return
            packed = await link.pack([waiting.messages for waiting in group])
            self._lane.put_back(group[packed.taken :])
            group = group[: packed.taken]
            for index, refusal in packed.refused.items():
                fail([group[index]], refusal)
            for waiting in group:
                waiting.under_way = True
            self._group, self._sending_since = group, asyncio.get_running_loop().time()
            await link.send(packed)
        except SendFailed as failed:
            self._unwatch()
            await self._failed(group, failed)
        else:
            self._unwatch()
            self._is_proven, self._backoff_s, self._lane.refused = True, BACKOFF_FIRST_S, None
            for waiting in group:
                if not waiting.answer.done():
                    waiting.answer.set_result(Delivered(possible_duplicate=True) if waiting.indefinite else DELIVERED)

    async def _failed(self, group: list[Waiting], failed: SendFailed) -> None:
        if self._is_gone:
            return
        judgement = failed.failure.judgement
        if judgement.rebuild:
            self._retire_link()
        for waiting in group:
            waiting.under_way = False
            waiting.failures += 1
            waiting.indefinite |= failed.indefinite
        if is_about_one_message(failed.failure) and len(group) > 1:
            for waiting in group:
                if not waiting.answer.done():
                    await self._deliver([waiting])
            return
        if failed.failure is Failure.UNAUTHORIZED:
            self._lane.refused = failed
        if is_about_the_entity(failed.failure):
            # Otherwise those behind would wait for an answer that is known, and take it for a time-out.
            group = [*group, *self._lane.take_all()]
        if not judgement.retry:
            fail(group, failed)
        elif failed.failure is not Failure.BUSY:
            # Busy ends with the callers' time; a broken connection is tried again a few times only.
            fail([waiting for waiting in group if waiting.failures >= CONNECTION_TRIES_MAX], failed)
        if any(not waiting.answer.done() for waiting in group):
            self._lane.put_back(group)
            delay, self._backoff_s = self._backoff_s, min(self._backoff_s * 2, BACKOFF_MAX_S)
            await asyncio.sleep(delay)

    def _watch(self, group: list[Waiting]) -> None:
        latest = max(waiting.deadline for waiting in group)
        self._breach = asyncio.get_running_loop().call_at(latest, self._breached, group)

    def _unwatch(self) -> None:
        if self._breach is not None:
            self._breach.cancel()
            self._breach = None
        self._group, self._sending_since = [], None

    def _breached(self, group: list[Waiting]) -> None:
        for waiting in group:
            self._lane.expire(waiting)
        self.abandon()
        self._lane.abandoned(self)

    def _retire_link(self, *, last_call: asyncio.Task[None] | None = None) -> None:
        self._is_proven = False
        if self._link is not None:
            self._lane.retire(self._link, last_call=last_call)
            self._link = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOGGER.error("a lane's worker stopped; another one takes over", exc_info=error)
            self.abandon()
            self._lane.abandoned(self)
