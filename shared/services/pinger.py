"""Pings the entities that are unavailable, and says so to everybody when one takes messages again."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.domain.availability import Event, Unavailable
from shared.domain.message import outgoing
from shared.domain.pair import EntityPath, Side
from shared.domain.ping import (
    PARTITION_PINGS,
    Pinged,
    after_ping,
    has_recovered,
    is_due,
    ping_deadline,
    ping_message,
)
from shared.domain.syphon import may_work
from shared.errors import PairingError
from shared.ports import Clock, Link, Links, SendFailed, StorageTrouble, Telemetry
from shared.services.entity_facts import EntityFacts
from shared.services.key_returns import KeyReturns
from shared.services.pair_state import PairState
from shared.services.retired import Retired
from shared.telemetry_events import Pinged as PingRecorded

_LOGGER = logging.getLogger(__name__)

#: Entities pinged at the same time.
AT_ONCE_MAX = 16
RECOVERED = "ping succeeded"


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
        links: Links,
        facts: EntityFacts,
        clock: Clock,
        telemetry: Telemetry,
        keys: KeyReturns | None = None,
    ) -> None:
        self._keys = keys
        self._keys_tended: Pinged | None = None
        self._options = options
        self._state = state
        self._links = links
        self._facts = facts
        self._clock = clock
        self._telemetry = telemetry
        self._pinged: dict[str, Pinged] = {}
        self._retired = Retired()

    async def ping_what_is_due(self) -> list[EntityPath]:
        """One round; the entities that came back. Nothing is sent while a side is closed or faulted."""
        await self._state.refresh()
        if not may_work(self._state.factories):
            return []
        out = [path for path, state in self._state.entities() if isinstance(state, Unavailable)]
        self._pinged = {path.lower(): self._pinged[path.lower()] for path in out if path.lower() in self._pinged}
        now = self._clock.now()
        due = [path for path in out if is_due(self._pinged.get(path.lower()), now=now, interval=self._options.interval)]
        at_once = asyncio.Semaphore(AT_ONCE_MAX)
        back = await asyncio.gather(*(self._ping(path, at_once) for path in due))
        await self._tend_keys(now)
        return [path for path, recovered in zip(due, back, strict=True) if recovered]

    async def _tend_keys(self, now: datetime) -> None:
        """Keys of partitioned entities, as often as entities."""
        if self._keys is None or not is_due(self._keys_tended, now=now, interval=self._options.interval):
            return
        self._keys_tended = Pinged(at=now)
        for lane in await self._keys.tend():
            _LOGGER.info("%s is on its way to the primary again", lane)
        await self._state.refresh()

    async def _ping(self, path: EntityPath, at_once: asyncio.Semaphore) -> bool:
        async with at_once:
            self._facts.learn(path)
            started, now = asyncio.get_running_loop().time(), self._clock.now()
            pings, problem = await self._try(path)
            seconds = asyncio.get_running_loop().time() - started
        pinged = after_ping(self._pinged.get(path.lower()), succeeded=problem is None, now=now)
        self._pinged[path.lower()] = pinged
        self._telemetry.emit(
            PingRecorded(
                at=self._clock.now(),
                path=path,
                succeeded=problem is None,
                detail=problem or "",
                seconds=seconds,
                pings=pings,
            )
        )
        if problem is not None:
            _LOGGER.info("ping of %s failed: %s", path, problem)
        if not has_recovered(pinged, successes_needed=self._options.successes_needed):
            return False
        return await self._share(path)

    async def _share(self, path: EntityPath) -> bool:
        """Everybody's word at once; where shared state cannot be reached, the next round tries again."""
        try:
            await self._state.mark(path, Event.PING_SUCCEEDED, RECOVERED)
        except (StorageTrouble, PairingError) as error:
            _LOGGER.warning("%s is back, but shared state does not have it yet: %s", path, error)
        self._pinged.pop(path.lower(), None)
        return True

    async def _try(self, path: EntityPath) -> tuple[int, str | None]:
        """How many pings, and what was wrong, if anything; never longer than a ping may take.

        Every try has a connection of its own: the question is whether a sender that comes now is served.
        """
        keyed = self._options.all_partitions and self._facts.is_partitioned(path) is True
        options = self._options
        attempt = options.partitioned_attempt_timeout if keyed else options.attempt_timeout
        link = self._links.to(Side.PRIMARY, path)
        pings = PARTITION_PINGS if keyed else 1
        session_ids = [str(uuid.uuid4()) for _ in range(pings)]
        task = asyncio.create_task(_send(link, session_ids), name=f"ping {path}")
        limit = ping_deadline(attempt, options.interval).total_seconds()
        done, _ = await asyncio.wait([task], timeout=limit)
        if not done:
            task.cancel()
        self._retired.take(link, last_call=None if done else task)
        return pings, task.result() if done else f"no answer within {limit:g} s"

    async def close(self) -> None:
        if self._keys is not None:
            await self._keys.close()
        await self._retired.settled()


async def _send(link: Link, session_ids: Sequence[str]) -> str | None:
    """One transfer for each key, since a partitioned entity takes one key a transfer."""
    for session_id in session_ids:
        message = outgoing(ping_message(message_id=str(uuid.uuid4()), session_id=session_id))
        try:
            packed = await link.pack([[message]])
            for refusal in packed.refused.values():
                raise refusal
            await link.send(packed)
        except SendFailed as failed:
            return f"{failed.failure.value}: {failed.detail}"
        except Exception as error:
            _LOGGER.exception("a ping broke")
            return f"{type(error).__name__}: {error}"
    return None
