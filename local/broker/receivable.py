"""Entities that can be received from: their messages, dead letters, and messages that could not be forwarded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .descriptions import MessageCounts, QueueDescription, SubscriptionDescription
from .entity import Entity, seconds_or_never
from .errors import ENTITY_DISABLED, BrokerError
from .forwarding import forwarder
from .message_queue import ForwardFailure, MessageQueue, QueuePolicy
from .partition_health import Health
from .store import StoredMessage

if TYPE_CHECKING:
    from .namespace import Namespace

DEAD_LETTER_SUFFIX = "/$DeadLetterQueue"
TRANSFER_DEAD_LETTER_SUFFIX = "/$Transfer/$DeadLetterQueue"


class Receivable(Entity):
    description: QueueDescription | SubscriptionDescription

    def __init__(self, namespace: Namespace, path: str, partition_count: int) -> None:
        super().__init__(namespace, path)

        def queue(suffix: str) -> MessageQueue:
            return MessageQueue(
                path + suffix,
                QueuePolicy(),
                clock=namespace.clock,
                journal=namespace.journal,
                partition_count=1 if suffix else partition_count,
            )

        self.main = queue("")
        if partition_count > 1:
            self.main.health = Health(namespace.faults, namespace.name, self._fault_paths())
        self.dead_letters = queue(DEAD_LETTER_SUFFIX)
        self.transfer_dead_letters = queue(TRANSFER_DEAD_LETTER_SUFFIX)
        self.main.dead_letter_to = self._dead_letter
        self.main.forward_failed = self._forward_failed
        self.dead_letters.forward_failed = self._dead_letter_forward_failed

    def _fault_paths(self) -> tuple[str, ...]:
        """What faults of its partitions may call it."""
        return (self.path,)

    @property
    def size_bytes(self) -> int:
        return self.main.size_bytes + self.dead_letters.size_bytes + self.transfer_dead_letters.size_bytes

    def counts(self) -> MessageCounts:
        scheduled = self.main.scheduled_count
        waiting = self.main.message_count - scheduled
        forwards = self.description.forward_to is not None
        return MessageCounts(
            active=0 if forwards else waiting,
            dead_letter=self.dead_letters.message_count,
            scheduled=scheduled,
            transfer=waiting if forwards else 0,
            transfer_dead_letter=self.transfer_dead_letters.message_count,
        )

    def sub_queue(self, suffix: str) -> MessageQueue:
        return {
            "": self.main,
            DEAD_LETTER_SUFFIX.lower(): self.dead_letters,
            TRANSFER_DEAD_LETTER_SUFFIX.lower(): self.transfer_dead_letters,
        }[suffix.lower()]

    def queues(self) -> tuple[MessageQueue, ...]:
        return (self.main, self.dead_letters, self.transfer_dead_letters)

    def check_can_receive(self) -> None:
        if not self.description.status.can_receive:
            raise BrokerError(ENTITY_DISABLED, f"The entity '{self.path}' is disabled for receive operations.")

    def apply_description(self) -> None:
        description = self.description
        self.main.policy = self._policy()
        # Dead letters have no options of their own but the lock, which they share.
        self.dead_letters.policy = self.transfer_dead_letters.policy = QueuePolicy(
            lock_duration_s=self.main.policy.lock_duration_s, can_receive=self.main.policy.can_receive
        )
        self.main.forward = forwarder(self.namespace, self.path, description.forward_to)
        self.dead_letters.forward = forwarder(
            self.namespace, self.path, description.forward_dead_lettered_messages_to, dead_letters=True
        )
        if not description.status.can_receive:
            error = BrokerError(ENTITY_DISABLED, f"The entity '{self.path}' is disabled for receive operations.")
            self.close_links(error, receivers_only=True)
        if self.main.forward is not None:
            self.main.forward_all()
        if self.dead_letters.forward is not None:
            self.dead_letters.forward_all()

    def _policy(self) -> QueuePolicy:
        description = self.description
        return QueuePolicy(
            lock_duration_s=description.lock_duration.total_seconds(),
            max_delivery_count=description.max_delivery_count,
            requires_session=description.requires_session,
            default_time_to_live_s=seconds_or_never(description.default_message_time_to_live),
            dead_letter_expired=description.dead_lettering_on_message_expiration,
            can_receive=description.status.can_receive,
        )

    def _dead_letter(self, message: StoredMessage, reason: str | None, description: str | None) -> None:
        self._bury(self.dead_letters, message, reason, description)

    def _forward_failed(self, message: StoredMessage, failure: ForwardFailure) -> None:
        self._bury(self.transfer_dead_letters, message, failure.reason, failure.description)

    def _dead_letter_forward_failed(self, message: StoredMessage, failure: ForwardFailure) -> None:
        """It says already why it died; that is worth more than why it could not be moved."""
        self._bury(self.transfer_dead_letters, message, None, None)

    @staticmethod
    def _bury(grave: MessageQueue, message: StoredMessage, reason: str | None, description: str | None) -> None:
        marks: dict[str, object] = {"DeadLetterReason": reason, "DeadLetterErrorDescription": description}
        given = {name: text for name, text in marks.items() if text is not None}
        grave.put_dead_letter(message, message.content.with_application_properties(given) if given else message.content)
