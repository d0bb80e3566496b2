"""Descriptions from Atom entries. The order of elements does not matter; what is not known is refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from local.broker.descriptions import (
    AuthorizationRule,
    EntityStatus,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from local.broker.durations import parse_duration
from local.broker.errors import InvalidDescription

from .elements import Element, read_xml
from .names import ATOM, SERVICE_BUS

#: As many digits as any number of the API can need.
_INTEGER = re.compile(r"-?[0-9]{1,19}")

#: In place of a field's name: the element says nothing that is kept.
CHECKED_ONLY = ""

Read = Callable[[Element], object]
Fields = Mapping[str, tuple[str, Read]]
Description = TypeVar("Description", QueueDescription, TopicDescription, SubscriptionDescription)


def read_description(body: bytes, *kinds: str) -> Element:
    """The description element of an entry; it must be of one of the kinds."""
    expected = " or ".join(kinds)
    entry = read_xml(body)
    if (entry.namespace, entry.name) != (ATOM, "entry"):
        raise InvalidDescription(f"The body must be an Atom entry, not '{entry.name}'.")
    content = entry.child(ATOM, "content")
    if content is None or not content.children:
        raise InvalidDescription(f"The entry must have a content that holds a {expected}.")
    description = content.children[0]
    if description.namespace != SERVICE_BUS or description.name not in kinds:
        raise InvalidDescription(f"The content must be a {expected}, not '{description.name}'.")
    return description


def read_queue(element: Element, base: QueueDescription) -> QueueDescription:
    """`base` is what holds where the element says nothing: the defaults, or the queue as it is."""
    cleared = replace(base, forward_to=None, forward_dead_lettered_messages_to=None, user_metadata=None)
    return _apply(element, cleared, _QUEUE, _QUEUE_IGNORED)


def read_topic(element: Element, base: TopicDescription) -> TopicDescription:
    return _apply(element, replace(base, user_metadata=None), _TOPIC, _TOPIC_IGNORED)


def read_subscription(element: Element, base: SubscriptionDescription) -> SubscriptionDescription:
    cleared = replace(base, forward_to=None, forward_dead_lettered_messages_to=None, user_metadata=None)
    return _apply(element, cleared, _SUBSCRIPTION, _SUBSCRIPTION_IGNORED)


def _apply(element: Element, base: Description, fields: Fields, ignored: frozenset[str]) -> Description:
    values: dict[str, object] = {}
    seen: set[str] = set()
    for child in element.children:
        if child.name in ignored or child.is_nil:
            continue
        if child.namespace != SERVICE_BUS or child.name not in fields:
            raise InvalidDescription(f"{element.name} has no property '{child.name}' here.")
        if child.name in seen:
            raise InvalidDescription(f"{child.name} is given more than once.")
        seen.add(child.name)
        field, read = fields[child.name]
        values[field] = read(child)
    values.pop(CHECKED_ONLY, None)
    return replace(base, **values)  # type: ignore[arg-type] # each reader gives what its field holds


# -- values


def read_boolean(element: Element) -> bool:
    match element.text.strip().lower():
        case "true" | "1":
            return True
        case "false" | "0":
            return False
    raise InvalidDescription(f"{element.name} must be true or false, not '{element.text[:50]}'.")


def read_integer(element: Element) -> int:
    text = element.text.strip()
    if not _INTEGER.fullmatch(text):
        raise InvalidDescription(f"{element.name} must be a whole number, not '{text[:50]}'.")
    return int(text)


def read_text(element: Element) -> str:
    return element.text


def _read_optional_text(element: Element) -> str | None:
    return element.text.strip() or None


def _read_duration(element: Element) -> object:
    try:
        return parse_duration(element.text)
    except InvalidDescription as error:
        raise InvalidDescription(f"{element.name}: {error.description}") from error


def _read_status(element: Element) -> EntityStatus:
    text = element.text.strip()
    try:
        return EntityStatus(text)
    except ValueError as error:
        known = ", ".join(status.value for status in EntityStatus)
        raise InvalidDescription(f"Status must be one of {known}, not '{text[:50]}'.") from error


def _read_refused(element: Element) -> None:
    """A property that exists but can only be off."""
    if read_boolean(element):
        raise InvalidDescription(f"{element.name} is not supported.")


def _read_rules(element: Element) -> tuple[AuthorizationRule, ...]:
    return tuple(_read_rule(child) for child in element.children)


def _read_rule(element: Element) -> AuthorizationRule:
    if element.type not in ("", "SharedAccessAuthorizationRule"):
        raise InvalidDescription(f"An authorization rule of type '{element.type}' is not supported.")
    texts = {child.name: child.text.strip() for child in element.children if not child.is_nil}
    rights = element.child(SERVICE_BUS, "Rights")
    return AuthorizationRule(
        key_name=texts.get("KeyName", ""),
        primary_key=texts.get("PrimaryKey", ""),
        secondary_key=texts.get("SecondaryKey", ""),
        rights=tuple(right.text.strip() for right in rights.children) if rights is not None else (),
        claim_type=texts.get("ClaimType") or "SharedAccessKey",
        claim_value=texts.get("ClaimValue") or "None",
    )


# -- elements, by the fields they fill

_COMMON: Fields = {
    "DefaultMessageTimeToLive": ("default_message_time_to_live", _read_duration),
    "EnableBatchedOperations": ("enable_batched_operations", read_boolean),
    "Status": ("status", _read_status),
    "AutoDeleteOnIdle": ("auto_delete_on_idle", _read_duration),
    "UserMetadata": ("user_metadata", read_text),
}
_RECEIVING: Fields = {
    "LockDuration": ("lock_duration", _read_duration),
    "RequiresSession": ("requires_session", read_boolean),
    "DeadLetteringOnMessageExpiration": ("dead_lettering_on_message_expiration", read_boolean),
    "MaxDeliveryCount": ("max_delivery_count", read_integer),
    "ForwardTo": ("forward_to", _read_optional_text),
    "ForwardDeadLetteredMessagesTo": ("forward_dead_lettered_messages_to", _read_optional_text),
}
_SIZED: Fields = {
    "MaxSizeInMegabytes": ("max_size_in_megabytes", read_integer),
    "RequiresDuplicateDetection": ("requires_duplicate_detection", read_boolean),
    "DuplicateDetectionHistoryTimeWindow": ("duplicate_detection_history_time_window", _read_duration),
    "AuthorizationRules": ("authorization_rules", _read_rules),
    "EnablePartitioning": ("enable_partitioning", read_boolean),
    "EnableExpress": ("enable_express", read_boolean),
    "MaxMessageSizeInKilobytes": ("max_message_size_in_kilobytes", read_integer),
    "IsAnonymousAccessible": (CHECKED_ONLY, _read_refused),
}
_QUEUE: Fields = {**_COMMON, **_RECEIVING, **_SIZED}
_TOPIC: Fields = {
    **_COMMON,
    **_SIZED,
    "FilteringMessagesBeforePublishing": ("filtering_messages_before_publishing", read_boolean),
    "SupportOrdering": ("support_ordering", read_boolean),
    "EnableSubscriptionPartitioning": (CHECKED_ONLY, _read_refused),
}
_SUBSCRIPTION: Fields = {
    **_COMMON,
    **_RECEIVING,
    "DeadLetteringOnFilterEvaluationExceptions": ("dead_lettering_on_filter_evaluation_exceptions", read_boolean),
}
#: Written by the server; clients send back what they read.
_READ_ONLY = frozenset(
    {"SizeInBytes", "MessageCount", "CreatedAt", "UpdatedAt", "AccessedAt", "CountDetails", "EntityAvailabilityStatus"}
)
_QUEUE_IGNORED = _READ_ONLY | {"SupportOrdering"}
_TOPIC_IGNORED = _READ_ONLY | {"SubscriptionCount", "SqlFilterCount", "CorrelationFilterCount"}
#: The first rule of a new subscription is read on its own.
_SUBSCRIPTION_IGNORED = _READ_ONLY | {"DefaultRuleDescription"}
