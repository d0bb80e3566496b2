"""How much waits in each backlog queue, asked for now and then where somebody collects the figures."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from shared.domain.availability import Available
from shared.domain.pair import EntityPath
from shared.domain.syphon import as_of_now
from shared.ports import AdminFailed, AdminRefused, Clock, Instruments, QueueAdmin, QueueDepth
from shared.services.pair_state import PairState

_LOGGER = logging.getLogger(__name__)

#: Every look is an operation of the namespace for each queue.
EVERY = timedelta(minutes=1)
#: While a queue is empty and every entity available, nothing of this pair's comes to it; what others write there is
#: seen by then.
EVERY_WHEN_QUIET = timedelta(minutes=15)
LOOK_SECONDS_MAX = 10.0
#: Queues asked about at the same time.
AT_ONCE_MAX = 8


class BacklogGauge:
    def __init__(self, *, admin: QueueAdmin, state: PairState, instruments: Instruments, clock: Clock) -> None:
        self._admin = admin
        self._state = state
        self._instruments = instruments
        self._clock = clock
        self._measured_at: datetime | None = None
        #: What each queue held when it was last asked, and when that was.
        self._known: dict[EntityPath, tuple[datetime, QueueDepth]] = {}

    async def measure_if_due(self) -> None:
        now = self._clock.now()
        if self._measured_at is not None and now - self._measured_at < EVERY:
            return
        self._measured_at = now
        queues = self._state.rotation.queues
        quiet = [] if self._is_anything_out() else [queue for queue in queues if self._is_quiet(queue, now)]
        for queue in quiet:
            self._tell(queue)
        at_once = asyncio.Semaphore(AT_ONCE_MAX)
        await asyncio.gather(*(self._measure(queue, at_once) for queue in queues if queue not in quiet))

    def _is_anything_out(self) -> bool:
        watched = [*self._state.entities(), *self._state.key_lanes()]
        return any(not isinstance(availability, Available) for _, availability in watched)

    def _is_quiet(self, queue: EntityPath, now: datetime) -> bool:
        asked_at, depth = self._known.get(queue, (now, None))
        is_empty = depth is not None and not depth.active and not depth.scheduled
        return is_empty and not self._rate(queue) and now - asked_at < EVERY_WHEN_QUIET

    def _rate(self, queue: EntityPath) -> float:
        now = self._clock.now()
        return next((as_of_now(drain, now).rate for drain in self._state.drains if drain.queue == queue), 0.0)

    async def _measure(self, queue: EntityPath, at_once: asyncio.Semaphore) -> None:
        """A queue that cannot be asked has no figure, which shows."""
        async with at_once:
            try:
                async with asyncio.timeout(LOOK_SECONDS_MAX):
                    depth = await self._admin.depth(queue)
            except (AdminFailed, AdminRefused, TimeoutError) as error:
                _LOGGER.info("the depth of %s cannot be measured: %s", queue, error)
                self._known.pop(queue, None)
                return
        self._known[queue] = (self._clock.now(), depth)
        self._tell(queue)

    def _tell(self, queue: EntityPath) -> None:
        self._instruments.backlog_measured(queue, self._known[queue][1], self._rate(queue))
