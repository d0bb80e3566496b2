"""Whether a partitioned entity as a whole is out, or only some keys are: before the entity is blamed, it is asked.

Many keys may fail at once because they share a partition, or because this instance has more under way than it can
carry. A few pings with random keys tell: one that is taken clears the entity. It is asked in the background, once for
all who want to know, and whoever cannot wait goes on by what the keys are blamed for.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from datetime import timedelta

from shared.domain.availability import Event
from shared.domain.pair import EntityPath
from shared.services.pair_state import PairState
from shared.services.pings import Pings

_LOGGER = logging.getLogger(__name__)

#: Pings, each with a key of its own: with one sick partition of sixteen, the odds that all meet it are 1 to 16^4.
QUESTIONS = 4
#: Entities asked at the same time; others are asked when the next of their keys fails.
ASKING_MAX = 16


class EntityCheck:
    def __init__(self, *, state: PairState, pings: Pings, timeout: timedelta) -> None:
        self._state = state
        self._pings = pings
        self._timeout_s = timeout.total_seconds()
        self._asking: dict[str, asyncio.Task[bool]] = {}

    def blame(self, path: EntityPath, key: str, reason: str) -> EntityPath:
        """A message of this key failed. Whom that counts against; after many keys the entity is asked as well."""
        blamed = self._state.blame(path, key)
        if self._state.many_keys_failed(path):
            self._ask(path, reason)
        return blamed

    async def answers(self, path: EntityPath, reason: str, *, seconds: float) -> bool | None:
        """Whether the entity takes messages; None when that could not be told within so many seconds."""
        task = self._ask(path, reason)
        if task is None:
            return None
        done, _ = await asyncio.wait([task], timeout=max(seconds, 0.0))
        return task.result() if done else None

    def _ask(self, path: EntityPath, reason: str) -> asyncio.Task[bool] | None:
        name = path.lower()
        task = self._asking.get(name)
        if task is None and len(self._asking) < ASKING_MAX:
            task = self._asking[name] = asyncio.create_task(self._check(path, reason), name=f"asking {path}")
            task.add_done_callback(lambda _: self._asking.pop(name, None))
        return task

    async def _check(self, path: EntityPath, reason: str) -> bool:
        keys = [str(uuid.uuid4()) for _ in range(QUESTIONS)]
        if await self._pings.any_passes(path, keys, seconds=self._timeout_s):
            _LOGGER.info("%s takes messages, though many of its keys failed: %s", path, reason)
            self._state.keys_alone_failed(path)
            return True
        self._state.happened(path, Event.SEND_FAILED, reason)
        return False

    async def close(self) -> None:
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)
        await self._pings.settled()
