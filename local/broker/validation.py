"""Limits of entities and the rules of change, as pure functions that raise what the service would answer 400 to.

Quotas: https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas. Where that page and the SDK's own
live tests disagree, the tests win: an entity may forward to itself, and one with sessions may forward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from .descriptions import (
    MAX_TIMESPAN,
    AuthorizationRule,
    QueueDescription,
    RuleDescription,
    SubscriptionDescription,
    TopicDescription,
)
from .durations import format_duration as format_duration
from .durations import parse_duration as parse_duration
from .errors import InvalidDescription
from .filters import compile_action, compile_filter
from .naming import check_length, check_path, check_rule_name, check_subscription_name

BASIC, STANDARD, PREMIUM = "Basic", "Standard", "Premium"
TIERS = (BASIC, STANDARD, PREMIUM)

KEY_NAME_CHARS_MAX = 256
KEY_CHARS_MAX = 256
METADATA_CHARS_MAX = 1024
AUTHORIZATION_RULES_MAX = 12

LOCK_DURATION = (timedelta(seconds=5), timedelta(minutes=5))
TIME_TO_LIVE = (timedelta(seconds=1), MAX_TIMESPAN)
DUPLICATE_WINDOW = (timedelta(seconds=20), timedelta(days=7))
AUTO_DELETE_ON_IDLE = (timedelta(minutes=5), MAX_TIMESPAN)
DELIVERY_COUNT = (1, 2**31 - 1)
SIZE_STEP_MB = 1024
SIZE_MAX_MB = {BASIC: 5 * 1024, STANDARD: 5 * 1024, PREMIUM: 80 * 1024}
#: A partitioned entity has the size it was made with once for each partition, and is shown with the sum.
PARTITION_COUNT = 16
MESSAGE_SIZE_KB = (1024, 102_400)
#: What an entity that cannot be given a message size is shown with.
STANDARD_MESSAGE_SIZE_KB = 256

_RIGHTS = ("Manage", "Send", "Listen")

Sized = TypeVar("Sized", QueueDescription, TopicDescription)
Ordered = TypeVar("Ordered", int, timedelta)


# -- whole entities: name, description, change and forwarding at once


def validate_queue(
    path: str,
    description: QueueDescription,
    *,
    tier: str,
    exists: Callable[[str], bool] | None = None,
    before: QueueDescription | None = None,
) -> None:
    """`exists` tells whether a path can be sent to (no forwarding check without it); `before` is what is updated."""
    check_path(path)
    check_queue(description, tier)
    if before is not None:
        check_queue_change(before, description)
    if exists is not None:
        check_forwarding(description, exists)


def validate_topic(
    path: str, description: TopicDescription, *, tier: str, before: TopicDescription | None = None
) -> None:
    check_path(path)
    check_topic(description, tier)
    if before is not None:
        check_topic_change(before, description)


def validate_subscription(
    topic_path: str,
    name: str,
    description: SubscriptionDescription,
    *,
    tier: str = STANDARD,
    exists: Callable[[str], bool] | None = None,
    before: SubscriptionDescription | None = None,
) -> None:
    check_path(topic_path)
    check_subscription_name(name)
    check_subscription(description, tier)
    if before is not None:
        check_subscription_change(before, description)
    if exists is not None:
        check_forwarding(description, exists)


def validate_rule(description: RuleDescription) -> None:
    """FilterError for a filter or action that cannot be understood."""
    check_rule_name(description.name)
    compile_filter(description.filter)
    if description.action is not None:
        compile_action(description.action)


# -- descriptions


def check_queue(description: QueueDescription, tier: str) -> None:
    _check_receiving(description)
    _check_sized(description, tier)
    if tier == BASIC:
        _refuse_in_basic("RequiresSession", description.requires_session)
        _refuse_forwarding_in_basic(description)


def check_topic(description: TopicDescription, tier: str) -> None:
    if tier == BASIC:
        raise InvalidDescription("Topics are not available in the Basic tier.")
    _check_sized(description, tier)


def check_subscription(description: SubscriptionDescription, tier: str) -> None:
    _check_receiving(description)
    if tier == BASIC:
        raise InvalidDescription("Subscriptions are not available in the Basic tier.")


def _check_receiving(description: QueueDescription | SubscriptionDescription) -> None:
    _check_range("LockDuration", description.lock_duration, LOCK_DURATION)
    _check_range("MaxDeliveryCount", description.max_delivery_count, DELIVERY_COUNT)
    _check_common(description)


def _check_sized(description: QueueDescription | TopicDescription, tier: str) -> None:
    _check_common(description)
    window = description.duplicate_detection_history_time_window
    _check_range("DuplicateDetectionHistoryTimeWindow", window, DUPLICATE_WINDOW)
    _check_size(description.max_size_in_megabytes, tier)
    _check_message_size(description.max_message_size_in_kilobytes, tier)
    _check_authorization_rules(description.authorization_rules)
    if description.enable_express and description.requires_duplicate_detection:
        raise InvalidDescription("EnableExpress and RequiresDuplicateDetection cannot be enabled together.")
    if tier == PREMIUM and description.enable_partitioning:
        raise InvalidDescription("EnablePartitioning is not available in the Premium tier.")
    if tier == PREMIUM and description.enable_express:
        raise InvalidDescription("EnableExpress is not available in the Premium tier.")
    if tier == BASIC:
        _refuse_in_basic("RequiresDuplicateDetection", description.requires_duplicate_detection)


def _check_common(description: QueueDescription | TopicDescription | SubscriptionDescription) -> None:
    _check_range("DefaultMessageTimeToLive", description.default_message_time_to_live, TIME_TO_LIVE)
    _check_range("AutoDeleteOnIdle", description.auto_delete_on_idle, AUTO_DELETE_ON_IDLE)
    metadata = description.user_metadata
    if metadata is not None and len(metadata) > METADATA_CHARS_MAX:
        raise InvalidDescription(f"UserMetadata is {len(metadata)} characters long; the limit is {METADATA_CHARS_MAX}.")


def _refuse_in_basic(name: str, is_on: bool) -> None:
    if is_on:
        raise InvalidDescription(f"{name} is not available in the Basic tier.")


def _refuse_forwarding_in_basic(description: QueueDescription) -> None:
    _refuse_in_basic("ForwardTo", description.forward_to is not None)
    target = description.forward_dead_lettered_messages_to
    _refuse_in_basic("ForwardDeadLetteredMessagesTo", target is not None)


def _check_range(name: str, value: Ordered, limits: tuple[Ordered, Ordered]) -> None:
    low, high = limits
    if not low <= value <= high:
        shown = "for ever" if high == MAX_TIMESPAN else str(high)
        raise InvalidDescription(f"{name} is {value}; it must be between {low} and {shown}.")


def _check_size(size_mb: int, tier: str) -> None:
    largest = SIZE_MAX_MB[tier]
    if size_mb % SIZE_STEP_MB or not SIZE_STEP_MB <= size_mb <= largest:
        raise InvalidDescription(
            f"MaxSizeInMegabytes is {size_mb}; it must be a multiple of {SIZE_STEP_MB} up to {largest} in this tier."
        )


def _check_message_size(size_kb: int | None, tier: str) -> None:
    if size_kb is None:
        return
    low, high = MESSAGE_SIZE_KB
    if tier != PREMIUM and size_kb != STANDARD_MESSAGE_SIZE_KB:
        raise InvalidDescription("MaxMessageSizeInKilobytes can only be set in the Premium tier.")
    if tier == PREMIUM and not low <= size_kb <= high:
        raise InvalidDescription(f"MaxMessageSizeInKilobytes is {size_kb}; it must be between {low} and {high}.")


def _check_authorization_rules(rules: tuple[AuthorizationRule, ...]) -> None:
    if len(rules) > AUTHORIZATION_RULES_MAX:
        raise InvalidDescription(f"An entity may have {AUTHORIZATION_RULES_MAX} authorization rules.")
    names = [rule.key_name for rule in rules]
    if len(set(names)) != len(names):
        raise InvalidDescription("The key names of an entity's authorization rules must differ.")
    for rule in rules:
        _check_authorization_rule(rule)


def _check_authorization_rule(rule: AuthorizationRule) -> None:
    check_length("The KeyName of an authorization rule", rule.key_name, KEY_NAME_CHARS_MAX)
    check_length(f"The PrimaryKey of the rule '{rule.key_name}'", rule.primary_key, KEY_CHARS_MAX)
    if len(rule.secondary_key) > KEY_CHARS_MAX:
        raise InvalidDescription(f"The SecondaryKey of the rule '{rule.key_name}' is longer than {KEY_CHARS_MAX}.")
    rights = set(rule.rights)
    unknown = sorted(rights - set(_RIGHTS))
    if unknown or not rights:
        shown = ", ".join(unknown) or "nothing"
        raise InvalidDescription(f"The rule '{rule.key_name}' gives {shown}; rights are Manage, Send and Listen.")
    if "Manage" in rights and len(rights) != len(_RIGHTS):
        raise InvalidDescription(f"The rule '{rule.key_name}' gives Manage, which needs Send and Listen as well.")


# -- change


def check_queue_change(before: QueueDescription, after: QueueDescription) -> None:
    _check_unchanged("RequiresSession", before.requires_session, after.requires_session)
    _check_sized_change(before, after)


def check_topic_change(before: TopicDescription, after: TopicDescription) -> None:
    _check_sized_change(before, after)


def check_subscription_change(before: SubscriptionDescription, after: SubscriptionDescription) -> None:
    _check_unchanged("RequiresSession", before.requires_session, after.requires_session)


def _check_sized_change(
    before: QueueDescription | TopicDescription, after: QueueDescription | TopicDescription
) -> None:
    duplicates = before.requires_duplicate_detection, after.requires_duplicate_detection
    _check_unchanged("RequiresDuplicateDetection", *duplicates)
    _check_unchanged("EnablePartitioning", before.enable_partitioning, after.enable_partitioning)


def _check_unchanged(name: str, before: bool, after: bool) -> None:
    if before != after:
        raise InvalidDescription(f"The value for the {name} property of an existing entity cannot be changed.")


# -- sizes of partitioned entities


def with_stored_size(description: Sized, tier: str) -> Sized:
    """The size of one partition, which is what is kept, when the sum over all partitions was given."""
    size_mb = description.max_size_in_megabytes
    if description.enable_partitioning and size_mb > SIZE_MAX_MB[tier] and size_mb % PARTITION_COUNT == 0:
        return replace(description, max_size_in_megabytes=size_mb // PARTITION_COUNT)
    return description


def shown_size_mb(description: QueueDescription | TopicDescription) -> int:
    return description.max_size_in_megabytes * (PARTITION_COUNT if description.enable_partitioning else 1)


# -- what depends on other entities


def target_path(target: str) -> str:
    """`sb://host:port/path` or `path` -> `path`."""
    path = urlsplit(target).path if "://" in target else target
    return unquote(path).strip("/")


def check_forwarding(
    description: QueueDescription | SubscriptionDescription, can_be_sent_to: Callable[[str], bool]
) -> None:
    """Both targets must be queues or topics that exist."""
    targets = {
        "ForwardTo": description.forward_to,
        "ForwardDeadLetteredMessagesTo": description.forward_dead_lettered_messages_to,
    }
    for name, target in targets.items():
        if target is None:
            continue
        try:
            path = target_path(target)
        except ValueError as error:
            raise InvalidDescription(f"{name} is '{target}', which is not an address.") from error
        if not can_be_sent_to(path):
            raise InvalidDescription(f"{name} is '{target}': there is no queue or topic '{path}'.")
