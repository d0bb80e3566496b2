"""What all calls of the syphon in this process share: who rests, how fast to go, how far each queue has come."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from shared.domain import pace as pacing
from shared.domain.availability import Route, Unavailable, route
from shared.domain.pace import Pace
from shared.domain.pair import EntityPath
from shared.domain.partitions import Keys, entity_of, key_lane
from shared.domain.syphon import Drain, Rest, advance, rest_after
from shared.ports import Clock, Instruments, SendFailed, StateStore, StorageTrouble, Telemetry
from shared.services.entity_facts import EntityFacts
from shared.services.pair_state import PairState
from shared.telemetry_events import DestinationRested

_LOGGER = logging.getLogger(__name__)

#: How often progress goes to shared state while messages move.
SAVE_EVERY = timedelta(seconds=5)


class Desk:
    def __init__(
        self,
        *,
        state: PairState,
        store: StateStore,
        clock: Clock,
        telemetry: Telemetry,
        facts: EntityFacts,
        rng: random.Random,
        rate_limit: float | None,
        instruments: Instruments | None = None,
    ) -> None:
        self.state = state
        self.instruments = instruments
        self.clock = clock
        self.telemetry = telemetry
        self._store = store
        self._facts = facts
        self._rng = rng
        self._rate_limit = rate_limit
        self._rests: dict[str, Rest] = {}
        self._resting_keys = False
        self._paces: dict[EntityPath, Pace] = {}
        self._drains: dict[EntityPath, Drain] = {}
        self._moved: dict[EntityPath, int] = {}
        self._saved_at: dict[EntityPath, datetime] = {}

    # -- destinations

    def lane_of(self, path: EntityPath, keys: Keys) -> EntityPath:
        """By key where the key is watched, or has failed here just now."""
        key = self._facts.key_of(path, keys)
        if key is not None and self._resting_keys and (lane := key_lane(path, key)).lower() in self._rests:
            return lane
        return self.state.lane_of(path, key)

    def takes_messages(self, path: EntityPath) -> bool:
        entity = entity_of(path)
        if route(self.state.availability(entity)) is not Route.PRIMARY:
            return False
        if entity != path:
            state = self.state.availability(path)
            if isinstance(state, Unavailable) and state.healed_at is None:
                return False
        rest = self._rests.get(path.lower())
        return rest is None or rest.until <= self.clock.now()

    def failed(self, path: EntityPath, failed: SendFailed) -> Rest:
        """The destination is left alone for a while; how long."""
        now = self.clock.now()
        self._resting_keys |= entity_of(path) != path
        rest = self._rests[path.lower()] = rest_after(self._rests.get(path.lower()), now=now, jitter=self._rng.random())
        _LOGGER.warning("syphon: %s rests until %s: %s", path, rest.until.isoformat(timespec="seconds"), failed)
        self.telemetry.emit(
            DestinationRested(at=now, path=path, failure=failed.failure.value, detail=failed.detail, until=rest.until)
        )
        return rest

    def succeeded(self, path: EntityPath) -> None:
        self._rests.pop(path.lower(), None)
        self.state.succeeded(entity_of(path))

    def rests_ended_since(self, moment: datetime) -> bool:
        """Whether a destination may be tried again that could not at this moment."""
        now = self.clock.now()
        return any(moment < rest.until <= now for rest in self._rests.values())

    # -- speed

    def pace(self, queue: EntityPath) -> Pace:
        return self._paces.get(queue) or Pace(limit=self._rate_limit, at=self.clock.now())

    def take(self, queue: EntityPath, count: int) -> timedelta:
        """How long to wait before so many messages are sent."""
        self._paces[queue], wait = pacing.take(self.pace(queue), count, now=self.clock.now())
        return wait

    def throttled(self, queue: EntityPath) -> None:
        observed = advance(self._drain(queue), forwarded=self._moved.get(queue, 0), now=self.clock.now()).rate
        self._paces[queue] = pacing.throttled(self.pace(queue), now=self.clock.now(), observed=observed)

    # -- progress

    def moved(self, queue: EntityPath, *, forwarded: int = 0, dead_lettered: int = 0) -> None:
        drain = self._drain(queue)
        self._drains[queue] = replace(drain, dead_lettered=drain.dead_lettered + dead_lettered)
        self._moved[queue] = self._moved.get(queue, 0) + forwarded

    def _drain(self, queue: EntityPath) -> Drain:
        if queue not in self._drains:
            now = self.clock.now()
            known = next((drain for drain in self.state.drains if drain.queue == queue), Drain(queue=queue, at=now))
            self._drains[queue] = replace(known, at=now, rate=0.0)
        return self._drains[queue]

    async def report(self, queue: EntityPath, *, waiting_for: Iterable[EntityPath] = ()) -> None:
        """Tells shared state how far the queue has come, now and then; that it cannot be told stops nothing."""
        now = self.clock.now()
        saved_at = self._saved_at.get(queue)
        if saved_at is not None and now - saved_at < SAVE_EVERY:
            return
        drain = advance(self._drain(queue), forwarded=self._moved.pop(queue, 0), now=now)
        await self._save(replace(drain, waiting_for=tuple(sorted(waiting_for))))

    async def _save(self, drain: Drain) -> None:
        self._drains[drain.queue], self._saved_at[drain.queue] = drain, drain.at
        try:
            await self._store.save_drain(drain)
        except StorageTrouble as error:
            _LOGGER.info("syphon: progress of %s could not be shared: %s", drain.queue, error)

    async def stopped(self, queue: EntityPath) -> None:
        """Nothing moves any more."""
        drain = self._drains.get(queue)
        if drain is not None and (drain.rate or self._moved.get(queue)):
            drain = advance(drain, forwarded=self._moved.pop(queue, 0), now=self.clock.now())
            await self._save(replace(drain, rate=0.0, waiting_for=()))
