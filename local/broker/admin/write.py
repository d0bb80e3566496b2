"""Entities as Atom entries: what they are set to, and how they are doing."""

from __future__ import annotations

from collections.abc import Iterable

from local.broker import validation
from local.broker.descriptions import (
    AuthorizationRule,
    CorrelationFilter,
    MessageCounts,
    QueueDescription,
    TopicDescription,
)
from local.broker.durations import format_duration
from local.broker.entities import Queue, Rule, Subscription, Topic
from local.broker.namespace import Namespace

from .atom import Entry, Place, description, element, instant
from .names import COUNTS, QUEUE, SUBSCRIPTION, TOPIC
from .write_rules import rule_description

#: From these versions on, topics show how many filters they have, and entities how large a message may be.
FILTER_COUNTS_SINCE = "2024-05"
MESSAGE_SIZE_SINCE = "2021-05"


def queue_entry(queue: Queue, place: Place) -> Entry:
    settings, counts = queue.description, queue.counts()
    parts = [
        element("LockDuration", format_duration(settings.lock_duration)),
        element("MaxSizeInMegabytes", validation.shown_size_mb(settings)),
        element("RequiresDuplicateDetection", settings.requires_duplicate_detection),
        element("RequiresSession", settings.requires_session),
        element("DefaultMessageTimeToLive", format_duration(settings.default_message_time_to_live)),
        element("DeadLetteringOnMessageExpiration", settings.dead_lettering_on_message_expiration),
        _duplicate_window(settings),
        element("MaxDeliveryCount", settings.max_delivery_count),
        element("EnableBatchedOperations", settings.enable_batched_operations),
        element("SizeInBytes", queue.size_bytes),
        element("MessageCount", counts.total),
        element("IsAnonymousAccessible", False),
        _authorization_rules(settings.authorization_rules, queue),
        element("Status", settings.status.value),
        _times(queue),
        element("SupportOrdering", not settings.enable_partitioning),
        _counts(counts),
        element("AutoDeleteOnIdle", format_duration(settings.auto_delete_on_idle)),
        element("EnablePartitioning", settings.enable_partitioning),
        element("EntityAvailabilityStatus", queue.availability()),
        element("EnableExpress", settings.enable_express),
        element("ForwardTo", _address(settings.forward_to, place)),
        element("UserMetadata", settings.user_metadata),
        element("ForwardDeadLetteredMessagesTo", _address(settings.forward_dead_lettered_messages_to, place)),
        _message_size(settings, queue.namespace.tier, place),
    ]
    return _entry(queue.path, queue.path, queue, description(QUEUE, parts))


def topic_entry(topic: Topic, place: Place) -> Entry:
    settings = topic.description
    parts = [
        element("DefaultMessageTimeToLive", format_duration(settings.default_message_time_to_live)),
        element("MaxSizeInMegabytes", validation.shown_size_mb(settings)),
        element("RequiresDuplicateDetection", settings.requires_duplicate_detection),
        _duplicate_window(settings),
        element("EnableBatchedOperations", settings.enable_batched_operations),
        element("SizeInBytes", topic.size_bytes),
        element("FilteringMessagesBeforePublishing", settings.filtering_messages_before_publishing),
        element("IsAnonymousAccessible", False),
        _authorization_rules(settings.authorization_rules, topic),
        element("Status", settings.status.value),
        _times(topic),
        element("SupportOrdering", settings.support_ordering),
        _counts(MessageCounts(scheduled=topic.scheduled_count)),
        element("SubscriptionCount", len(topic.subscriptions)),
        _filter_counts(topic, place),
        element("AutoDeleteOnIdle", format_duration(settings.auto_delete_on_idle)),
        element("EnablePartitioning", settings.enable_partitioning),
        element("EntityAvailabilityStatus", topic.availability()),
        element("EnableSubscriptionPartitioning", False),
        element("EnableExpress", settings.enable_express),
        element("UserMetadata", settings.user_metadata),
        _message_size(settings, topic.namespace.tier, place),
    ]
    return _entry(topic.path, topic.path, topic, description(TOPIC, parts))


def subscription_entry(subscription: Subscription, place: Place) -> Entry:
    settings, counts = subscription.description, subscription.counts()
    parts = [
        element("LockDuration", format_duration(settings.lock_duration)),
        element("RequiresSession", settings.requires_session),
        element("DefaultMessageTimeToLive", format_duration(settings.default_message_time_to_live)),
        element("DeadLetteringOnMessageExpiration", settings.dead_lettering_on_message_expiration),
        element("DeadLetteringOnFilterEvaluationExceptions", settings.dead_lettering_on_filter_evaluation_exceptions),
        element("MessageCount", counts.total),
        element("MaxDeliveryCount", settings.max_delivery_count),
        element("EnableBatchedOperations", settings.enable_batched_operations),
        element("Status", settings.status.value),
        element("ForwardTo", _address(settings.forward_to, place)),
        _times(subscription),
        _counts(counts),
        element("ForwardDeadLetteredMessagesTo", _address(settings.forward_dead_lettered_messages_to, place)),
        element("AutoDeleteOnIdle", format_duration(settings.auto_delete_on_idle)),
        element("EntityAvailabilityStatus", subscription.availability()),
        element("UserMetadata", settings.user_metadata),
    ]
    path = f"{subscription.topic_path}/subscriptions/{subscription.name}"
    return _entry(subscription.name, path, subscription, description(SUBSCRIPTION, parts))


def rule_entry(rule: Rule, subscription: Subscription) -> Entry:
    name = rule.description.name
    return Entry(
        title=name,
        path=f"{subscription.topic_path}/subscriptions/{subscription.name}/rules/{name}",
        published_at=rule.created_at,
        updated_at=rule.created_at,
        description=rule_description(rule),
    )


def namespace_entry(namespace: Namespace) -> Entry:
    is_premium = namespace.tier == validation.PREMIUM
    parts = [
        element("Alias", ""),
        element("CreatedTime", instant(namespace.created_at)),
        element("MessagingSKU", namespace.tier),
        element("MessagingUnits", 1 if is_premium else None),
        element("ModifiedTime", instant(namespace.created_at)),
        element("Name", namespace.name),
        element("NamespaceType", "Messaging"),
    ]
    return Entry(
        title=namespace.name,
        path="$namespaceinfo",
        published_at=namespace.created_at,
        updated_at=namespace.created_at,
        description=description("NamespaceInfo", parts),
    )


def filter_counts(topic: Topic) -> tuple[int, int]:
    """SQL filters (true and false ones are among them) and correlation filters of all subscriptions."""
    filters = [rule.description.filter for sub in topic.subscriptions.values() for rule in sub.rules.values()]
    correlation = sum(isinstance(one, CorrelationFilter) for one in filters)
    return len(filters) - correlation, correlation


def _entry(title: str, path: str, entity: Queue | Topic | Subscription, body: str) -> Entry:
    return Entry(title=title, path=path, published_at=entity.created_at, updated_at=entity.updated_at, description=body)


def _times(entity: Queue | Topic | Subscription) -> str:
    times = {"CreatedAt": entity.created_at, "UpdatedAt": entity.updated_at, "AccessedAt": entity.accessed_at}
    return "".join(element(name, instant(at)) for name, at in times.items())


def _duplicate_window(settings: QueueDescription | TopicDescription) -> str:
    window = settings.duplicate_detection_history_time_window
    return element("DuplicateDetectionHistoryTimeWindow", format_duration(window))


def _counts(counts: MessageCounts) -> str:
    shown = {
        "ActiveMessageCount": counts.active,
        "DeadLetterMessageCount": counts.dead_letter,
        "ScheduledMessageCount": counts.scheduled,
        "TransferDeadLetterMessageCount": counts.transfer_dead_letter,
        "TransferMessageCount": counts.transfer,
    }
    inner = "".join(f"<d:{name}>{count}</d:{name}>" for name, count in shown.items())
    return f'<CountDetails xmlns:d="{COUNTS}">{inner}</CountDetails>'


def _filter_counts(topic: Topic, place: Place) -> str:
    if place.api_version < FILTER_COUNTS_SINCE:
        return ""
    sql, correlation = filter_counts(topic)
    return element("SqlFilterCount", sql) + element("CorrelationFilterCount", correlation)


def _message_size(settings: QueueDescription | TopicDescription, tier: str, place: Place) -> str:
    if place.api_version < MESSAGE_SIZE_SINCE:
        return ""
    default = validation.MESSAGE_SIZE_KB[0] if tier == validation.PREMIUM else validation.STANDARD_MESSAGE_SIZE_KB
    return element("MaxMessageSizeInKilobytes", settings.max_message_size_in_kilobytes or default)


def _address(target: str | None, place: Place) -> str | None:
    """Targets of forwarding are shown as addresses, however they were given."""
    return target if target is None or "://" in target else f"sb://{place.host}/{target}"


def _authorization_rules(rules: Iterable[AuthorizationRule], entity: Queue | Topic) -> str:
    return f"<AuthorizationRules>{''.join(_authorization_rule(rule, entity) for rule in rules)}</AuthorizationRules>"


def _authorization_rule(rule: AuthorizationRule, entity: Queue | Topic) -> str:
    rights = "".join(element("AccessRights", right) for right in rule.rights)
    parts = [
        element("ClaimType", rule.claim_type),
        element("ClaimValue", rule.claim_value),
        f"<Rights>{rights}</Rights>",
        element("CreatedTime", instant(entity.created_at)),
        element("ModifiedTime", instant(entity.updated_at)),
        element("KeyName", rule.key_name),
        element("PrimaryKey", rule.primary_key),
        element("SecondaryKey", rule.secondary_key),
    ]
    return f'<AuthorizationRule i:type="SharedAccessAuthorizationRule">{"".join(parts)}</AuthorizationRule>'
