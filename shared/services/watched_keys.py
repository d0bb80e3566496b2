"""Keys of partitioned entities that are watched on their own: the base of what an instance knows about the pair.

A watched key is an entry like an entity's, under the path of its key lane (shared/domain/partitions.py). It is there
while there is something to say about it: under suspicion, diverted, or draining. Afterwards it leaves no trace.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.domain.availability import Availability, Available, Event, Suspect, Unavailable
from shared.domain.pair import EntityPath
from shared.domain.partitions import FAILED_KEYS_MAX, WATCHED_KEYS_MAX, entity_of, is_key_lane, key_lane
from shared.ports import Clock, SharedState, StateStore

_LOGGER = logging.getLogger(__name__)

#: Entities of which something is known: as many as a namespace can have. Beyond that nothing more is remembered, except
#: of those that accept messages: in an outage anybody may name any number of paths.
ENTITIES_MAX = 10_000
#: How long the end of an outage is remembered of an entity that has never accepted a message: until all know of it.
STRANGER_REMEMBERED = timedelta(hours=1)
#: Such entities forgotten at a time; the rest waits for the next time.
FORGET_AT_ONCE_MAX = 100


@dataclass(slots=True)
class Entity:
    path: EntityPath
    availability: Availability = field(default_factory=Available)
    #: When the shared part last changed, as far as known here.
    shared_at: datetime | None = None
    accepted: bool = False
    #: Shared state does not have our latest yet.
    unsaved: bool = False
    #: Sends of this instance on their way to the backlog, and when the last one was.
    diverting: int = 0
    #: Set when sends of the key that are held back may go on; None while none are.
    held: asyncio.Event | None = None
    diverted_at: datetime | None = None


class WatchedKeys:
    def __init__(self, *, store: StateStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        #: By path in lower case; key lanes among them.
        self._entities: dict[str, Entity] = {}
        #: Key lanes by their entity, in lower case both.
        self._key_lanes: dict[str, set[str]] = {}
        #: Keys of each entity that failed since anything succeeded there.
        self._failed_keys: dict[str, set[str]] = {}

    def availability(self, path: EntityPath) -> Availability:
        raise NotImplementedError

    def happened(self, path: EntityPath, event: Event, reason: str) -> Availability:
        raise NotImplementedError

    def _announce(self, path: EntityPath, before: Availability, after: Availability) -> None:
        raise NotImplementedError

    def has_room_for(self, path: EntityPath) -> bool:
        """Whether anything can be remembered of the entity, or of its key."""
        entity = entity_of(path)
        keys = sum(map(len, self._key_lanes.values()))
        return entity.lower() in self._entities or len(self._entities) - keys < ENTITIES_MAX

    async def _forget_strangers(self) -> None:
        """Paths that were out once and never accepted a message, by now available: there may be no such entity."""
        now = self._clock.now()
        strangers = [one for one in self._entities.values() if _is_stranger(one, now)]
        for entity in strangers[:FORGET_AT_ONCE_MAX]:
            if entity.shared_at is not None:
                await self._store.forget_entity(entity.path, until=entity.shared_at)
            if _is_stranger(entity, now):
                self._entities.pop(entity.path.lower(), None)

    def key_lanes(self) -> list[tuple[EntityPath, Availability]]:
        """Keys that are watched on their own."""
        lanes = [self._entities[name].path for names in self._key_lanes.values() for name in names]
        return [(lane, self.availability(lane)) for lane in lanes]

    def lane_of(self, path: EntityPath, key: str | None) -> EntityPath:
        """The key's own lane while it is watched, otherwise the entity's path. Free of cost while none is."""
        if key is None or path.lower() not in self._key_lanes:
            return path
        lane = key_lane(path, key)
        return lane if lane.lower() in self._entities else path

    def blame(self, path: EntityPath, key: str) -> EntityPath:
        """Whom a failure counts against that may be one partition's: the key, or the entity if too many are watched."""
        lane, name = key_lane(path, key), path.lower()
        self._failed_keys.setdefault(name, set()).add(lane.lower())
        watched = self._key_lanes.get(name, set())
        return path if len(watched) >= WATCHED_KEYS_MAX and lane.lower() not in watched else lane

    def many_keys_failed(self, path: EntityPath) -> bool:
        """Whether so many failed since anything succeeded that it may be the entity's own fault."""
        return len(self._failed_keys.get(path.lower(), ())) >= FAILED_KEYS_MAX

    def keys_alone_failed(self, path: EntityPath) -> None:
        """The entity was asked, and answered."""
        self._failed_keys.pop(path.lower(), None)

    def key_succeeded(self, path: EntityPath, key: str | None) -> None:
        """A send to the primary was accepted: neither the entity nor this key is under suspicion any more."""
        if path.lower() in self._failed_keys:
            del self._failed_keys[path.lower()]
        lane = self.lane_of(path, key)
        if lane is not path and isinstance(self._entities[lane.lower()].availability, Suspect):
            self.happened(lane, Event.SEND_SUCCEEDED, "")

    def hold(self, lane: EntityPath) -> None:
        """Sends of this key wait, so that what is left of it in the backlog can be brought home."""
        entity = self._entities.get(lane.lower())
        if entity is not None and entity.held is None:
            entity.held = asyncio.Event()

    def let_go(self, lane: EntityPath) -> None:
        entity = self._entities.get(lane.lower())
        if entity is not None and entity.held is not None:
            entity.held.set()
            entity.held = None

    def is_held(self, lane: EntityPath) -> bool:
        """Whether sends of this key are held back."""
        entity = self._entities.get(lane.lower())
        return entity is not None and entity.held is not None

    async def while_held(self, lane: EntityPath, seconds: float) -> None:
        """Waits while sends of this key are held back, up to so long."""
        entity = self._entities.get(lane.lower())
        if entity is None or entity.held is None or seconds <= 0:
            return
        try:
            await asyncio.wait_for(entity.held.wait(), seconds)
        except TimeoutError:
            _LOGGER.info("a message of %s waited for %.1f s for the key's backlog, and follows into it", lane, seconds)

    def diverting(self, lane: EntityPath, count: int) -> None:
        """A message of the entity or key begins (+1) or ends (-1) its way to the backlog."""
        entity = self._entities.get(lane.lower())
        if entity is not None:
            entity.diverting += count
            entity.diverted_at = self._clock.now()

    def key_drained(self, lane: EntityPath, *, looked_at: datetime) -> bool:
        """Nothing of it was in the backlog then. Whether that still holds, so that the key is on its old way again."""
        entity = self._entities.get(lane.lower())
        if entity is None or entity.diverting or (entity.diverted_at is not None and entity.diverted_at >= looked_at):
            return False
        return isinstance(self.happened(lane, Event.KEY_DRAINED, ""), Available)

    def _entity(self, path: EntityPath) -> Entity:
        entity = self._entities.get(path.lower())
        if entity is None:
            entity = self._entities[path.lower()] = Entity(path)
            if is_key_lane(path):
                self._key_lanes.setdefault(entity_of(path).lower(), set()).add(path.lower())
        return entity

    async def _forget_key(self, entity: Entity) -> None:
        """A key that is well again leaves no trace, in shared state neither."""
        if entity.shared_at is not None:
            await self._store.forget_entity(entity.path, until=entity.shared_at)
        if isinstance(entity.availability, Available):
            self._drop_lane(entity.path)

    def _drop_lane(self, lane: EntityPath) -> None:
        self.let_go(lane)
        self._entities.pop(lane.lower(), None)
        lanes = self._key_lanes.get(entity_of(lane).lower(), set())
        lanes.discard(lane.lower())
        if not lanes:
            self._key_lanes.pop(entity_of(lane).lower(), None)

    def _adopt_forgotten(self, shared: SharedState, loaded_before: datetime | None) -> None:
        """Lanes that others found drained. One that this instance has diverted to since is not: it is told again."""
        known = {record.path.lower() for record in shared.entities}
        for name in [name for names in self._key_lanes.values() for name in names if name not in known]:
            entity = self._entities[name]
            if entity.shared_at is None or entity.unsaved or not isinstance(entity.availability, Unavailable):
                continue
            late = entity.diverting or (
                entity.diverted_at is not None and loaded_before is not None and entity.diverted_at >= loaded_before
            )
            if late:
                entity.shared_at, entity.unsaved = self._clock.now(), True
            else:
                before, entity.availability = entity.availability, Available(since=self._clock.now())
                self._announce(entity.path, before, entity.availability)
                self._drop_lane(entity.path)


def _is_stranger(entity: Entity, now: datetime) -> bool:
    state = entity.availability
    if entity.accepted or entity.unsaved or not isinstance(state, Available) or is_key_lane(entity.path):
        return False
    return state.since is None or now - state.since >= STRANGER_REMEMBERED
