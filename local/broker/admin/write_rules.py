"""Rules as XML: filters, actions and the typed values they carry."""

from __future__ import annotations

from datetime import datetime, timedelta

from local.broker.descriptions import (
    CorrelationFilter,
    FalseFilter,
    FilterValue,
    RuleFilter,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from local.broker.durations import format_duration
from local.broker.entities import Rule

from .atom import description, element, instant, text_of
from .names import RULE, SCHEMA

COMPATIBILITY_LEVEL = 20
_INT32 = (-(2**31), 2**31 - 1)


def rule_description(rule: Rule) -> str:
    settings = rule.description
    parts = [
        _filter(settings.filter),
        _action(settings.action),
        element("CreatedAt", instant(rule.created_at)),
        element("Name", settings.name),
    ]
    return description(RULE, parts)


def _filter(rule_filter: RuleFilter) -> str:
    match rule_filter:
        case TrueFilter():
            return _sql("Filter", "TrueFilter", "1=1", "")
        case FalseFilter():
            return _sql("Filter", "FalseFilter", "1=0", "")
        case SqlFilter():
            return _sql("Filter", "SqlFilter", rule_filter.expression, _bag("Parameters", rule_filter.parameters))
        case CorrelationFilter():
            return _correlation(rule_filter)


def _action(action: SqlRuleAction | None) -> str:
    if action is None:
        return '<Action i:type="EmptyRuleAction"/>'
    return _sql("Action", "SqlRuleAction", action.expression, _bag("Parameters", action.parameters))


def _sql(name: str, kind: str, expression: str, parameters: str) -> str:
    level = element("CompatibilityLevel", COMPATIBILITY_LEVEL)
    return f'<{name} i:type="{kind}">{element("SqlExpression", expression)}{level}{parameters}</{name}>'


def _correlation(rule_filter: CorrelationFilter) -> str:
    parts = [
        element("CorrelationId", rule_filter.correlation_id),
        element("MessageId", rule_filter.message_id),
        element("To", rule_filter.to),
        element("ReplyTo", rule_filter.reply_to),
        element("Label", rule_filter.label),
        element("SessionId", rule_filter.session_id),
        element("ReplyToSessionId", rule_filter.reply_to_session_id),
        element("ContentType", rule_filter.content_type),
        _bag("Properties", rule_filter.properties),
    ]
    return f'<Filter i:type="CorrelationFilter">{"".join(parts)}</Filter>'


def _bag(name: str, values: tuple[tuple[str, FilterValue], ...]) -> str:
    return f"<{name}>{''.join(_pair(key, value) for key, value in values)}</{name}>" if values else ""


def _pair(key: str, value: FilterValue) -> str:
    if value is None:
        shown = '<Value i:nil="true"/>'
    else:
        kind, text = _typed(value)
        shown = f'<Value xmlns:x="{SCHEMA}" i:type="x:{kind}">{text_of(text)}</Value>'
    return f"<KeyValueOfstringanyType>{element('Key', key)}{shown}</KeyValueOfstringanyType>"


def _typed(value: FilterValue) -> tuple[str, str]:
    match value:
        case bool():
            return "boolean", "true" if value else "false"
        case int():
            return "int" if _INT32[0] <= value <= _INT32[1] else "long", str(value)
        case float():
            return "double", {"inf": "INF", "-inf": "-INF", "nan": "NaN"}.get(str(value), str(value))
        case datetime():
            return "dateTime", _date(value)
        case timedelta():
            return "duration", format_duration(value)
        case _:
            return "string", str(value)


def _date(value: datetime) -> str:
    """A date without a zone stays without one; all others are kept in UTC."""
    return value.isoformat().replace("+00:00", "Z")
