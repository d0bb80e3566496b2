"""Rules from Atom entries: filters, actions and the typed values they carry."""

from __future__ import annotations

from datetime import UTC, datetime

from local.broker.descriptions import (
    CorrelationFilter,
    FalseFilter,
    FilterValue,
    RuleDescription,
    RuleFilter,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from local.broker.durations import parse_duration
from local.broker.errors import InvalidDescription

from .elements import Element
from .names import SERVICE_BUS
from .parse import read_boolean, read_integer, read_text

VALUES_MAX = 1000
INT64 = (-(2**63), 2**63 - 1)

_CORRELATION_FIELDS = {
    "CorrelationId": "correlation_id",
    "MessageId": "message_id",
    "To": "to",
    "ReplyTo": "reply_to",
    "Label": "label",
    "SessionId": "session_id",
    "ReplyToSessionId": "reply_to_session_id",
    "ContentType": "content_type",
}
_WHOLE = frozenset({"int", "long", "short", "byte", "unsignedInt", "unsignedShort", "unsignedByte"})
_REAL = frozenset({"double", "float", "decimal"})


def read_rule(element: Element, name: str) -> RuleDescription:
    """A rule is called what the address says; without a filter it takes everything."""
    known = {"Filter", "Action", "CreatedAt", "Name"}
    for child in element.children:
        if child.name not in known:
            raise InvalidDescription(f"RuleDescription has no property '{child.name}'.")
    rule_filter, action = element.child(SERVICE_BUS, "Filter"), element.child(SERVICE_BUS, "Action")
    return RuleDescription(
        name=name,
        filter=_read_filter(rule_filter) if rule_filter is not None and not rule_filter.is_nil else TrueFilter(),
        action=_read_action(action) if action is not None and not action.is_nil else None,
    )


def read_default_rule(subscription: Element, default_name: str) -> RuleDescription:
    """The rule that a new subscription starts with."""
    element = subscription.child(SERVICE_BUS, "DefaultRuleDescription")
    if element is None or element.is_nil:
        return RuleDescription(name=default_name)
    name = element.child(SERVICE_BUS, "Name")
    return read_rule(element, name.text.strip() if name is not None and name.text.strip() else default_name)


def _read_filter(element: Element) -> RuleFilter:
    match element.type:
        case "TrueFilter":
            return TrueFilter()
        case "FalseFilter":
            return FalseFilter()
        case "SqlFilter":
            return SqlFilter(
                expression=_expression(element),
                parameters=_values(element.child(SERVICE_BUS, "Parameters")),
                requires_preprocessing=_preprocessing(element),
            )
        case "CorrelationFilter":
            return _read_correlation(element)
    raise InvalidDescription(f"A filter of type '{element.type}' is not supported.")


def _read_action(element: Element) -> SqlRuleAction | None:
    match element.type:
        case "EmptyRuleAction":
            return None
        case "SqlRuleAction":
            return SqlRuleAction(
                expression=_expression(element),
                parameters=_values(element.child(SERVICE_BUS, "Parameters")),
                requires_preprocessing=_preprocessing(element),
            )
    raise InvalidDescription(f"An action of type '{element.type}' is not supported.")


def _expression(element: Element) -> str:
    found = element.child(SERVICE_BUS, "SqlExpression")
    if found is None:
        raise InvalidDescription(f"A {element.type} must have a SqlExpression.")
    return read_text(found)


def _preprocessing(element: Element) -> bool:
    found = element.child(SERVICE_BUS, "RequiresPreprocessing")
    return found is not None and not found.is_nil and read_boolean(found)


def _read_correlation(element: Element) -> CorrelationFilter:
    fields: dict[str, str] = {}
    for child in element.children:
        if child.name in _CORRELATION_FIELDS and not child.is_nil:
            fields[_CORRELATION_FIELDS[child.name]] = child.text
        elif child.name != "Properties" and not child.is_nil:
            raise InvalidDescription(f"A CorrelationFilter has no property '{child.name}'.")
    properties = _values(element.child(SERVICE_BUS, "Properties"))
    return CorrelationFilter(**fields, properties=properties)


def _values(bag: Element | None) -> tuple[tuple[str, FilterValue], ...]:
    if bag is None:
        return ()
    if len(bag.children) > VALUES_MAX:
        raise InvalidDescription(f"{bag.name} may hold {VALUES_MAX} values.")
    pairs = [_pair(child) for child in bag.children]
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise InvalidDescription(f"{bag.name} names a value twice.")
    return tuple(pairs)


def _pair(element: Element) -> tuple[str, FilterValue]:
    key, value = element.child(SERVICE_BUS, "Key"), element.child(SERVICE_BUS, "Value")
    if key is None or value is None or not key.text:
        raise InvalidDescription(f"{element.name} must have a Key and a Value.")
    return key.text, None if value.is_nil else _value(value)


def _value(element: Element) -> FilterValue:
    kind, text = element.type or "string", element.text
    if kind in ("string", "char", "anyURI"):
        return text
    if kind == "boolean":
        return read_boolean(element)
    if kind in _WHOLE:
        return _whole(element)
    if kind in _REAL:
        return _real(text)
    if kind == "dateTime":
        return _date(text)
    if kind == "duration":
        return parse_duration(text)
    raise InvalidDescription(f"A value of type '{kind}' is not supported.")


def _whole(element: Element) -> int:
    value = read_integer(element)
    if not INT64[0] <= value <= INT64[1]:
        raise InvalidDescription(f"{value} does not fit a 64-bit integer.")
    return value


def _real(text: str) -> float:
    try:
        return float({"INF": "inf", "-INF": "-inf"}.get(text.strip(), text))
    except ValueError as error:
        raise InvalidDescription(f"'{text[:50]}' is not a number.") from error


def _date(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.strip())
        return found if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidDescription(f"'{text[:50]}' is not a date and time.") from error
