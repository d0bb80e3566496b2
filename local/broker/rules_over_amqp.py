"""Rules as AMQP maps and described lists, for the `$management` operations on rules (.NET, Java, JavaScript)."""

from __future__ import annotations

from typing import Any

from .amqp.types import Described, Timestamp, ULong
from .descriptions import (
    CorrelationFilter,
    FalseFilter,
    RuleDescription,
    RuleFilter,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from .entities import Rule
from .errors import ARGUMENT_ERROR, BrokerError

_RULE = ULong(0x13700000004)
_EMPTY_ACTION = ULong(0x13700000005)
_SQL = ULong(0x13700000006)
_TRUE = ULong(0x13700000007)
_FALSE = ULong(0x13700000008)
_CORRELATION = ULong(0x13700000009)

#: Names in the request's map, in the order of the described list.
_CORRELATION_FIELDS = (
    ("correlation-id", "correlation_id"),
    ("message-id", "message_id"),
    ("to", "to"),
    ("reply-to", "reply_to"),
    ("label", "label"),
    ("session-id", "session_id"),
    ("reply-to-session-id", "reply_to_session_id"),
    ("content-type", "content_type"),
)


def read_rule(name: str, description: dict[Any, Any]) -> RuleDescription:
    fields = {str(key): value for key, value in description.items()}
    action = fields.get("sql-rule-action")
    if action is not None and not isinstance(action, dict):
        raise BrokerError(ARGUMENT_ERROR, "'sql-rule-action' must be a map.")
    return RuleDescription(
        name=name,
        filter=_read_filter(fields),
        action=SqlRuleAction(expression=_expression(action)) if isinstance(action, dict) else None,
    )


def _read_filter(fields: dict[str, Any]) -> RuleFilter:
    sql, correlation = fields.get("sql-filter"), fields.get("correlation-filter")
    if isinstance(sql, dict):
        return SqlFilter(expression=_expression(sql))
    if isinstance(correlation, dict):
        return _correlation({str(key): value for key, value in correlation.items()})
    raise BrokerError(ARGUMENT_ERROR, "A rule needs 'sql-filter' or 'correlation-filter'.")


def _correlation(values: dict[str, Any]) -> CorrelationFilter:
    properties = values.get("properties") or {}
    if not isinstance(properties, dict):
        raise BrokerError(ARGUMENT_ERROR, "A correlation filter's 'properties' must be a map.")
    known = {field: values[name] for name, field in _CORRELATION_FIELDS if values.get(name) is not None}
    for name, value in known.items():
        if not isinstance(value, str):
            raise BrokerError(ARGUMENT_ERROR, f"A correlation filter's {name} must be a string.")
    return CorrelationFilter(**known, properties=tuple((str(key), value) for key, value in properties.items()))


def _expression(value: dict[Any, Any]) -> str:
    text = {str(key): item for key, item in value.items()}.get("expression")
    if not isinstance(text, str):
        raise BrokerError(ARGUMENT_ERROR, "'expression' must be a string.")
    return text


def describe_rule(rule: Rule) -> Described:
    description = rule.description
    action = description.action
    described_action = Described(_EMPTY_ACTION, []) if action is None else Described(_SQL, [action.expression, None])
    created = Timestamp(int(rule.created_at * 1000))
    return Described(_RULE, [_describe_filter(description.filter), described_action, description.name, created])


def _describe_filter(rule_filter: RuleFilter) -> Described:
    if isinstance(rule_filter, SqlFilter):
        return Described(_SQL, [rule_filter.expression, None])
    if isinstance(rule_filter, TrueFilter):
        return Described(_TRUE, [])
    if isinstance(rule_filter, FalseFilter):
        return Described(_FALSE, [])
    fields = [getattr(rule_filter, field) for _, field in _CORRELATION_FIELDS]
    return Described(_CORRELATION, [*fields, dict(rule_filter.properties)])
