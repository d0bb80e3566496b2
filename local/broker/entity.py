"""What all entities share, and what those that can be sent to share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from .clock import Timer
from .content import Content
from .descriptions import FOREVER, QueueDescription, TopicDescription
from .errors import ENTITY_DISABLED, QUOTA_EXCEEDED, BrokerError
from .message_queue import MessageQueue
from .partitioning import check_keys_agree
from .store import PARTITION_SHIFT

if TYPE_CHECKING:
    from .namespace import Namespace

MEGABYTE = 1024 * 1024


class EntityLink(Protocol):
    """An AMQP link attached to an entity, as far as the entity may act on it."""

    @property
    def is_receiver(self) -> bool:
        """The client receives on it."""
        ...

    def close_with(self, error: BrokerError) -> None: ...


def seconds_or_never(duration: timedelta) -> float | None:
    return None if duration >= FOREVER else duration.total_seconds()


class Entity:
    """What all entities share: a path, times, attached links."""

    def __init__(self, namespace: Namespace, path: str) -> None:
        self.namespace = namespace
        self.path = path
        now = namespace.clock.now()
        self.created_at = self.updated_at = self.accessed_at = now
        self.links: set[EntityLink] = set()
        self.idle_timer: Timer | None = None

    def touch(self) -> None:
        self.accessed_at = self.namespace.clock.now()

    def close_links(self, error: BrokerError, *, receivers_only: bool = False) -> None:
        for link in list(self.links):
            if link.is_receiver or not receivers_only:
                link.close_with(error)

    def queues(self) -> tuple[MessageQueue, ...]:
        raise NotImplementedError

    def availability(self) -> str:
        """Limited while a partition is down (the SDK's EntityAvailabilityStatus)."""
        return "Limited" if any(queue.down_partitions() for queue in self.queues()) else "Available"

    def check_all_partitions(self) -> None:
        for queue in self.queues():
            queue.check_all_partitions()


class Sendable(Entity):
    """An entity that can be sent to: all messages enter through its `inbox`."""

    description: QueueDescription | TopicDescription

    @property
    def inbox(self) -> MessageQueue:
        raise NotImplementedError

    @property
    def size_bytes(self) -> int:
        raise NotImplementedError

    def check(self, content: Content) -> None:
        """BrokerError for a message this entity does not take."""

    def check_status(self) -> None:
        if not self.description.status.can_send:
            raise BrokerError(ENTITY_DISABLED, f"The entity '{self.path}' is disabled for send operations.")

    def _check_room(self) -> None:
        size_mb = self.description.max_size_in_megabytes
        if self.size_bytes >= size_mb * MEGABYTE * len(self.inbox.partitions):
            raise BrokerError(
                QUOTA_EXCEEDED, f"The maximum entity size of '{self.path}' ({size_mb} MB) has been reached."
            )

    def send(
        self, content: Content, *, enqueued_as: int | None = None, source: str | None = None, hops: int = 0
    ) -> int:
        """The sequence number; 0 for a ping or a duplicate, which are accepted and dropped."""
        self._check_all((content,))
        partition = self.inbox.place(content)
        if content.is_ping:
            return 0
        number = self.inbox.put(
            content, enqueue_sequence_number=enqueued_as, dead_letter_source=source, hops=hops, partition=partition
        )
        return number or 0

    def send_all(self, contents: Sequence[Content]) -> list[int]:
        """All of them or none."""
        self._check_all(contents)
        inbox = self.inbox
        placed = [(content, inbox.place(content)) for content in contents]
        return [0 if content.is_ping else inbox.put(content, partition=partition) or 0 for content, partition in placed]

    def keep_all(self, contents: Sequence[Content]) -> None:
        """Without a question: they were asked about by `check_all` just now, and nothing may stop half-way."""
        for content in contents:
            if not content.is_ping:
                self.inbox.put(content)

    def check_all(self, contents: Sequence[Content]) -> None:
        """BrokerError when they would not be taken now."""
        self._check_all(contents)
        for content in contents:
            self.inbox.place(content)

    def _check_all(self, contents: Iterable[Content]) -> None:
        self.check_status()
        self._check_room()
        is_partitioned = len(self.inbox.partitions) > 1
        for content in contents:
            self.check(content)
            if is_partitioned:
                check_keys_agree(content)

    def answer_delay_s(self, contents: Sequence[Content], numbers: Sequence[int]) -> float:
        """How much later a send is answered, because a partition it went to is slow."""
        inbox = self.inbox
        if inbox.health is None or inbox.health.is_well:
            return 0.0
        placed = zip(contents, numbers, strict=True)
        indexes = {inbox.partition_for(content, number >> PARTITION_SHIFT).index for content, number in placed}
        return max((inbox.health_of(index).delay_s for index in indexes), default=0.0)

    def _partition_bytes(self, index: int) -> int:
        """What is in one partition of this entity."""
        raise NotImplementedError

    def partition_room(self, index: int) -> BrokerError | None:
        size_mb = self.description.max_size_in_megabytes
        if self._partition_bytes(index) < size_mb * MEGABYTE:
            return None
        text = f"Partition {index} of '{self.path}' has reached its size ({size_mb} MB)."
        return BrokerError(QUOTA_EXCEEDED, text)
