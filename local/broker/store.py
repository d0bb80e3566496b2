"""Where messages wait: one `Partition` is a sequence of messages with its own counter, history and size.

A plain entity has one partition, a partitioned one sixteen. Everything here is bookkeeping; who gets which message
is decided by the queue.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, TypeVar

from sortedcontainers import SortedDict

from .content import Content

if TYPE_CHECKING:
    from .sessions import Session

#: The partition's index lives in the top 16 bits of a sequence number, a counter in the other 48.
PARTITION_SHIFT = 48
COUNTER_MASK = (1 << PARTITION_SHIFT) - 1
#: Entries of what is gone that a lane or a list of deadlines may hold beyond twice what is alive.
STALE_MAX = 1024

Key = TypeVar("Key", int, str)


class MessageState(IntEnum):
    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2


class StoredMessage:
    """One message in one queue: its content and what has happened to it here."""

    __slots__ = (
        "content",
        "dead_letter_source",
        "delivery_count",
        "enqueue_sequence_number",
        "enqueued_at",
        "expires_at",
        "hops",
        "lock_token",
        "locked_until",
        "sequence_number",
        "session",
        "state",
    )

    def __init__(self, sequence_number: int, content: Content, *, enqueued_at: float) -> None:
        self.sequence_number = sequence_number
        self.content = content
        self.enqueued_at = enqueued_at
        self.expires_at: float | None = None
        self.state = MessageState.ACTIVE
        #: Deliveries that ended without settlement; what AMQP calls delivery-count.
        self.delivery_count = 0
        self.lock_token: bytes | None = None
        self.locked_until = 0.0
        #: The session under whose lock it was delivered.
        self.session: Session | None = None
        self.enqueue_sequence_number: int | None = None
        self.dead_letter_source: str | None = None
        #: How many auto-forwards brought it here.
        self.hops = 0

    @property
    def partition(self) -> int:
        return self.sequence_number >> PARTITION_SHIFT

    @property
    def is_waiting(self) -> bool:
        return self.lock_token is None and self.state is MessageState.ACTIVE

    def has_expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now


Messages = SortedDict[int, StoredMessage]


class Partition:
    """A store of messages in sequence order, with duplicate history and size."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.messages: Messages = SortedDict()
        self.ready = Lane()
        #: Message ids and when they were accepted, oldest first.
        self.history: OrderedDict[str, float] = OrderedDict()
        self.size_bytes = 0
        self.scheduled_count = 0
        self._last = 0

    def allocate(self) -> int:
        self._last += 1
        return self.index << PARTITION_SHIFT | self._last

    def restore_counter(self, sequence_number: int) -> None:
        """Sequence numbers never go back, not even over a restart."""
        self._last = max(self._last, sequence_number & COUNTER_MASK)

    def add(self, message: StoredMessage) -> None:
        self.messages[message.sequence_number] = message
        self.size_bytes += message.content.size
        if message.state is MessageState.SCHEDULED:
            self.scheduled_count += 1

    def remove(self, message: StoredMessage) -> None:
        del self.messages[message.sequence_number]
        self.size_bytes -= message.content.size
        if message.state is MessageState.SCHEDULED:
            self.scheduled_count -= 1

    def forget_ids(self, before: float) -> int:
        """Drop what fell out of the duplicate detection window; how many."""
        history, count = self.history, 0
        while history:
            oldest, at = next(iter(history.items()))
            if at > before:
                break
            del history[oldest]
            count += 1
        return count


class Lane:
    """Sequence numbers ready for delivery, lowest first; a returned message takes its old place."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[int] = []

    def push(self, sequence_number: int, messages: Messages) -> None:
        heap = self._heap
        if len(heap) > 2 * len(messages) + STALE_MAX:
            # Messages left by another door (expired, purged) and nobody came to take their entries out.
            heap[:] = [number for number in heap if number in messages]
            heapq.heapify(heap)
        heapq.heappush(heap, sequence_number)

    def take(self, messages: Messages) -> StoredMessage | None:
        """The first message still waiting. Entries of messages that left by another door are dropped on the way."""
        heap = self._heap
        while heap:
            message = messages.get(heapq.heappop(heap))
            if message is not None and message.is_waiting:
                return message
        return None

    def head(self, messages: Messages) -> StoredMessage | None:
        message = self.take(messages)
        if message is not None:
            heapq.heappush(self._heap, message.sequence_number)
        return message

    def __len__(self) -> int:
        return len(self._heap)


class Deadlines(Generic[Key]):
    """Instants at which something ends or begins. Entries go stale; the owner checks when one is due."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, Key]] = []

    def add(self, when: float, key: Key) -> None:
        heapq.heappush(self._heap, (when, key))

    def next(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[Key]:
        found = []
        while self._heap and self._heap[0][0] <= now:
            found.append(heapq.heappop(self._heap)[1])
        return found

    def is_crowded(self, alive: int) -> bool:
        return len(self._heap) > 2 * alive + STALE_MAX

    def rebuild(self, entries: Iterable[tuple[float, Key]]) -> None:
        self._heap = list(entries)
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)
