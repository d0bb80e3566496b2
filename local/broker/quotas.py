"""How many entities there may be: https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas"""

from __future__ import annotations

from .descriptions import CorrelationFilter, RuleDescription
from .errors import InvalidDescription

ENTITIES_MAX = 10_000
PARTITIONED_ENTITIES_MAX = 100
SUBSCRIPTIONS_PER_TOPIC_MAX = 2_000
SQL_FILTERS_PER_TOPIC_MAX = 2_000
CORRELATION_FILTERS_PER_TOPIC_MAX = 100_000


def check_entity_room(count: int) -> None:
    _check_room("A namespace may have", count, ENTITIES_MAX, "queues and topics")


def check_partitioned_room(count: int) -> None:
    _check_room("A namespace may have", count, PARTITIONED_ENTITIES_MAX, "partitioned queues and topics")


def check_subscription_room(count: int) -> None:
    _check_room("A topic may have", count, SUBSCRIPTIONS_PER_TOPIC_MAX, "subscriptions")


def check_rule_room(rule: RuleDescription, *, sql_filters: int, correlation_filters: int) -> None:
    """Counts are those of the whole topic, without the new rule."""
    if isinstance(rule.filter, CorrelationFilter):
        _check_room("A topic may have", correlation_filters, CORRELATION_FILTERS_PER_TOPIC_MAX, "correlation filters")
    else:
        _check_room("A topic may have", sql_filters, SQL_FILTERS_PER_TOPIC_MAX, "SQL filters")


def _check_room(who: str, count: int, limit: int, what: str) -> None:
    if count >= limit:
        raise InvalidDescription(f"{who} {limit} {what}; there are {count} already.")
