"""Handing messages out: to consumers with credit in turn, to the entity they are forwarded to, or to the grave."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from .clock import Clock
from .consumers import Consumer
from .journal import Journal
from .queue_state import QueuePolicy, QueueState
from .sessions import Session
from .store import MessageState, StoredMessage

#: Messages under lock in one queue; while there are so many, no more are handed out.
LOCKS_MAX = 500_000

TTL_EXPIRED = ("TTLExpiredException", "The message expired and was dead lettered.")
MAX_DELIVERIES = "MaxDeliveryCountExceeded"


@dataclass(frozen=True, kw_only=True)
class ForwardFailure:
    """Why a message could not be handed on to the entity it should be forwarded to."""

    reason: str
    description: str


#: Hands a message on to another entity; None when that is done.
Forward = Callable[[StoredMessage], ForwardFailure | None]


class QueueDelivery(QueueState):
    def __init__(
        self, key: str, policy: QueuePolicy, *, clock: Clock, journal: Journal, partition_count: int = 1
    ) -> None:
        super().__init__(key, policy, clock=clock, journal=journal, partition_count=partition_count)
        #: Where dead letters go; None = this is a dead-letter queue itself.
        self.dead_letter_to: Callable[[StoredMessage, str | None, str | None], None] | None = None
        self.forward: Forward | None = None
        #: Where messages go whose forwarding failed.
        self.forward_failed: Callable[[StoredMessage, ForwardFailure], None] | None = None
        self._consumers: deque[Consumer] = deque()
        self._next_partition = 0

    # -- consumers

    def attach(self, consumer: Consumer) -> None:
        self._consumers.append(consumer)

    def detach(self, consumer: Consumer) -> None:
        """The link is gone. Its message locks stay until they run out: another link may still settle them."""
        if consumer in self._consumers:
            self._consumers.remove(consumer)

    def pump(self) -> None:
        """Give waiting messages to consumers with credit, one each in turn."""
        if not self.policy.can_receive or self.forward is not None:
            return
        consumers = self._consumers
        without_credit = 0
        while without_credit < len(consumers) and len(self._locks) < LOCKS_MAX:
            consumer = consumers[0]
            consumers.rotate(-1)
            if consumer.credit <= 0:
                without_credit += 1
                continue
            without_credit = 0
            message = self._take_ready()
            if message is None:
                return
            self._hand_over(consumer, message, None)

    def _take_ready(self) -> StoredMessage | None:
        partitions = self.partitions
        now = self._clock.now()
        down = self.down_partitions() if self.health is not None else ()
        for _ in range(len(partitions)):
            partition = partitions[self._next_partition]
            self._next_partition = (self._next_partition + 1) % len(partitions)
            if down and partition.index in down:
                continue
            while (message := partition.ready.take(partition.messages)) is not None:
                if not message.has_expired(now):
                    return message
                self._expire(message)
        return None

    def _hand_over(self, consumer: Consumer, message: StoredMessage, session: Session | None) -> None:
        """Receive-and-delete: at most once, so the message is gone before it leaves."""
        if consumer.deletes:
            self._remove(message)
        else:
            self._lock(message, session)
        consumer.deliver(message)

    # -- where a message goes next

    def _make_ready(self, message: StoredMessage) -> None:
        """The message can be delivered: to the next entity, or to any consumer."""
        if self.forward is not None:
            self._hand_on(message, self.forward)
            return
        partition = self.partitions[message.partition]
        partition.ready.push(message.sequence_number, partition.messages)
        if self._consumers:
            self.pump()

    def _return(self, message: StoredMessage, *, failed: bool) -> None:
        """An unlocked message goes back to its old place."""
        if self._survives(message, failed=failed):
            self._make_ready(message)

    def _survives(self, message: StoredMessage, *, failed: bool) -> bool:
        """Count a failed delivery; False when the message died of it or of age, or stays deferred."""
        if failed:
            message.delivery_count += 1
            limit = self.policy.max_delivery_count
            if limit is not None and message.delivery_count >= limit and message.state is MessageState.ACTIVE:
                self._bury(message, MAX_DELIVERIES, f"Message could not be consumed after {limit} delivery attempts.")
                return False
            self.journal.put(self.key, message)
        if message.state is not MessageState.ACTIVE:
            return False
        if message.has_expired(self._clock.now()):
            self._expire(message)
            return False
        return True

    def _expire(self, message: StoredMessage) -> None:
        if self.policy.dead_letter_expired:
            self._bury(message, *TTL_EXPIRED)
        else:
            self._remove(message)

    def _bury(self, message: StoredMessage, reason: str | None, description: str | None) -> None:
        assert self.dead_letter_to is not None, "a dead-letter queue neither expires nor limits deliveries"
        self.dead_letter_to(message, reason, description)
        self._remove(message)

    # -- auto-forward

    def forward_all(self) -> None:
        """Forwarding was switched on: move everything that waits."""
        for message in [m for m in self.messages() if m.is_waiting]:
            self._make_ready(message)

    def _hand_on(self, message: StoredMessage, forward: Forward) -> None:
        failure = forward(message)
        if failure is not None:
            assert self.forward_failed is not None, "a queue that forwards needs a place for what cannot be"
            self.forward_failed(message, failure)
        self._remove(message)
