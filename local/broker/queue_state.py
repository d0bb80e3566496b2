"""A queue's books: its messages, locks and deadlines, and the moves that keep them consistent. No decisions.

A message is in exactly one place: waiting in a lane, or under a lock in `_locks`, or deferred, or scheduled. Layers
above (`queue_delivery`, `queue_sessions`, `message_queue`) decide; every move goes through here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from .clock import Clock, Timer
from .journal import Journal
from .partition_health import WELL, Health, PartitionHealth
from .partitioning import partition_of_key
from .sessions import Session, SessionBook
from .store import PARTITION_SHIFT, Deadlines, Messages, Partition, StoredMessage

_NEVER = float("inf")
_TOKEN_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class QueuePolicy:
    """The part of an entity's description that decides about messages; None = never or no limit."""

    lock_duration_s: float = 60.0
    max_delivery_count: int | None = None
    requires_session: bool = False
    default_time_to_live_s: float | None = None
    dead_letter_expired: bool = False
    duplicate_window_s: float | None = None
    can_receive: bool = True


class QueueState:
    def __init__(
        self, key: str, policy: QueuePolicy, *, clock: Clock, journal: Journal, partition_count: int = 1
    ) -> None:
        #: Names the queue in the journal and in error texts.
        self.key = key
        self.policy = policy
        self.journal = journal
        self.partitions = [Partition(index) for index in range(partition_count)]
        #: How the partitions are doing; None where there is but one.
        self.health: Health | None = None
        self.book = SessionBook()
        self._clock = clock
        self._locks: dict[bytes, StoredMessage] = {}
        self._lock_ends: Deadlines[int] = Deadlines()
        self._session_ends: Deadlines[str] = Deadlines()
        self._expiries: Deadlines[int] = Deadlines()
        self._schedules: Deadlines[int] = Deadlines()
        self._timer: Timer | None = None
        self._timer_at = _NEVER

    # -- what is in it

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)

    @property
    def message_count(self) -> int:
        return sum(len(partition.messages) for partition in self.partitions)

    @property
    def scheduled_count(self) -> int:
        return sum(partition.scheduled_count for partition in self.partitions)

    @property
    def lock_count(self) -> int:
        return len(self._locks)

    def messages(self) -> Iterable[StoredMessage]:
        for partition in self.partitions:
            yield from partition.messages.values()

    def _find(self, sequence_number: int) -> StoredMessage | None:
        index = sequence_number >> PARTITION_SHIFT
        if not 0 <= index < len(self.partitions):
            return None
        return self.partitions[index].messages.get(sequence_number)

    def _messages_of(self, session: Session) -> Messages:
        return self.partitions[self._partition_of(session.id)].messages

    # -- partitions that are not well

    def health_of(self, index: int) -> PartitionHealth:
        return WELL if self.health is None else self.health[index]

    def down_partitions(self) -> list[int]:
        if self.health is None or self.health.is_well:
            return []
        return [index for index in range(len(self.partitions)) if self.health[index].down is not None]

    def check_all_partitions(self) -> None:
        """For what needs every one of them; BrokerError names the one that is down."""
        for index in self.down_partitions():
            self._check_up(index)

    def _check_up(self, index: int) -> None:
        down = self.health_of(index).down
        if down is not None:
            raise down

    def _partition_of(self, session_id: str) -> int:
        count = len(self.partitions)
        return partition_of_key(session_id, count) if count > 1 else 0

    # -- in and out

    def _keep(self, partition: Partition, message: StoredMessage) -> None:
        self._shelve(partition, message)
        self.journal.put(self.key, message)

    def _shelve(self, partition: Partition, message: StoredMessage) -> None:
        partition.add(message)
        if self.policy.requires_session:
            self.book.get(message.content.session_id or "").message_count += 1

    def _remove(self, message: StoredMessage) -> None:
        self.partitions[message.partition].remove(message)
        self.journal.remove(self.key, message.sequence_number)
        if self.policy.requires_session:
            session = self.book.get(message.content.session_id or "")
            session.message_count -= 1
            self.book.forget_if_idle(session)

    # -- locks

    def _lock(self, message: StoredMessage, session: Session | None) -> None:
        token = os.urandom(_TOKEN_BYTES)
        message.lock_token = token
        self._locks[token] = message
        if session is not None:
            message.session = session
            message.locked_until = session.locked_until
            session.locked[token] = message
            return
        message.locked_until = self._clock.now() + self.policy.lock_duration_s
        if self._lock_ends.is_crowded(len(self._locks)):
            held = [m for m in self._locks.values() if m.session is None and m is not message]
            self._lock_ends.rebuild((m.locked_until, m.sequence_number) for m in held)
        self._lock_ends.add(message.locked_until, message.sequence_number)
        self._arm(message.locked_until)

    def _unlock(self, message: StoredMessage) -> None:
        token = message.lock_token
        assert token is not None
        del self._locks[token]
        if message.session is not None:
            del message.session.locked[token]
        message.lock_token = None
        message.session = None

    # -- deadlines

    def _watch_expiry(self, message: StoredMessage) -> None:
        if message.expires_at is None:
            return
        if self._expiries.is_crowded(self.message_count):
            others = (m for m in self.messages() if m is not message)
            self._expiries.rebuild((m.expires_at, m.sequence_number) for m in others if m.expires_at is not None)
        self._expiries.add(message.expires_at, message.sequence_number)
        self._arm(message.expires_at)

    def _arm(self, when: float) -> None:
        """See to it that `_tick` runs at this instant, if nothing is due before."""
        if when < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = when
            self._timer = self._clock.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer, self._timer_at = None, _NEVER
        try:
            self._act_on(self._clock.now())
        finally:
            ends = (self._schedules, self._expiries, self._lock_ends, self._session_ends)
            self._arm(min((when for each in ends if (when := each.next()) is not None), default=_NEVER))

    def _act_on(self, now: float) -> None:
        """Do everything that is due."""
        raise NotImplementedError

    def close(self) -> None:
        """The entity is gone: nothing waits, nothing fires any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, _NEVER
        self.partitions = [Partition(index) for index in range(len(self.partitions))]
        self._locks.clear()
        for deadlines in (self._schedules, self._expiries, self._lock_ends):
            deadlines.rebuild(())
        self._session_ends.rebuild(())
        self.book.close()
