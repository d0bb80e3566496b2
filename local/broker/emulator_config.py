"""Entities from a JSON file in the shape of Microsoft's emulator (`UserConfig.Namespaces[].Queues|Topics`).

Every property of our descriptions may be given, by its ATOM name; the emulator's own limits do not apply.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from .descriptions import (
    CorrelationFilter,
    EntityStatus,
    FalseFilter,
    QueueDescription,
    RuleDescription,
    RuleFilter,
    SqlFilter,
    SqlRuleAction,
    SubscriptionDescription,
    TopicDescription,
    TrueFilter,
)
from .durations import parse_duration
from .errors import BrokerError, InvalidDescription
from .namespace import Namespace
from .validation import validate_queue, validate_rule, validate_subscription, validate_topic

FILE_BYTES_MAX = 16 * 1024 * 1024
DEFAULT_RULE = "$Default"

Description = TypeVar("Description", QueueDescription, TopicDescription, SubscriptionDescription)


class ConfigError(ValueError):
    """The entities file is wrong: one line that names the place."""


def load(file: Path, namespaces: Mapping[str, Namespace]) -> int:
    """Create what is missing of the file's entities; how many there are in it."""
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise ConfigError(f"{file}: larger than {FILE_BYTES_MAX} bytes")
        data = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: cannot be read as JSON: {error}") from error
    listed = _items(_object(data, "the file").get("UserConfig", {}), "Namespaces", "UserConfig")
    if not listed:
        raise ConfigError(f"{file}: UserConfig.Namespaces is missing or empty")
    count = 0
    for index, item in enumerate(listed):
        count += _load_namespace(item, _namespace_for(item, index, namespaces))
    return count


def _namespace_for(item: Mapping[str, Any], index: int, namespaces: Mapping[str, Namespace]) -> Namespace:
    """By name; a single unknown name (the emulator's is fixed) means the namespace in the same position."""
    name = _name(item, "a namespace")
    for known, namespace in namespaces.items():
        if known.lower() == name.lower():
            return namespace
    if name.lower() == "sbemulatorns" and index < len(namespaces):
        return list(namespaces.values())[index]
    raise ConfigError(f"namespace '{name}' is not served here; served: {', '.join(namespaces)}")


def _load_namespace(item: Mapping[str, Any], namespace: Namespace) -> int:
    count = 0
    topics = _items(item, "Topics", namespace.name)
    forwards: list[Callable[[], None]] = []
    for queue in _items(item, "Queues", namespace.name):
        _load_queue(queue, namespace, forwards)
        count += 1
    for topic in topics:
        count += _load_topic(topic, namespace, forwards)
    for set_forward in forwards:
        set_forward()
    return count


def _load_queue(item: Mapping[str, Any], namespace: Namespace, forwards: list[Callable[[], None]]) -> None:
    path = _name(item, "a queue")
    description = _description(QueueDescription, item, f"queue '{path}'")
    with _Refusals(f"queue '{path}'"):
        if _exists(namespace, path):
            return
        first = _without_forwards(description)
        validate_queue(path, first, tier=namespace.tier)
        namespace.create_queue(path, first)
    if first != description:
        forwards.append(lambda: _forward_queue(namespace, path, description))


def _forward_queue(namespace: Namespace, path: str, description: QueueDescription) -> None:
    with _Refusals(f"queue '{path}'"):
        validate_queue(path, description, tier=namespace.tier, exists=lambda target: _exists(namespace, target))
        namespace.update_queue(path, description)


def _load_topic(item: Mapping[str, Any], namespace: Namespace, forwards: list[Callable[[], None]]) -> int:
    path = _name(item, "a topic")
    description = _description(TopicDescription, item, f"topic '{path}'")
    with _Refusals(f"topic '{path}'"):
        if not _exists(namespace, path):
            validate_topic(path, description, tier=namespace.tier)
            namespace.create_topic(path, description)
    subscriptions = _items(item, "Subscriptions", f"topic '{path}'")
    for subscription in subscriptions:
        _load_subscription(subscription, namespace, path, forwards)
    return 1 + len(subscriptions)


def _load_subscription(
    item: Mapping[str, Any], namespace: Namespace, topic: str, forwards: list[Callable[[], None]]
) -> None:
    name = _name(item, f"a subscription of '{topic}'")
    where = f"subscription '{topic}/{name}'"
    description = _description(SubscriptionDescription, item, where)
    rules = [_rule(rule, where) for rule in _items(item, "Rules", where)]
    with _Refusals(where):
        if name.lower() in namespace.topic(topic).subscriptions:
            return
        first = _without_forwards(description)
        validate_subscription(topic, name, first, tier=namespace.tier)
        for rule in rules:
            validate_rule(rule)
        default = rules[0] if rules else RuleDescription(name=DEFAULT_RULE)
        namespace.create_subscription(topic, name, first, default)
        for rule in rules[1:]:
            namespace.create_rule(topic, name, rule)
    if first != description:
        forwards.append(lambda: _forward_subscription(namespace, topic, name, description))


def _forward_subscription(namespace: Namespace, topic: str, name: str, description: SubscriptionDescription) -> None:
    with _Refusals(f"subscription '{topic}/{name}'"):
        validate_subscription(
            topic, name, description, tier=namespace.tier, exists=lambda target: _exists(namespace, target)
        )
        namespace.update_subscription(topic, name, description)


def _without_forwards(description: Any) -> Any:
    """Destinations may come later in the file: forwards are set when everything exists."""
    return replace(description, forward_to=None, forward_dead_lettered_messages_to=None)


class _Refusals:
    """Names the entity in what the broker refuses."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BrokerError):
            raise ConfigError(f"{self._where}: {error.description}") from error


def _exists(namespace: Namespace, path: str) -> bool:
    try:
        namespace.sendable(path)
    except BrokerError:
        return False
    return True


# -- reading values


def _description(kind: type[Description], item: Mapping[str, Any], where: str) -> Description:
    names = {_atom_name(f.name).lower(): f.name for f in fields(kind)}
    values: dict[str, Any] = {}
    defaults = kind()
    for name, value in _object(item.get("Properties", {}), where).items():
        target = names.get(name.lower())
        if target is None:
            raise ConfigError(f"{where}: unknown property '{name}'")
        if value == "" and target.startswith("forward"):
            continue
        values[target] = _coerce(value, getattr(defaults, target), f"{where}: {name}")
    return kind(**values)


def _atom_name(field_name: str) -> str:
    return "".join(part.capitalize() for part in field_name.split("_"))


def _coerce(value: object, default: object, where: str) -> object:
    if isinstance(default, timedelta):
        try:
            return parse_duration(str(value))
        except InvalidDescription as error:
            raise ConfigError(f"{where}: {error.description}") from error
    if isinstance(default, EntityStatus):
        try:
            return EntityStatus(value)
        except ValueError:
            raise ConfigError(f"{where}: one of {', '.join(s.value for s in EntityStatus)}") from None
    wanted = bool if isinstance(default, bool) else int if isinstance(default, int) else str
    if not isinstance(value, wanted) and not (default is None and isinstance(value, (int, str))):
        raise ConfigError(f"{where}: must be {wanted.__name__}, not {value!r}")
    return value


_CORRELATION = {_atom_name(f.name).lower(): f.name for f in fields(CorrelationFilter)} | {"subject": "label"}


def _rule(item: Mapping[str, Any], where: str) -> RuleDescription:
    name = _name(item, f"a rule of {where}")
    properties = _object(item.get("Properties", {}), f"{where}: rule '{name}'")
    action = properties.get("Action")
    return RuleDescription(
        name=name,
        filter=_filter(properties, f"{where}: rule '{name}'"),
        action=SqlRuleAction(expression=str(_object(action, name).get("SqlExpression", ""))) if action else None,
    )


def _filter(properties: Mapping[str, Any], where: str) -> RuleFilter:
    kind = str(properties.get("FilterType", "True")).lower()
    if kind == "correlation":
        values: dict[str, Any] = {}
        for name, value in _object(properties.get("CorrelationFilter", {}), where).items():
            target = _CORRELATION.get(name.lower())
            if target is None:
                raise ConfigError(f"{where}: unknown correlation property '{name}'")
            values[target] = tuple(_object(value, where).items()) if target == "properties" else str(value)
        return CorrelationFilter(**values)
    if kind == "sql":
        return SqlFilter(expression=str(_object(properties.get("SqlFilter", {}), where).get("SqlExpression", "")))
    if kind in ("true", "false"):
        return TrueFilter() if kind == "true" else FalseFilter()
    raise ConfigError(f"{where}: FilterType is Correlation, Sql, True or False, not '{kind}'")


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: must be a JSON object")
    return value


def _items(value: object, name: str, where: str) -> list[Mapping[str, Any]]:
    items = _object(value, where).get(name, [])
    if not isinstance(items, list):
        raise ConfigError(f"{where}: {name} must be a list")
    return [_object(item, f"{where}: {name}") for item in items]


def _name(item: Mapping[str, Any], what: str) -> str:
    name = item.get("Name")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{what} has no Name")
    return name
