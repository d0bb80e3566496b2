"""The state of the pair, for people and programs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime

from shared.bounded import quietly
from shared.domain.availability import Availability
from shared.domain.factory import Factory
from shared.domain.pair import EntityPath, Pair, Side
from shared.domain.rotation import Outage
from shared.domain.syphon import Drain, as_of_now, time_left
from shared.ports import (
    AdminFailed,
    AdminRefused,
    BacklogQueues,
    BacklogTrouble,
    Clock,
    PairingRecord,
    QueueAdmin,
    QueueDepth,
    Unreadable,
)
from shared.services.entity_facts import EntityFacts
from shared.services.failover_sender import FailoverSender
from shared.services.pair_state import PairState

DEPTH_SECONDS_MAX = 10.0
#: How long a look for the oldest message counts.
OLDEST_SECONDS = 10.0
#: Queues whose depth is asked for at the same time.
AT_ONCE_MAX = 8
#: What the smallest tier takes in one message; the envelope needs some of it (spec of the service: 256 KB, 64 KB of it
#: for properties at most).
MESSAGE_BYTES_MAX = 262_144
ENVELOPE_BYTES = 1_024
CLOSE_TO_LIMIT = 0.95


@dataclass(frozen=True, kw_only=True)
class QueueStatus:
    path: EntityPath
    in_rotation: bool
    outage: Outage | None
    depth: QueueDepth | None
    drain: Drain | None
    problem: str | None

    @property
    def seconds_left(self) -> float | None:
        """Until the queue is empty, at the rate of late."""
        if self.depth is None or self.drain is None:
            return None
        left = time_left(self.depth.active, self.drain.rate)
        return None if left is None else left.total_seconds()


@dataclass(frozen=True, kw_only=True)
class PairStatus:
    pair: Pair
    at: datetime
    factories: dict[Side, Factory]
    entities: tuple[tuple[EntityPath, Availability], ...]
    #: Keys of partitioned entities that are watched on their own, as key lanes.
    keys: tuple[tuple[EntityPath, Availability], ...]
    #: Of each entity; None where this instance does not know.
    partitioned: dict[EntityPath, bool | None]
    queues: tuple[QueueStatus, ...]
    pairing: PairingRecord | None
    warnings: tuple[str, ...]


class Status:
    def __init__(
        self,
        *,
        pair: Pair,
        state: PairState,
        sender: FailoverSender,
        facts: EntityFacts,
        admin: QueueAdmin,
        queues: BacklogQueues,
        clock: Clock,
    ) -> None:
        self._pair = pair
        self._queues = queues
        self._oldest: dict[EntityPath, tuple[float, datetime | None]] = {}
        self._state = state
        self._sender = sender
        self._facts = facts
        self._admin = admin
        self._clock = clock
        self._closing: set[asyncio.Task[None]] = set()

    async def collect(self) -> PairStatus:
        await self._state.refresh()
        rotation = self._state.rotation
        at_once = asyncio.Semaphore(AT_ONCE_MAX)
        queues = await asyncio.gather(*(self._queue(path, at_once) for path in rotation.queues))
        entities = tuple(self._state.entities())
        return PairStatus(
            pair=self._pair,
            at=self._clock.now(),
            factories=dict(self._state.factories),
            entities=entities,
            partitioned={path: self._facts.is_partitioned(path) for path, _ in entities},
            keys=tuple(self._state.key_lanes()),
            queues=tuple(queues),
            pairing=self._state.pairing,
            warnings=tuple(self._warnings()),
        )

    async def _queue(self, path: EntityPath, at_once: asyncio.Semaphore) -> QueueStatus:
        depth, problem = None, None
        async with at_once:
            try:
                async with asyncio.timeout(DEPTH_SECONDS_MAX):
                    depth = await self._admin.depth(path)
                    if depth.active:
                        depth = replace(depth, oldest=await self._oldest_in(path))
            except (AdminFailed, AdminRefused) as error:
                problem = str(error)
            except TimeoutError:
                problem = f"no answer within {DEPTH_SECONDS_MAX:g} s"
        outage = self._state.rotation.out.get(path)
        now = self._clock.now()
        drain = next((as_of_now(drain, now) for drain in self._state.drains if drain.queue == path), None)
        return QueueStatus(
            path=path, in_rotation=outage is None, outage=outage, depth=depth, drain=drain, problem=problem
        )

    async def _oldest_in(self, path: EntityPath) -> datetime | None:
        """When the oldest message was enqueued. Looking takes a connection of its own, so it is not done every time."""
        now = asyncio.get_running_loop().time()
        known = self._oldest.get(path)
        if known is not None and now - known[0] < OLDEST_SECONDS:
            return known[1]
        queue = self._queues.open(path)
        oldest = None
        try:
            found = await queue.look(1, 1)
            oldest = found[0].enqueued_at if found else None
        except (BacklogTrouble, Unreadable):
            oldest = None
        finally:
            self._closing.add(task := asyncio.create_task(quietly(queue.close())))
            task.add_done_callback(self._closing.discard)
        self._oldest[path] = (now, oldest)
        return oldest

    async def close(self) -> None:
        if self._closing:
            await asyncio.wait(self._closing, timeout=DEPTH_SECONDS_MAX)

    def _warnings(self) -> list[str]:
        warnings = list(self._state.pairing.warnings) if self._state.pairing else ["The pair has not been paired yet."]
        if self._state.trouble:
            warnings.append(
                "Shared state cannot be reached; this instance goes on with what it knows: " + self._state.trouble
            )
        limit = int((MESSAGE_BYTES_MAX - ENVELOPE_BYTES) * CLOSE_TO_LIMIT)
        for path, largest in self._sender.largest_body_bytes.items():
            if largest > limit:
                warnings.append(
                    f"{path} had a body of {largest} bytes: close to the limit of {MESSAGE_BYTES_MAX}, of which the "
                    f"envelope needs about {ENVELOPE_BYTES}; larger ones are refused while the primary is unavailable."
                )
        return warnings
