"""Queues, topics and subscriptions: descriptions bound to the queue engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .content import Content
from .content_view import ContentView
from .descriptions import QueueDescription, RuleDescription, SubscriptionDescription, TopicDescription
from .entity import Entity, Sendable, seconds_or_never
from .errors import NOT_ALLOWED, BrokerError
from .filters import Changes, FilterView, compile_action, compile_filter
from .message_queue import MessageQueue, QueuePolicy
from .partition_health import Health
from .partitioning import PARTITION_COUNT
from .receivable import Receivable
from .store import StoredMessage

if TYPE_CHECKING:
    from .namespace import Namespace

#: The reason the service gives where a message without session id meets a subscription with sessions.
SESSION_ID_IS_NULL = "Session ID is null"


class Queue(Receivable, Sendable):
    kind = "queue"

    def __init__(self, namespace: Namespace, path: str, description: QueueDescription) -> None:
        super().__init__(namespace, path, PARTITION_COUNT if description.enable_partitioning else 1)
        self.description: QueueDescription = description
        if description.enable_partitioning:
            self.main.partition_room = self.partition_room
        self.apply_description()

    def update(self, description: QueueDescription) -> None:
        self.description = description
        self.updated_at = self.namespace.clock.now()
        self.apply_description()

    def _policy(self) -> QueuePolicy:
        return replace(super()._policy(), duplicate_window_s=duplicate_window_s(self.description))

    @property
    def inbox(self) -> MessageQueue:
        return self.main

    def _partition_bytes(self, index: int) -> int:
        return self.main.partitions[index].size_bytes

    def check(self, content: Content) -> None:
        if self.description.requires_session and content.session_id is None:
            raise BrokerError(NOT_ALLOWED, f"'{self.path}' requires sessions: set the message's session id.")


class Topic(Sendable):
    """Messages pass through `inbox` (schedule, duplicate history, sequence number) to the subscriptions."""

    kind = "topic"

    def __init__(self, namespace: Namespace, path: str, description: TopicDescription) -> None:
        super().__init__(namespace, path)
        self.description: TopicDescription = description
        self.subscriptions: dict[str, Subscription] = {}
        self._inbox = MessageQueue(
            path,
            QueuePolicy(),
            clock=namespace.clock,
            journal=namespace.journal,
            partition_count=PARTITION_COUNT if description.enable_partitioning else 1,
        )
        self._inbox.forward = self._publish
        if description.enable_partitioning:
            self._inbox.health = Health(namespace.faults, namespace.name, (path,))
            self._inbox.partition_room = self.partition_room
        self.apply_description()

    @property
    def inbox(self) -> MessageQueue:
        return self._inbox

    @property
    def size_bytes(self) -> int:
        return self.inbox.size_bytes + sum(s.size_bytes for s in self.subscriptions.values())

    @property
    def scheduled_count(self) -> int:
        return self.inbox.scheduled_count

    def update(self, description: TopicDescription) -> None:
        self.description = description
        self.updated_at = self.namespace.clock.now()
        self.apply_description()

    def _partition_bytes(self, index: int) -> int:
        copies = sum(subscription.main.partitions[index].size_bytes for subscription in self.subscriptions.values())
        return self.inbox.partitions[index].size_bytes + copies

    def apply_description(self) -> None:
        self.inbox.policy = QueuePolicy(duplicate_window_s=duplicate_window_s(self.description))

    def queues(self) -> tuple[MessageQueue, ...]:
        return (self.inbox,)

    def _publish(self, message: StoredMessage) -> None:
        ttl_s = seconds_or_never(self.description.default_message_time_to_live)
        for subscription in list(self.subscriptions.values()):
            subscription.offer(message, ttl_s)


@dataclass(frozen=True, kw_only=True)
class Rule:
    description: RuleDescription
    created_at: float
    matcher: Callable[[FilterView], bool]
    transform: Callable[[FilterView], Changes] | None

    @classmethod
    def compile(cls, description: RuleDescription, created_at: float) -> Rule:
        return cls(
            description=description,
            created_at=created_at,
            matcher=compile_filter(description.filter),
            transform=compile_action(description.action) if description.action is not None else None,
        )


class Subscription(Receivable):
    kind = "subscription"

    def __init__(self, topic: Topic, name: str, description: SubscriptionDescription) -> None:
        self.topic = topic
        self.topic_path = topic.path
        super().__init__(topic.namespace, f"{topic.path}/Subscriptions/{name}", len(topic.inbox.partitions))
        self.name = name
        self.description: SubscriptionDescription = description
        self.rules: dict[str, Rule] = {}
        self.apply_description()

    def update(self, description: SubscriptionDescription) -> None:
        self.description = description
        self.updated_at = self.namespace.clock.now()
        self.apply_description()

    def _fault_paths(self) -> tuple[str, ...]:
        return (self.topic_path, self.path)

    def offer(self, message: StoredMessage, topic_ttl_s: float | None) -> None:
        """Take the copies that this subscription's rules ask for: one for all plain matches, one for each action."""
        view = ContentView(message.content, enqueued_at=message.enqueued_at, sequence_number=message.sequence_number)
        plain = False
        copies: list[Content] = []
        try:
            for rule in self.rules.values():
                if not rule.matcher(view):
                    continue
                if rule.transform is None:
                    plain = True
                else:
                    changed = message.content.changed_by(rule.transform(view))
                    copies.append(changed.with_application_properties({"RuleName": rule.description.name}))
        except BrokerError as error:
            # The sender is not to blame for a rule that cannot be carried out on its message.
            if self.description.dead_lettering_on_filter_evaluation_exceptions:
                self._dead_letter(message, "FilterEvaluationException", error.description)
            return
        for content in ([message.content] if plain else []) + copies:
            self._take(message, content.with_ttl_at_most(topic_ttl_s))

    def _take(self, message: StoredMessage, content: Content) -> None:
        if self.description.requires_session and content.session_id is None:
            self._dead_letter(
                message, SESSION_ID_IS_NULL, "Session enabled entity doesn't allow a message whose session id is null."
            )
            return
        number = message.enqueue_sequence_number or message.sequence_number
        # A copy stays in the partition its message came through, unless an action gave it another key.
        partition = self.main.partition_for(content, message.partition)
        self.main.put(content, enqueue_sequence_number=number, hops=message.hops, partition=partition)


def duplicate_window_s(description: QueueDescription | TopicDescription) -> float | None:
    if not description.requires_duplicate_detection:
        return None
    return description.duplicate_detection_history_time_window.total_seconds()


__all__ = ["Entity", "Queue", "Receivable", "Rule", "Subscription", "Topic"]
