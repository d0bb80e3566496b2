"""Entity descriptions as JSON text, for the journal. Values in, the same values out."""

from __future__ import annotations

import base64
import json
from dataclasses import fields
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from .descriptions import (
    AuthorizationRule,
    CorrelationFilter,
    EntityStatus,
    FalseFilter,
    QueueDescription,
    RuleDescription,
    SqlFilter,
    SqlRuleAction,
    SubscriptionDescription,
    TopicDescription,
    TrueFilter,
)

if TYPE_CHECKING:
    from .entities import Queue, Subscription, Topic

_TYPES = {
    cls.__name__: cls
    for cls in (
        AuthorizationRule,
        CorrelationFilter,
        FalseFilter,
        QueueDescription,
        RuleDescription,
        SqlFilter,
        SqlRuleAction,
        SubscriptionDescription,
        TopicDescription,
        TrueFilter,
    )
}


def dump_description(entity: Queue | Topic | Subscription) -> str:
    rules = getattr(entity, "rules", {}).values()
    return json.dumps(
        {
            "description": _plain(entity.description),
            "rules": [[_plain(rule.description), rule.created_at] for rule in rules],
            "created_at": entity.created_at,
            "updated_at": entity.updated_at,
        }
    )


def load_description(text: str) -> tuple[Any, list[tuple[RuleDescription, float]], float, float]:
    """The description, its rules with their ages (of a subscription), and when it was created and updated."""
    data = json.loads(text)
    rules = [(_value(rule), created_at) for rule, created_at in data["rules"]]
    return _value(data["description"]), rules, data["created_at"], data["updated_at"]


def _plain(value: Any) -> Any:
    if type(value).__name__ in _TYPES:
        return {"type": type(value).__name__} | {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return {"type": "EntityStatus", "value": value.value}
    if isinstance(value, timedelta):
        return {"type": "timedelta", "value": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, datetime):
        return {"type": "datetime", "value": value.isoformat()}
    if isinstance(value, bytes):
        return {"type": "bytes", "value": base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _value(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(_value(item) for item in data)
    if not isinstance(data, dict):
        return data
    kind = data["type"]
    if kind == "EntityStatus":
        return EntityStatus(data["value"])
    if kind == "timedelta":
        return timedelta(*data["value"])
    if kind == "datetime":
        return datetime.fromisoformat(data["value"])
    if kind == "bytes":
        return base64.b64decode(data["value"])
    return _TYPES[kind](**{name: _value(item) for name, item in data.items() if name != "type"})
