"""What has to be known about an entity of the primary besides its path, asked for in the background, once."""

from __future__ import annotations

import asyncio
import logging

from shared.domain.pair import EntityPath
from shared.ports import AdminFailed, AdminRefused, EntityAdmin

_LOGGER = logging.getLogger(__name__)

LOOK_SECONDS_MAX = 30.0
#: Entities asked about at the same time; more wait for their next send.
LOOKING_MAX = 4


class EntityFacts:
    def __init__(self, admin: EntityAdmin) -> None:
        self._admin = admin
        self._partitioned: dict[str, bool | None] = {}
        self._looking: dict[str, asyncio.Task[None]] = {}

    def is_partitioned(self, path: EntityPath) -> bool | None:
        """None for as long as it is not known; the administration API may be out of this app's rights for ever."""
        return self._partitioned.get(path.lower())

    def learn(self, path: EntityPath) -> None:
        key = path.lower()
        if key in self._partitioned or key in self._looking or len(self._looking) >= LOOKING_MAX:
            return
        task = asyncio.create_task(self._look(path), name=f"facts of {path}")
        self._looking[key] = task
        task.add_done_callback(lambda _: self._looking.pop(key, None))

    async def _look(self, path: EntityPath) -> None:
        found: bool | None = None
        try:
            async with asyncio.timeout(LOOK_SECONDS_MAX):
                found = await self._admin.is_partitioned(path)
        except (AdminFailed, AdminRefused, TimeoutError) as error:
            _LOGGER.info("whether %s is partitioned cannot be told; batches will hold one key each: %s", path, error)
        self._partitioned[path.lower()] = found

    async def close(self) -> None:
        looking = list(self._looking.values())
        for task in looking:
            task.cancel()
        if looking:
            await asyncio.wait(looking)
