"""Puts messages into backlog queues: one queue for each entity, another one when that fails."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

from shared.domain.envelope import transfer_properties, wrap
from shared.domain.failures import Blame, Failure
from shared.domain.message import Outgoing, outgoing
from shared.domain.pair import EntityPath, Side
from shared.domain.partitions import is_key_lane, queue_order
from shared.domain.rotation import choose_backlog
from shared.errors import BacklogExhausted, MessageTooLarge
from shared.ports import Links, SendFailed
from shared.services.lanes import Lanes
from shared.services.pair_state import PairState
from shared.services.parcels import Delivered, Flushed
from shared.services.retired import Retired
from shared.services.waiting_room import common_key

_LOGGER = logging.getLogger(__name__)

PROBE_FIRST_S = 1.0
PROBE_MAX_S = 30.0
PROBE_SECONDS_MAX = 5.0


class BacklogSender:
    def __init__(
        self,
        *,
        state: PairState,
        lanes: Lanes,
        links: Links,
        attempt_timeout: timedelta,
        rng: random.Random,
        extended: Callable[[Outgoing, Mapping[str, str]], Outgoing | None] = lambda message, extra: None,
    ) -> None:
        """`extended` is a quicker way to wrap messages that need nothing but properties added; None for all others."""
        self._state = state
        self._lanes = lanes
        self._links = links
        self._attempt_timeout_s = attempt_timeout.total_seconds()
        self._rng = rng
        self._extended = extended
        self._orders: dict[str, tuple[EntityPath, ...]] = {}
        self._retired = Retired()
        self._probing: asyncio.Task[None] | None = None

    async def send(
        self,
        path: EntityPath,
        messages: Sequence[Outgoing],
        *,
        started: float,
        deadline: float,
        lane: EntityPath | None = None,
        trace: str | None = None,
    ) -> tuple[EntityPath, Delivered]:
        """Which queue took them; BacklogExhausted when none did, SendFailed when that is nobody's fault here.

        `started`, in the loop's time, is when they were handed over: their time to live counts from then.
        """
        wrapped = self._wrapped(path, messages, started, trace)
        key = wrapped[0].key if len(wrapped) == 1 else common_key([message.key for message in wrapped])
        loop = asyncio.get_running_loop()
        indefinite = False
        last = "none is in the rotation"
        order = self._order(path if lane is None else lane)
        while loop.time() < deadline and (queue := choose_backlog(self._state.rotation, order)) is not None:
            attempt = min(deadline, loop.time() + self._attempt_timeout_s)
            try:
                delivered = await self._lanes.to(Side.SECONDARY, queue).send(wrapped, deadline=attempt, key=key)
            except SendFailed as failed:
                if failed.failure is Failure.MESSAGE_TOO_LARGE and trace is not None:
                    # Whatever a trace is worth, no message is refused for the bytes it takes.
                    trace = None
                    wrapped = self._wrapped(path, messages, started, trace)
                    continue
                self._refuse_what_is_not_the_queues_fault(path, failed)
                indefinite |= failed.indefinite
                last = f"{queue}: {failed.failure.value}: {failed.detail}"
                self._leave(queue, last)
            except Flushed as flushed:
                indefinite |= flushed.indefinite
            else:
                return queue, Delivered(possible_duplicate=True) if indefinite else delivered
        self._probe_in_background()
        text = f"No backlog queue accepted the message ({last}); send again later."
        raise BacklogExhausted(text, path=path, indefinite=indefinite)

    def _wrapped(
        self, path: EntityPath, messages: Sequence[Outgoing], started: float, trace: str | None
    ) -> list[Outgoing]:
        extra = transfer_properties(path, trace)
        wrapped = []
        for message in messages:
            quick = self._extended(message, extra)
            if quick is None:
                spent = timedelta(seconds=asyncio.get_running_loop().time() - started)
                quick = outgoing(wrap(message.read(), path, spent=spent, trace=trace))
            wrapped.append(quick)
        return wrapped

    def _order(self, path: EntityPath) -> tuple[EntityPath, ...]:
        """The entity's own random order of the queues, drawn once: it stays on the first that works."""
        if is_key_lane(path):
            return queue_order(path, self._state.rotation.queues)
        order = self._orders.get(path.lower())
        if order is None:
            queues = list(self._state.rotation.queues)
            self._rng.shuffle(queues)
            order = self._orders[path.lower()] = tuple(queues)
        return order

    def _refuse_what_is_not_the_queues_fault(self, path: EntityPath, failed: SendFailed) -> None:
        if failed.failure is Failure.MESSAGE_TOO_LARGE:
            raise MessageTooLarge(
                "The primary is unavailable, and with what the backlog has to note about it "
                f"the message is too large to wait there: {failed.detail}.",
                path=path,
            )
        if failed.failure is not Failure.ENTITY_NOT_FOUND and failed.failure.judgement.blame is not Blame.SERVICE:
            raise failed

    def _leave(self, queue: EntityPath, reason: str) -> None:
        self._state.queue_failed(queue, reason)
        lane = self._lanes.find(Side.SECONDARY, queue)
        if lane is not None:
            lane.flush()
        self._probe_in_background()

    # -- probes

    def _probe_in_background(self) -> None:
        if self._state.rotation.out and (self._probing is None or self._probing.done()):
            self._probing = asyncio.create_task(self._probe(), name="probing backlog queues")

    async def _probe(self) -> None:
        """Tries the queues that are out until none is: opening a link is enough, no message is spent on it."""
        pause = PROBE_FIRST_S
        while self._state.rotation.out:
            await asyncio.sleep(pause)
            pause = min(pause * 2, PROBE_MAX_S)
            for queue in list(self._state.rotation.out):
                if await self._works(queue):
                    self._state.queue_returned(queue)

    async def _works(self, queue: EntityPath) -> bool:
        link = self._links.to(Side.SECONDARY, queue)
        task = asyncio.create_task(_open(link.open()), name="probe")
        done, _ = await asyncio.wait([task], timeout=PROBE_SECONDS_MAX)
        if not done:
            task.cancel()
        self._retired.take(link, last_call=None if done else task)
        return bool(done) and not task.cancelled() and task.result()

    async def close(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing])
        await self._retired.settled()


async def _open(opening: Awaitable[None]) -> bool:
    try:
        await opening
    except SendFailed as failed:
        _LOGGER.debug("a backlog queue is still out: %s", failed)
        return False
    return True
