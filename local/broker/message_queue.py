"""The queue engine: accepts messages, locks them for consumers, settles, returns, expires and dead-letters them.

Synchronous and free of I/O: time comes from the clock given, durability goes to the journal given. A queue, its
dead-letter sub-queue and a subscription are all a `MessageQueue` under a different `QueuePolicy`. Built in layers,
each a file: books (`queue_state`), handing out (`queue_delivery`), sessions (`queue_sessions`), and here what clients
ask for: put, settle, look, and what time brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from .content import Content
from .errors import MESSAGE_LOCK_LOST, MESSAGE_NOT_FOUND, NOT_ALLOWED, SERVER_BUSY, SESSION_LOCK_LOST, BrokerError
from .partitioning import choose_partition
from .queue_delivery import LOCKS_MAX, Forward, ForwardFailure
from .queue_sessions import QueueSessions
from .queue_state import QueuePolicy
from .sessions import Session
from .store import PARTITION_SHIFT, MessageState, Partition, StoredMessage

#: How many auto-forwards a message may go through (Service Bus: chaining with auto-forwarding).
HOPS_MAX = 4
#: Ids that fell out of the duplicate detection window are struck from the journal in lots of this size.
FORGET_LOT = 1000

Changes = dict[str, object]


class MessageQueue(QueueSessions):
    _round_robin = 0
    #: Says why a partition has no room for more, if it has none.
    partition_room: Callable[[int], BrokerError | None] | None = None
    _forgotten_ids = 0

    # -- putting messages in

    def put(
        self,
        content: Content,
        *,
        enqueue_sequence_number: int | None = None,
        dead_letter_source: str | None = None,
        hops: int = 0,
        partition: Partition | None = None,
    ) -> int | None:
        """Accept a message, now or at its scheduled time. None = a duplicate, accepted and dropped."""
        if self.policy.requires_session and content.session_id is None:
            raise BrokerError(NOT_ALLOWED, f"'{self.key}' requires sessions: set the message's session id.")
        now = self._clock.now()
        content = content.with_ttl_at_most(self.policy.default_time_to_live_s)
        partition = partition or self.partition_for(content)
        if self._is_duplicate(partition, content, now):
            return None
        message = StoredMessage(partition.allocate(), content, enqueued_at=now)
        message.enqueue_sequence_number = enqueue_sequence_number
        message.dead_letter_source = dead_letter_source
        message.hops = hops
        if content.scheduled_at is not None and content.scheduled_at > now:
            message.state = MessageState.SCHEDULED
            message.enqueued_at = content.scheduled_at
            self._keep(partition, message)
            self._watch_schedule(message)
        else:
            self._start_life(message)
            self._keep(partition, message)
            self._make_ready(message)
        return message.sequence_number

    def put_dead_letter(self, message: StoredMessage, content: Content) -> None:
        """Bury a message of another queue here: it keeps its times and counts and never expires."""
        partition = self.partitions[0]
        buried = StoredMessage(partition.allocate(), content, enqueued_at=message.enqueued_at)
        buried.delivery_count = message.delivery_count
        buried.enqueue_sequence_number = message.enqueue_sequence_number
        buried.dead_letter_source = message.dead_letter_source
        buried.hops = message.hops
        self._keep(partition, buried)
        self._make_ready(buried)

    def partition_for(self, content: Content, otherwise: int | None = None) -> Partition:
        """Where the message belongs, whether or not that is well; without a key, `otherwise` or the next in turn."""
        if len(self.partitions) == 1:
            return self.partitions[0]
        index = choose_partition(content, len(self.partitions), self.policy.duplicate_window_s is not None)
        if index is None:
            index = self._next_in_turn() if otherwise is None else otherwise
        return self.partitions[index]

    def place(self, content: Content) -> Partition:
        """Where the message goes: a key's own partition, or BrokerError; without a key, the next that is well."""
        if len(self.partitions) == 1:
            return self.partitions[0]
        index = choose_partition(content, len(self.partitions), self.policy.duplicate_window_s is not None)
        refusal = None
        for _ in self.partitions if index is None else (None,):
            chosen = self._next_in_turn() if index is None else index
            refusal = self._refusal_of(chosen)
            if refusal is None:
                return self.partitions[chosen]
        assert refusal is not None, "there is at least one partition"
        raise refusal

    def _next_in_turn(self) -> int:
        self._round_robin = (self._round_robin + 1) % len(self.partitions)
        return self._round_robin

    def _refusal_of(self, index: int) -> BrokerError | None:
        refusal = None if self.health is None else self.health[index].refusal
        return refusal or (self.partition_room(index) if self.partition_room is not None else None)

    def _is_duplicate(self, partition: Partition, content: Content, now: float) -> bool:
        window_s = self.policy.duplicate_window_s
        if window_s is None or content.message_id is None:
            return False
        self._forgotten_ids += partition.forget_ids(now - window_s)
        if self._forgotten_ids >= FORGET_LOT:
            self._forgotten_ids = 0
            self.journal.forget_ids(self.key, now - window_s)
        if content.message_id in partition.history:
            return True
        partition.history[content.message_id] = now
        self.journal.remember_id(self.key, partition.index, content.message_id, now)
        return False

    def _start_life(self, message: StoredMessage) -> None:
        if message.content.time_to_live is not None:
            message.expires_at = message.enqueued_at + message.content.time_to_live
            self._watch_expiry(message)

    def _watch_schedule(self, message: StoredMessage) -> None:
        if self._schedules.is_crowded(self.scheduled_count):
            others = (m for m in self.messages() if m.state is MessageState.SCHEDULED and m is not message)
            self._schedules.rebuild((m.enqueued_at, m.sequence_number) for m in others)
        self._schedules.add(message.enqueued_at, message.sequence_number)
        self._arm(message.enqueued_at)

    # -- coming back after a restart

    def restore(self, message: StoredMessage) -> None:
        """Put back what the journal kept; locks of the last life are gone. Nothing moves before `resume`."""
        partition = self.partitions[message.partition]
        partition.restore_counter(message.sequence_number)
        self._shelve(partition, message)

    def resume(self) -> None:
        for message in list(self.messages()):
            self._watch_expiry(message)
            if message.state is MessageState.SCHEDULED:
                self._watch_schedule(message)
            elif message.state is MessageState.ACTIVE:
                self._make_ready(message)

    # -- settling

    def is_locked(self, token: bytes) -> bool:
        message = self._locks.get(token)
        if message is None:
            return False
        until = message.locked_until if message.session is None else message.session.locked_until
        return until > self._clock.now()

    def locked(self, token: bytes) -> StoredMessage:
        if self.is_locked(token):
            message = self._locks[token]
            self._check_up(message.partition)
            return message
        if self.policy.requires_session:
            raise BrokerError(SESSION_LOCK_LOST, "The session lock has expired. Accept the session again.")
        raise BrokerError(
            MESSAGE_LOCK_LOST,
            "The lock supplied is invalid. Either the lock expired, or the message has already been removed.",
        )

    def complete(self, token: bytes) -> None:
        message = self.locked(token)
        self._unlock(message)
        self._remove(message)

    def abandon(self, token: bytes, changes: Changes | None = None) -> None:
        message = self.locked(token)
        self._change_properties(message, changes)
        self._unlock(message)
        self._return(message, failed=True)

    def release(self, token: bytes) -> None:
        """Back to its old place, as if never delivered."""
        message = self.locked(token)
        self._unlock(message)
        self._return(message, failed=False)

    def defer(self, token: bytes, changes: Changes | None = None) -> None:
        message = self.locked(token)
        self._change_properties(message, changes)
        self._unlock(message)
        message.delivery_count += 1
        message.state = MessageState.DEFERRED
        self.journal.put(self.key, message)

    def dead_letter(
        self, token: bytes, reason: str | None, description: str | None, changes: Changes | None = None
    ) -> None:
        message = self.locked(token)
        if self.dead_letter_to is None:
            raise BrokerError(NOT_ALLOWED, f"'{self.key}' holds dead letters; they cannot be dead-lettered again.")
        self._change_properties(message, changes)
        self._unlock(message)
        self._bury(message, reason, description)

    def renew(self, token: bytes) -> float:
        message = self.locked(token)
        if message.session is not None:
            raise BrokerError(NOT_ALLOWED, "A message of a session has no lock of its own; renew the session's.")
        message.locked_until = self._clock.now() + self.policy.lock_duration_s
        return message.locked_until

    def _change_properties(self, message: StoredMessage, changes: Changes | None) -> None:
        if changes:
            partition = self.partitions[message.partition]
            before = message.content.size
            message.content = message.content.with_application_properties(changes)
            partition.size_bytes += message.content.size - before

    # -- peeking, deferred and scheduled messages, purging

    def peek(self, from_sequence: int, count: int, session_id: str | None = None) -> list[StoredMessage]:
        now = self._clock.now()
        visible = (
            message
            for message in self._from(max(from_sequence, 0))
            if (session_id is None or message.content.session_id == session_id)
            and not (message.is_waiting and message.has_expired(now))
        )
        return list(islice(visible, count))

    def _from(self, sequence_number: int) -> Iterator[StoredMessage]:
        down = self.down_partitions()
        for partition in self.partitions[sequence_number >> PARTITION_SHIFT :]:
            if partition.index in down:
                continue
            for number in partition.messages.irange(minimum=sequence_number):
                yield partition.messages[number]

    def receive_deferred(
        self, sequence_numbers: Iterable[int], *, deletes: bool, session: Session | None = None
    ) -> list[StoredMessage]:
        """All of the numbers asked for, or nothing; of one partition."""
        sequence_numbers = list(sequence_numbers)
        if len({number >> PARTITION_SHIFT for number in sequence_numbers}) > 1:
            raise BrokerError(NOT_ALLOWED, "Deferred messages of different partitions must be asked for separately.")
        chosen = {number: self._deferred(number, session) for number in sequence_numbers}
        if not deletes and len(self._locks) + len(chosen) > LOCKS_MAX:
            raise BrokerError(SERVER_BUSY, f"'{self.key}' has {LOCKS_MAX} messages under lock; settle some first.")
        for message in chosen.values():
            if deletes:
                self._remove(message)
            else:
                self._lock(message, session)
        return list(chosen.values())

    def _deferred(self, number: int, session: Session | None) -> StoredMessage:
        message = self._find(number)
        if message is not None:
            self._check_up(message.partition)
        if message is None or message.state is not MessageState.DEFERRED or message.lock_token is not None:
            raise BrokerError(MESSAGE_NOT_FOUND, f"No deferred message with sequence number {number} in '{self.key}'.")
        if session is not None and message.content.session_id != session.id:
            raise BrokerError(MESSAGE_NOT_FOUND, f"The message {number} is not of session '{session.id}'.")
        return message

    def cancel_scheduled(self, sequence_numbers: Iterable[int]) -> None:
        """All of the numbers given, or nothing."""
        chosen: dict[int, StoredMessage] = {}
        for number in sequence_numbers:
            message = self._find(number)
            if message is None or message.state is not MessageState.SCHEDULED:
                raise BrokerError(
                    MESSAGE_NOT_FOUND, f"No scheduled message with sequence number {number} in '{self.key}'."
                )
            self._check_up(message.partition)
            chosen[number] = message
        for message in chosen.values():
            self._remove(message)

    def delete_batch(self, count: int, enqueued_before: float, session_id: str | None = None) -> int:
        """Delete up to `count` waiting messages, oldest first; how many. Needs all partitions."""
        self.check_all_partitions()
        old_enough = (
            message
            for message in self.messages()
            if message.is_waiting
            and message.enqueued_at <= enqueued_before
            and (session_id is None or message.content.session_id == session_id)
        )
        doomed = list(islice(old_enough, count))
        for message in doomed:
            self._remove(message)
        return len(doomed)

    # -- what time brings

    def _act_on(self, now: float) -> None:
        self._activate_due(now)
        self._end_locks(now)
        self._end_sessions(now)
        self._expire_due(now)

    def _activate_due(self, now: float) -> None:
        for number in self._schedules.due(now):
            message = self._find(number)
            if message is not None and message.state is MessageState.SCHEDULED:
                self._activate(message)

    def _activate(self, message: StoredMessage) -> None:
        """A scheduled message is appended as if sent now: it gets a new sequence number."""
        partition = self.partitions[message.partition]
        partition.remove(message)
        self.journal.remove(self.key, message.sequence_number)
        message.sequence_number = partition.allocate()
        message.state = MessageState.ACTIVE
        self._start_life(message)
        partition.add(message)
        self.journal.put(self.key, message)
        self._make_ready(message)

    def _end_locks(self, now: float) -> None:
        for number in self._lock_ends.due(now):
            message = self._find(number)
            if message is None or message.lock_token is None or message.session is not None:
                continue
            if message.locked_until > now:
                self._lock_ends.add(message.locked_until, number)
                continue
            self._unlock(message)
            self._return(message, failed=True)

    def _expire_due(self, now: float) -> None:
        """Messages under a lock are looked at when it ends; deferred ones stay until somebody asks for them."""
        for number in self._expiries.due(now):
            message = self._find(number)
            if message is not None and message.is_waiting and message.has_expired(now):
                self._expire(message)


__all__ = ["HOPS_MAX", "Forward", "ForwardFailure", "MessageQueue", "QueuePolicy"]
