"""Pings the entities that are unavailable, and says so to everybody when one takes messages again."""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared.domain.availability import Event, Unavailable
from shared.domain.failures import Failure
from shared.domain.pair import EntityPath
from shared.domain.ping import PARTITION_PINGS, Pinged, after_ping, has_recovered, is_due, ping_deadline
from shared.domain.syphon import may_work
from shared.errors import PairingError
from shared.ports import Clock, StorageTrouble, Telemetry
from shared.services.entity_facts import EntityFacts
from shared.services.key_returns import KeyReturns
from shared.services.pair_state import PairState
from shared.services.pings import PingFailed, Pings
from shared.telemetry_events import Pinged as PingRecorded

_LOGGER = logging.getLogger(__name__)

#: Entities pinged at the same time.
AT_ONCE_MAX = 16
#: How long a round may begin pings of entities; the next one goes on with those that waited longest.
ROUND_SECONDS_MAX = 60.0
#: How long a ping waits to be told whether the entity is partitioned, and so which pings it takes.
FACTS_SECONDS_MAX = 5.0
RECOVERED = "ping succeeded"
NO_SUCH_ENTITY = "the primary answers, and has no such entity"
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class PingOptions:
    interval: timedelta
    attempt_timeout: timedelta
    partitioned_attempt_timeout: timedelta
    #: In a row, before the entity counts as available.
    successes_needed: int = 1
    #: Whether all partitions of a partitioned entity must answer.
    all_partitions: bool = True


class Pinger:
    def __init__(
        self,
        *,
        options: PingOptions,
        state: PairState,
        pings: Pings,
        facts: EntityFacts,
        clock: Clock,
        telemetry: Telemetry,
        keys: KeyReturns | None = None,
    ) -> None:
        self._keys = keys
        self._keys_tended: Pinged | None = None
        self._options = options
        self._state = state
        self._pings = pings
        self._facts = facts
        self._clock = clock
        self._telemetry = telemetry
        self._pinged: dict[str, Pinged] = {}

    async def ping_what_is_due(self) -> list[EntityPath]:
        """One round; the entities that came back. Nothing is sent while a side is closed or faulted."""
        await self._state.refresh()
        if not may_work(self._state.factories):
            return []
        out = [path for path, state in self._state.entities() if isinstance(state, Unavailable)]
        self._pinged = {path.lower(): self._pinged[path.lower()] for path in out if path.lower() in self._pinged}
        now = self._clock.now()
        due = [path for path in out if is_due(self._pinged.get(path.lower()), now=now, interval=self._options.interval)]
        due.sort(key=lambda path: self._last_pinged(path) or NEVER)
        at_once, until = asyncio.Semaphore(AT_ONCE_MAX), asyncio.get_running_loop().time() + ROUND_SECONDS_MAX
        back = await asyncio.gather(*(self._ping(path, at_once, until) for path in due))
        await self._tend_keys(now)
        return [path for path, recovered in zip(due, back, strict=True) if recovered]

    def _last_pinged(self, path: EntityPath) -> datetime | None:
        pinged = self._pinged.get(path.lower())
        return None if pinged is None else pinged.at

    async def _tend_keys(self, now: datetime) -> None:
        """Keys of partitioned entities, as often as entities."""
        if self._keys is None or not is_due(self._keys_tended, now=now, interval=self._options.interval):
            return
        self._keys_tended = Pinged(at=now)
        for lane in await self._keys.tend():
            _LOGGER.info("%s is on its way to the primary again", lane)
        await self._state.refresh()

    async def _ping(self, path: EntityPath, at_once: asyncio.Semaphore, until: float) -> bool:
        async with at_once:
            started, now = asyncio.get_running_loop().time(), self._clock.now()
            if started >= until:
                return False
            pings, problem = await self._try(path)
            seconds = asyncio.get_running_loop().time() - started
        # That there is no such entity is an answer, and the outage over, unless it has taken messages before.
        is_unknown = problem is not None and problem.failure is Failure.ENTITY_NOT_FOUND
        answers = problem is None or (is_unknown and not self._state.has_accepted(path))
        pinged = after_ping(self._pinged.get(path.lower()), succeeded=answers, now=now)
        self._pinged[path.lower()] = pinged
        self._telemetry.emit(
            PingRecorded(
                at=self._clock.now(),
                path=path,
                succeeded=problem is None,
                detail=problem.detail if problem else "",
                seconds=seconds,
                pings=pings,
            )
        )
        if problem is not None:
            _LOGGER.info("ping of %s failed: %s", path, problem.detail)
        if not has_recovered(pinged, successes_needed=self._options.successes_needed):
            return False
        event = Event.PING_SUCCEEDED if problem is None else Event.ENTITY_UNKNOWN
        return await self._share(path, event, RECOVERED if problem is None else NO_SUCH_ENTITY)

    async def _share(self, path: EntityPath, event: Event, reason: str) -> bool:
        """Everybody's word at once; where shared state cannot be reached, the next round tries again."""
        try:
            await self._state.mark(path, event, reason)
        except (StorageTrouble, PairingError) as error:
            _LOGGER.warning("%s is back, but shared state does not have it yet: %s", path, error)
        self._pinged.pop(path.lower(), None)
        return True

    async def _try(self, path: EntityPath) -> tuple[int, PingFailed | None]:
        """How many pings, and what was wrong, if anything; never longer than pinging may take.

        One goes ahead: while the entity is out, that is all it costs, and nothing is waited for. As long as nobody can
        tell, an entity that answers is pinged as a partitioned one: a plain one then gets more pings than it needs,
        once.
        """
        options = self._options
        self._facts.learn(path)
        partitioned_s = options.partitioned_attempt_timeout.total_seconds()
        plain_s = ping_deadline(options.attempt_timeout, options.interval).total_seconds()
        first_s = partitioned_s if self._facts.is_partitioned(path) else plain_s
        problem = await self._pings.all_pass(path, [str(uuid.uuid4())], seconds=first_s)
        if problem is not None or not options.all_partitions:
            return 1, problem
        await self._facts.learnt(path, seconds=FACTS_SECONDS_MAX)
        if not self._facts.may_be_partitioned(path):
            return 1, None
        rest = [str(uuid.uuid4()) for _ in range(PARTITION_PINGS - 1)]
        return PARTITION_PINGS, await self._pings.all_pass(path, rest, seconds=partitioned_s)

    async def close(self) -> None:
        if self._keys is not None:
            await self._keys.close()
        await self._pings.settled()
