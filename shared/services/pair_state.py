"""What this instance knows about the pair: its own observations, and what all instances share.

Sends look here and nowhere else: reading is a dictionary look-up, and changes take effect at once. A background task
carries changes to shared state and brings those of other instances, every STATE_REFRESH. When shared state cannot be
reached, the instance goes on with what it knows, says so, and catches up later.

Suspicion is this instance's own. Shared are: unavailable, available again, queues out of the rotation, factories.
Of two shared changes the later one wins.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.domain.availability import Availability, Available, Event, Moment, Suspect, Unavailable, transition
from shared.domain.factory import Factory
from shared.domain.pair import EntityPath, Side
from shared.domain.partitions import entity_of, is_key_lane
from shared.domain.rotation import Outage, Rotation
from shared.domain.syphon import Drain
from shared.errors import Overloaded, StateUnreachable
from shared.ports import (
    Clock,
    EntityRecord,
    PairingRecord,
    QueueRecord,
    SharedState,
    StateStore,
    StorageTrouble,
    Telemetry,
)
from shared.services.refresher import Refresher
from shared.services.watched_keys import Entity, WatchedKeys
from shared.telemetry_events import AvailabilityChanged, RotationChanged, StateStorageChanged

_LOGGER = logging.getLogger(__name__)

TOO_MANY_ENTITIES = "Too many entities are known already, so nothing can be kept for one that is not; send again later."


@dataclass(slots=True)
class _Queue:
    shared_at: datetime | None = None
    unsaved: bool = False


class PairState(WatchedKeys):
    def __init__(
        self,
        *,
        store: StateStore,
        clock: Clock,
        telemetry: Telemetry,
        queues: tuple[EntityPath, ...],
        failover_interval: timedelta,
        refresh_every: timedelta,
        instance: str,
    ) -> None:
        super().__init__(store=store, clock=clock)
        self._telemetry = telemetry
        self._failover_interval = failover_interval
        self._instance = instance
        self._queues: dict[EntityPath, _Queue] = {queue: _Queue() for queue in queues}
        self.rotation = Rotation(queues=queues)
        self.factories = {side: Factory() for side in Side}
        self.pairing: PairingRecord | None = None
        self.drains: tuple[Drain, ...] = ()
        #: Why shared state cannot be reached, while it cannot.
        self.trouble: str | None = None
        self.refreshed_at: datetime | None = None
        self._refresher = Refresher(
            refresh=self.refresh, save=lambda: self._guarded(self._save), every=refresh_every
        )
        #: Called with an entity's path when it becomes unavailable.
        self.on_unavailable: Callable[[EntityPath], None] = lambda path: None

    # -- reading

    def availability(self, path: EntityPath) -> Availability:
        """The entity's state now; suspicion whose time is up becomes unavailability by being looked at."""
        entity = self._entities.get(path.lower())
        if entity is None:
            return _NEW
        if isinstance(entity.availability, Suspect):
            self._apply(entity, Event.TICK, "")
        return entity.availability

    def untroubled(self, path: EntityPath, now: float) -> Entity | None:
        """The entity, if a send at this time (the loop's) has nothing to decide: what is known here is kept fresh, the
        pair is open, and the entity has accepted messages with nothing against it since."""
        if not self.is_open or not self._refresher.is_fresh(now):
            return None
        name = path.lower()
        entity = self._entities.get(name)
        if entity is None or not entity.accepted or not isinstance(entity.availability, Available):
            return None
        return None if name in self._key_lanes or name in self._failed_keys else entity

    @property
    def factories(self) -> Mapping[Side, Factory]:
        return self._factories

    @factories.setter
    def factories(self, factories: Mapping[Side, Factory]) -> None:
        self._factories = factories
        #: Whether any side takes messages.
        self.is_open = any(factory.is_open for factory in factories.values())

    def has_accepted(self, path: EntityPath) -> bool:
        entity = self._entities.get(path.lower())
        return entity is not None and entity.accepted

    def has_accepted_anything(self) -> bool:
        return any(entity.accepted for entity in self._entities.values())

    def entities(self) -> list[tuple[EntityPath, Availability]]:
        """Entities proper; see `key_lanes` for what is watched by key."""
        paths = [entity.path for entity in self._entities.values() if not is_key_lane(entity.path)]
        return [(path, self.availability(path)) for path in paths]

    def recoveries(self) -> list[datetime]:
        """When each entity that was unavailable once became available again."""
        states = [entity.availability for entity in self._entities.values()]
        since = [state.since for state in states if isinstance(state, Available) and state.since is not None]
        return since + [s.healed_at for s in states if isinstance(s, Unavailable) and s.healed_at is not None]

    # -- what happens

    def succeeded(self, path: EntityPath) -> None:
        """A send to the primary was accepted. The healthy path: nothing is done when nothing changes."""
        entity = self._entities.get(path.lower())
        if entity is None:
            entity = self._entities[path.lower()] = Entity(path)
        if not entity.accepted:
            entity.accepted = entity.unsaved = True
        if isinstance(entity.availability, Suspect):
            self._apply(entity, Event.SEND_SUCCEEDED, "")

    def happened(self, path: EntityPath, event: Event, reason: str) -> Availability:
        if not self.has_room_for(path):
            return _NEW
        entity = self._entity(path)
        self._apply(entity, event, reason)
        return entity.availability

    def _apply(self, entity: Entity, event: Event, reason: str) -> None:
        now = self._clock.now()
        before = entity.availability
        moment = Moment(now=now, failover_interval=self._failover_interval, reason=reason)
        after = transition(before, event, moment)
        if after is before:
            return
        entity.availability = after
        if isinstance(after, Unavailable) or isinstance(before, Unavailable):
            entity.shared_at, entity.unsaved = _after(entity.shared_at, now), True
            self._refresher.hurry()
        elif _diverted_on(entity, before):
            self._recovered(entity_of(entity.path), now)
        self._announce(entity.path, before, after)
        if isinstance(after, Available) and is_key_lane(entity.path) and entity.shared_at is None:
            self._drop_lane(entity.path)

    def _recovered(self, path: EntityPath, now: datetime) -> None:
        """Messages were diverted on mere suspicion: the syphon, perhaps elsewhere, has to know that they can go."""
        entity = self._entity(path)
        if isinstance(entity.availability, Available):
            entity.availability = Available(since=now)
            entity.shared_at, entity.unsaved = _after(entity.shared_at, now), True
            self._refresher.hurry()

    def _announce(self, path: EntityPath, before: Availability, after: Availability) -> None:
        reason = after.reason if not isinstance(after, Available) else ""
        names = (type(before).__name__.lower(), type(after).__name__.lower())
        level = logging.INFO if isinstance(after, Available) else logging.WARNING
        _LOGGER.log(level, "entity %s: %s -> %s %s", path, *names, reason)
        self._telemetry.emit(
            AvailabilityChanged(at=self._clock.now(), path=path, before=names[0], after=names[1], reason=reason)
        )
        if isinstance(after, Unavailable):
            self.on_unavailable(path)

    def queue_failed(self, queue: EntityPath, reason: str) -> None:
        if queue in self._queues and queue not in self.rotation.out:
            now = self._clock.now()
            self._set_rotation(self.rotation.without(queue, Outage(since=now, reason=reason)), queue, reason)
            self._queues[queue] = _Queue(shared_at=_after(self._queues[queue].shared_at, now), unsaved=True)
            self._refresher.hurry()

    def queue_returned(self, queue: EntityPath) -> None:
        if queue in self.rotation.out:
            self._set_rotation(self.rotation.with_again(queue), queue, "probe succeeded")
            now = _after(self._queues[queue].shared_at, self._clock.now())
            self._queues[queue] = _Queue(shared_at=now, unsaved=True)
            self._refresher.hurry()

    def _set_rotation(self, rotation: Rotation, queue: EntityPath, reason: str) -> None:
        self.rotation = rotation
        back = queue not in rotation.out
        _LOGGER.log(
            logging.INFO if back else logging.WARNING,
            "backlog queue %s %s the rotation: %s",
            queue,
            "is back in" if back else "leaves",
            reason,
        )
        self._telemetry.emit(
            RotationChanged(at=self._clock.now(), queue=queue, in_rotation=back, reason=reason)
        )

    def set_factories(self, factories: Mapping[Side, Factory]) -> None:
        """What was written to shared state just now: what is being read from there meanwhile may be older."""
        self.factories = factories

    # -- shared state

    def is_fresh(self, now: float) -> bool:
        """Whether refreshing is under way; `now`, in the loop's time, keeps it so. For sends, which cannot wait."""
        return self._refresher.is_fresh(now)

    async def in_use(self) -> None:
        """Called before anything is decided: free of any wait, except for the first load of an instance."""
        await self._refresher.in_use()

    async def refresh(self) -> None:
        """Saves what is ours, then takes what is others'."""
        for entity in list(self._entities.values()):
            self.availability(entity.path)
        if await self._guarded(self._save) and await self._guarded(self._load):
            await self._guarded(self._forget_strangers)

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> bool:
        try:
            await work()
        except StorageTrouble as error:
            self._reached(str(error))
            return False
        except Exception as error:
            # Whatever is wrong here, sending must go on, and so must the task that would notice its end.
            _LOGGER.exception("refreshing shared state failed")
            self._reached(type(error).__name__)
            return False
        return True

    def _reached(self, trouble: str | None) -> None:
        if (trouble is None) is not (self.trouble is None):
            if trouble:
                _LOGGER.error("shared state cannot be reached; going on with what is known here: %s", trouble)
            else:
                _LOGGER.warning("shared state can be reached again")
            self._telemetry.emit(
                StateStorageChanged(at=self._clock.now(), reachable=trouble is None, reason=trouble or "")
            )
        self.trouble = trouble

    async def _save(self) -> None:
        for entity in [entity for entity in self._entities.values() if entity.unsaved]:
            await self._save_entity(entity)
        for path, queue in [(path, queue) for path, queue in self._queues.items() if queue.unsaved]:
            await self._save_queue(path, queue)

    async def _save_entity(self, entity: Entity) -> None:
        if is_key_lane(entity.path) and isinstance(entity.availability, Available):
            await self._forget_key(entity)
            return
        state, at = entity.availability, entity.shared_at
        shared = state if isinstance(state, Available | Unavailable) else Available()
        ours = EntityRecord(
            path=entity.path,
            availability=shared,
            changed_at=at or self._clock.now(),
            accepted=entity.accepted,
            by=self._instance,
        )

        def decide(theirs: EntityRecord | None) -> EntityRecord | None:
            if theirs is None:
                return ours
            if at is None or theirs.changed_at > at:
                return replace(theirs, accepted=True) if ours.accepted and not theirs.accepted else None
            return replace(ours, accepted=ours.accepted or theirs.accepted)

        saved = await self._store.change_entity(entity.path, decide)
        if entity.shared_at == at:
            entity.unsaved = False
        if saved is not None:
            self._adopt_entity(saved)

    async def _save_queue(self, path: EntityPath, queue: _Queue) -> None:
        at = queue.shared_at or self._clock.now()
        ours = QueueRecord(path=path, changed_at=at, outage=self.rotation.out.get(path))

        def decide(theirs: QueueRecord | None) -> QueueRecord | None:
            return ours if theirs is None or theirs.changed_at <= at else None

        await self._store.change_queue(path, decide)
        queue.unsaved = False

    async def _load(self) -> None:
        factories_before, loaded_before = self.factories, self.refreshed_at
        shared = await self._store.load()
        # Only what was read proves it: there may have been nothing to save.
        self._reached(None)
        if self.factories is factories_before:
            self.factories = {side: shared.factories.get(side, Factory()) for side in Side}
        self._adopt(shared)
        self._adopt_forgotten(shared, loaded_before)
        self.refreshed_at = self._clock.now()

    def _adopt(self, shared: SharedState) -> None:
        for record in shared.entities:
            self._adopt_entity(record)
        for queue in shared.queues:
            self._adopt_queue(queue)
        self.pairing = shared.pairing
        self.drains = shared.drains

    def _adopt_entity(self, record: EntityRecord) -> None:
        if is_key_lane(record.path) and isinstance(record.availability, Available):
            return
        entity = self._entity(record.path)
        entity.accepted |= record.accepted
        if entity.shared_at is not None and record.changed_at <= entity.shared_at:
            return
        entity.shared_at, entity.unsaved = record.changed_at, False
        before = entity.availability
        if isinstance(record.availability, Unavailable) or isinstance(before, Unavailable):
            entity.availability = record.availability
            if type(before) is not type(record.availability):
                self._announce(entity.path, before, record.availability)
        elif isinstance(before, Available):
            entity.availability = record.availability  # since when, which the syphon wants to know

    def _adopt_queue(self, record: QueueRecord) -> None:
        queue = self._queues.get(record.path)
        if queue is None or (queue.shared_at is not None and record.changed_at <= queue.shared_at):
            return
        self._queues[record.path] = _Queue(shared_at=record.changed_at)
        if record.outage is not None and record.path not in self.rotation.out:
            self._set_rotation(self.rotation.without(record.path, record.outage), record.path, record.outage.reason)
        elif record.outage is None and record.path in self.rotation.out:
            self._set_rotation(self.rotation.with_again(record.path), record.path, "another instance's probe succeeded")

    async def mark(self, path: EntityPath, event: Event, reason: str) -> Availability:
        """An operator's word: takes effect here at once, and is shared before this returns, or StateUnreachable."""
        await self._load_if_possible()
        if not self.has_room_for(path):
            raise Overloaded(TOO_MANY_ENTITIES, path=path)
        entity = self._entity(path)
        self._apply(entity, event, reason)
        lanes = list(self._key_lanes.get(path.lower(), ())) if event is Event.MARKED_HEALTHY else []
        marked = [entity, *(self._entities[name] for name in lanes)]
        try:
            for one in marked:
                if one is not entity:
                    self._apply(one, event, reason)
                if one.unsaved:
                    await self._save_entity(one)
        except StorageTrouble as error:
            raise StateUnreachable(f"Shared state cannot be reached: {error}.", path=path) from error
        return entity.availability

    async def _load_if_possible(self) -> None:
        await self._guarded(self._load)

    async def close(self) -> None:
        await self._refresher.stop()
        await self._guarded(self._save)
        await self._store.close()


def _diverted_on(entity: Entity, state: Availability) -> bool:
    return isinstance(state, Suspect) and entity.diverted_at is not None and entity.diverted_at >= state.since


def _after(known: datetime | None, now: datetime) -> datetime:
    """A change comes after what it changes, also where that was written by an instance whose clock is ahead."""
    return now if known is None else max(now, known + timedelta(microseconds=1))


_NEW = Available()
