"""Pairing: the backlog queues exist, or it is known which do not and why."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from shared.domain.backlog import BacklogQueueDescription, backlog_queue_paths
from shared.domain.pair import EntityPath, Pair
from shared.errors import PairingFailed
from shared.ports import (
    AdminFailed,
    AdminRefused,
    Clock,
    PairingRecord,
    QueueAdmin,
    QueueFacts,
    StateStore,
    StorageTrouble,
)
from shared.services.pair_state import PairState

_LOGGER = logging.getLogger(__name__)

#: Queues looked at or created at the same time.
AT_ONCE_MAX = 8
QUEUE_SECONDS_MAX = 30.0
#: Tries of an instance to pair, and the pauses between them, which grow.
TRIES_MAX = 50
PAUSE_FIRST_S = 5.0
PAUSE_MAX_S = 300.0


@dataclass(frozen=True, kw_only=True)
class Paired:
    queues: tuple[EntityPath, ...]
    created: tuple[EntityPath, ...]
    left_out: dict[EntityPath, str]
    warnings: tuple[str, ...]


class Pairing:
    def __init__(
        self,
        *,
        pair: Pair,
        count: int,
        admin: QueueAdmin,
        store: StateStore,
        state: PairState,
        clock: Clock,
        partitioned: bool = False,
    ) -> None:
        self._pair = pair
        self._partitioned = partitioned
        self._count = count
        self._admin = admin
        self._store = store
        self._state = state
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start_if_needed(self) -> None:
        """Pairs in the background, at the start of an instance, unless shared state says that it was done."""
        if self._task is None:
            self._task = asyncio.create_task(self._start(), name="pairing")

    async def _start(self) -> None:
        """Tries again while a queue is missing: a secondary that was down at the start is needed all the same."""
        pause = PAUSE_FIRST_S
        for _ in range(TRIES_MAX):
            try:
                await self._state.in_use()
                if not self.is_needed:
                    return
                await self.pair()
            except PairingFailed as error:
                _LOGGER.error("the pair cannot divert messages before this is corrected: %s", error)
                if isinstance(error.__cause__, AdminRefused):
                    return
            except Exception:
                _LOGGER.exception("pairing failed in a way nobody foresaw")
            if not self.is_needed:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX_S)
        _LOGGER.error("pairing is given up after %s tries; POST /api/pair tries again", TRIES_MAX)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @property
    def has_given_up(self) -> bool:
        """Whether this instance does not try any more, though queues are missing; POST /api/pair does."""
        return self._task is not None and self._task.done() and self.is_needed

    @property
    def is_needed(self) -> bool:
        """Whether shared state says that every queue in use was there when somebody last looked."""
        known = self._state.pairing
        return known is None or not set(backlog_queue_paths(self._pair.primary, self._count)) <= set(known.queues)

    async def pair(self) -> Paired:
        """Looks first and creates what is missing; never alters or deletes. Any number of callers at once is fine."""
        paths = backlog_queue_paths(self._pair.primary, self._count)
        at_once = asyncio.Semaphore(AT_ONCE_MAX)
        looks = [asyncio.create_task(self._ensure(path, at_once)) for path in paths]
        try:
            results = await asyncio.gather(*looks)
        except AdminRefused as error:
            raise PairingFailed(
                f"The secondary namespace refused the app's credentials: {error}", pair=self._pair.name
            ) from error
        finally:
            for look in looks:
                look.cancel()
        found = {path: result for path, result in zip(paths, results, strict=True) if not isinstance(result, str)}
        left_out = {path: result for path, result in zip(paths, results, strict=True) if isinstance(result, str)}
        if not found:
            reason = next(iter(left_out.values()))
            raise PairingFailed(f"Not one backlog queue could be created: {reason}", pair=self._pair.name)
        paired = Paired(
            queues=tuple(found),
            created=tuple(path for path, (_, created) in found.items() if created),
            left_out=left_out,
            warnings=(
                *(f"{path}: {text}" for path, (facts, _) in found.items() for text in self._differences(facts)),
                *(f"{path} is left out: {reason}" for path, reason in left_out.items()),
            ),
        )
        await self._remember(paired)
        return paired

    def _differences(self, facts: QueueFacts) -> tuple[str, ...]:
        if facts.is_partitioned == self._partitioned:
            return facts.differences
        return (*facts.differences, f"enable_partitioning is {facts.is_partitioned}, not {self._partitioned}")

    async def _ensure(self, path: EntityPath, at_once: asyncio.Semaphore) -> tuple[QueueFacts, bool] | str:
        """The queue and whether it is new, or why it cannot be had."""
        async with at_once:
            try:
                async with asyncio.timeout(QUEUE_SECONDS_MAX):
                    found = await self._admin.find(path)
                    if found is not None:
                        return found, False
                    description = BacklogQueueDescription(enable_partitioning=self._partitioned)
                    return await self._admin.create(path, description), True
            except AdminFailed as error:
                return str(error)
            except TimeoutError:
                return f"no answer within {QUEUE_SECONDS_MAX:g} s"

    async def _remember(self, paired: Paired) -> None:
        for warning in paired.warnings:
            _LOGGER.warning("pairing: %s", warning)
        for queue in paired.created:
            _LOGGER.info("pairing: created %s", queue)
            self._state.queue_returned(queue)
        for queue, reason in paired.left_out.items():
            self._state.queue_failed(queue, reason)
        record = PairingRecord(queues=paired.queues, at=self._clock.now(), warnings=paired.warnings)
        self._state.pairing = record
        try:
            await self._store.save_pairing(record)
        except StorageTrouble as error:
            # The queues are there all the same; the next instance looks again, which is harmless.
            _LOGGER.warning("pairing could not be recorded in shared state: %s", error)
