"""How much waits in each backlog queue, asked for now and then where somebody collects the figures."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from shared.domain.pair import EntityPath
from shared.ports import AdminFailed, AdminRefused, Clock, Instruments, QueueAdmin
from shared.services.pair_state import PairState

_LOGGER = logging.getLogger(__name__)

#: Every look is an operation of the namespace for each queue.
EVERY = timedelta(minutes=1)
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

    async def measure_if_due(self) -> None:
        now = self._clock.now()
        if self._measured_at is not None and now - self._measured_at < EVERY:
            return
        self._measured_at = now
        at_once = asyncio.Semaphore(AT_ONCE_MAX)
        await asyncio.gather(*(self._measure(queue, at_once) for queue in self._state.rotation.queues))

    async def _measure(self, queue: EntityPath, at_once: asyncio.Semaphore) -> None:
        """A queue that cannot be asked has no figure, which shows."""
        async with at_once:
            try:
                async with asyncio.timeout(LOOK_SECONDS_MAX):
                    depth = await self._admin.depth(queue)
            except (AdminFailed, AdminRefused, TimeoutError) as error:
                _LOGGER.info("the depth of %s cannot be measured: %s", queue, error)
                return
        rate = next((drain.rate for drain in self._state.drains if drain.queue == queue), 0.0)
        self._instruments.backlog_measured(queue, depth, rate)
