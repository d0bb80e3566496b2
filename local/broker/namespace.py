"""A namespace: the entities by path, their keys, and the way from an AMQP address to a queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from .auth import KeyRing
from .clock import Clock
from .description_json import dump_description
from .descriptions import QueueDescription, RuleDescription, SubscriptionDescription, TopicDescription
from .entities import Entity, Queue, Receivable, Rule, Subscription, Topic
from .entity import seconds_or_never
from .errors import ARGUMENT_ERROR, RESOURCE_DELETED, BrokerError, EntityExists, EntityNotFound
from .faults import FaultPlan
from .journal import Journal
from .message_queue import MessageQueue
from .receivable import DEAD_LETTER_SUFFIX, TRANSFER_DEAD_LETTER_SUFFIX

KILOBYTE = 1024
STANDARD_MESSAGE_BYTES_MAX = 256 * KILOBYTE
PREMIUM_MESSAGE_BYTES_MAX = 1024 * KILOBYTE
SUBSCRIPTIONS = "/subscriptions/"
MANAGEMENT = "/$management"


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a link points: an entity, one of its queues if it can be received from, and whether it is $management."""

    entity: Queue | Topic | Subscription
    queue: MessageQueue | None
    is_management: bool


class Namespace:
    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        journal: Journal,
        keys: KeyRing,
        tier: str = "Standard",
        faults: FaultPlan | None = None,
    ) -> None:
        self.name = name
        #: Faults of single partitions are asked for here; all others strike connections.
        self.faults = faults or FaultPlan()
        self.faults.on_change(self._health_may_have_changed)
        self.tier = tier
        self.clock = clock
        self.journal = journal
        self.keys = keys
        self.created_at = clock.now()
        self._entities: dict[str, Queue | Topic] = {}

    # -- queues and topics share one space of paths

    def create_queue(self, path: str, description: QueueDescription) -> Queue:
        self._check_free(path)
        queue = Queue(self, path, description)
        self._register(queue)
        return queue

    def create_topic(self, path: str, description: TopicDescription) -> Topic:
        self._check_free(path)
        topic = Topic(self, path, description)
        self._register(topic)
        return topic

    def update_queue(self, path: str, description: QueueDescription) -> Queue:
        queue = self.queue(path)
        queue.update(description)
        self._save(queue)
        self._watch_idle(queue)
        return queue

    def update_topic(self, path: str, description: TopicDescription) -> Topic:
        topic = self.topic(path)
        topic.update(description)
        self._save(topic)
        self._watch_idle(topic)
        return topic

    def queue(self, path: str) -> Queue:
        entity = self._entities.get(path.lower())
        if not isinstance(entity, Queue):
            raise EntityNotFound(path)
        return entity

    def topic(self, path: str) -> Topic:
        entity = self._entities.get(path.lower())
        if not isinstance(entity, Topic):
            raise EntityNotFound(path)
        return entity

    def queues(self) -> list[Queue]:
        return [entity for _, entity in sorted(self._entities.items()) if isinstance(entity, Queue)]

    def topics(self) -> list[Topic]:
        return [entity for _, entity in sorted(self._entities.items()) if isinstance(entity, Topic)]

    def delete_queue(self, path: str) -> None:
        self._drop(self.queue(path))

    def delete_topic(self, path: str) -> None:
        topic = self.topic(path)
        for subscription in list(topic.subscriptions.values()):
            self.delete_subscription(path, subscription.name)
        self._drop(topic)

    # -- subscriptions and rules

    def create_subscription(
        self, topic_path: str, name: str, description: SubscriptionDescription, rule: RuleDescription
    ) -> Subscription:
        topic = self.topic(topic_path)
        if name.lower() in topic.subscriptions:
            raise EntityExists(f"{topic.path}/Subscriptions/{name}")
        compiled = Rule.compile(rule, self.clock.now())
        subscription = Subscription(topic, name, description)
        subscription.rules[rule.name.lower()] = compiled
        topic.subscriptions[name.lower()] = subscription
        self._save(subscription)
        self._watch_idle(subscription)
        return subscription

    def update_subscription(self, topic_path: str, name: str, description: SubscriptionDescription) -> Subscription:
        subscription = self.subscription(topic_path, name)
        subscription.update(description)
        self._save(subscription)
        self._watch_idle(subscription)
        return subscription

    def subscription(self, topic_path: str, name: str) -> Subscription:
        subscription = self.topic(topic_path).subscriptions.get(name.lower())
        if subscription is None:
            raise EntityNotFound(f"{topic_path}/Subscriptions/{name}")
        return subscription

    def subscriptions(self, topic_path: str) -> list[Subscription]:
        return [s for _, s in sorted(self.topic(topic_path).subscriptions.items())]

    def delete_subscription(self, topic_path: str, name: str) -> None:
        subscription = self.subscription(topic_path, name)
        del subscription.topic.subscriptions[name.lower()]
        self._forget(subscription)

    def create_rule(
        self, topic_path: str, subscription_name: str, description: RuleDescription, *, created_at: float | None = None
    ) -> Rule:
        subscription = self.subscription(topic_path, subscription_name)
        if description.name.lower() in subscription.rules:
            raise EntityExists(f"{subscription.path}/rules/{description.name}")
        rule = Rule.compile(description, self.clock.now() if created_at is None else created_at)
        subscription.rules[description.name.lower()] = rule
        self._save(subscription)
        return rule

    def update_rule(self, topic_path: str, subscription_name: str, description: RuleDescription) -> Rule:
        subscription = self.subscription(topic_path, subscription_name)
        previous = self.rule(topic_path, subscription_name, description.name)
        rule = subscription.rules[description.name.lower()] = Rule.compile(description, previous.created_at)
        self._save(subscription)
        return rule

    def rule(self, topic_path: str, subscription_name: str, name: str) -> Rule:
        subscription = self.subscription(topic_path, subscription_name)
        rule = subscription.rules.get(name.lower())
        if rule is None:
            raise EntityNotFound(f"{subscription.path}/rules/{name}")
        return rule

    def rules(self, topic_path: str, subscription_name: str) -> list[Rule]:
        return list(self.subscription(topic_path, subscription_name).rules.values())

    def delete_rule(self, topic_path: str, subscription_name: str, name: str) -> None:
        self.rule(topic_path, subscription_name, name)
        subscription = self.subscription(topic_path, subscription_name)
        del subscription.rules[name.lower()]
        self._save(subscription)

    # -- addresses

    def sendable(self, path: str) -> Queue | Topic:
        """The queue or topic at a path, also when it is written as an address (`sb://host/path`)."""
        entity = self._entities.get(path_of(path).lower())
        if entity is None:
            raise EntityNotFound(path_of(path))
        return entity

    def resolve(self, address: str) -> Address:
        """Queue, topic, subscription, their sub-queues, and `$management` of each; case does not matter."""
        path = path_of(address)
        lowered = path.lower()
        is_management = lowered.endswith(MANAGEMENT)
        if is_management:
            path, lowered = path[: -len(MANAGEMENT)], lowered[: -len(MANAGEMENT)]
        suffix = ""
        for candidate in (TRANSFER_DEAD_LETTER_SUFFIX, DEAD_LETTER_SUFFIX):
            if lowered.endswith(candidate.lower()):
                suffix = candidate
                path, lowered = path[: -len(candidate)], lowered[: -len(candidate)]
                break
        entity = self._receivable_or_topic(path, lowered)
        queue = entity.sub_queue(suffix) if isinstance(entity, Receivable) else None
        if queue is None and suffix:
            raise BrokerError(ARGUMENT_ERROR, f"The topic '{path}' has no sub-queues; its subscriptions have.")
        return Address(entity=entity, queue=queue, is_management=is_management)

    def _receivable_or_topic(self, path: str, lowered: str) -> Queue | Topic | Subscription:
        entity = self._entities.get(lowered)
        if entity is not None:
            return entity
        at = lowered.rfind(SUBSCRIPTIONS)
        if at > 0:
            return self.subscription(path[:at], path[at + len(SUBSCRIPTIONS) :])
        raise EntityNotFound(path)

    def message_bytes_max(self, entity: Queue | Topic) -> int:
        asked = entity.description.max_message_size_in_kilobytes
        if self.tier == "Premium":
            return asked * KILOBYTE if asked else PREMIUM_MESSAGE_BYTES_MAX
        return STANDARD_MESSAGE_BYTES_MAX

    def all_entities(self) -> list[Queue | Topic | Subscription]:
        found: list[Queue | Topic | Subscription] = []
        for entity in self._entities.values():
            found.append(entity)
            if isinstance(entity, Topic):
                found.extend(entity.subscriptions.values())
        return found

    def message_queues(self) -> Iterator[MessageQueue]:
        for entity in self.all_entities():
            yield from entity.queues()

    def partitioned_count(self) -> int:
        return sum(entity.description.enable_partitioning for entity in self._entities.values())

    def _health_may_have_changed(self) -> None:
        for queue in self.message_queues():
            if queue.health is not None:
                queue.health_changed()

    # -- keeping and forgetting

    def use_journal(self, journal: Journal) -> None:
        self.journal = journal
        for queue in self.message_queues():
            queue.journal = journal

    def _check_free(self, path: str) -> None:
        if path.lower() in self._entities:
            raise EntityExists(path)

    def _register(self, entity: Queue | Topic) -> None:
        self._entities[entity.path.lower()] = entity
        self._save(entity)
        self._watch_idle(entity)

    def _save(self, entity: Queue | Topic | Subscription) -> None:
        self.journal.set_entity(entity.path, entity.kind, dump_description(entity))

    def _drop(self, entity: Queue | Topic) -> None:
        del self._entities[entity.path.lower()]
        self._forget(entity)

    def _forget(self, entity: Queue | Topic | Subscription) -> None:
        if entity.idle_timer is not None:
            entity.idle_timer.cancel()
        self.journal.remove_entity(entity.path, tuple(queue.key for queue in entity.queues()))
        for queue in entity.queues():
            queue.close()
        entity.close_links(BrokerError(RESOURCE_DELETED, f"The messaging entity '{entity.path}' was deleted."))

    def _watch_idle(self, entity: Queue | Topic | Subscription) -> None:
        """AutoDeleteOnIdle: an entity that nobody is attached to or sends to for that long is deleted."""
        if entity.idle_timer is not None:
            entity.idle_timer.cancel()
        idle_s = seconds_or_never(entity.description.auto_delete_on_idle)
        if idle_s is None:
            return

        def look() -> None:
            if not self.is_alive(entity):
                return
            if entity.links:
                entity.touch()
            if entity.accessed_at + idle_s > self.clock.now():
                self._watch_idle(entity)
            elif isinstance(entity, Subscription):
                self.delete_subscription(entity.topic_path, entity.name)
            elif isinstance(entity, Topic):
                self.delete_topic(entity.path)
            else:
                self.delete_queue(entity.path)

        entity.idle_timer = self.clock.call_at(entity.accessed_at + idle_s, look)

    def is_alive(self, entity: Entity) -> bool:
        if isinstance(entity, Subscription):
            return entity.topic.subscriptions.get(entity.name.lower()) is entity
        return self._entities.get(entity.path.lower()) is entity


def path_of(address: str) -> str:
    """`amqps://host:port/a/b` or `/a/b` or `a/b` -> `a/b`."""
    path = urlsplit(address).path if "://" in address else address
    return unquote(path).strip("/") if "%" in path else path.strip("/")
