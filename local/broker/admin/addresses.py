"""Paths of the administration API: which entity or list a request is about.

A path is cut on its raw slashes and decoded after, since the SDKs differ: some write the slashes of an entity's name as
they are, some as %2F. The first raw level called `subscriptions` ends the name of the topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from local.broker.errors import EntityNotFound


@dataclass(frozen=True, kw_only=True)
class NamespaceInfo:
    pass


@dataclass(frozen=True, kw_only=True)
class QueueList:
    pass


@dataclass(frozen=True, kw_only=True)
class TopicList:
    pass


@dataclass(frozen=True, kw_only=True)
class QueueOrTopic:
    path: str


@dataclass(frozen=True, kw_only=True)
class SubscriptionList:
    topic: str


@dataclass(frozen=True, kw_only=True)
class SubscriptionAddress:
    topic: str
    name: str


@dataclass(frozen=True, kw_only=True)
class RuleList:
    topic: str
    subscription: str


@dataclass(frozen=True, kw_only=True)
class RuleAddress:
    topic: str
    subscription: str
    name: str


ListAddress = QueueList | TopicList | SubscriptionList | RuleList
EntityAddress = QueueOrTopic | SubscriptionAddress | RuleAddress
Address = NamespaceInfo | ListAddress | EntityAddress


def read_address(raw_path: str) -> Address:
    """EntityNotFound for a path that leads nowhere. A missing last name is an empty name, for the caller to judge."""
    raw = raw_path.removeprefix("/").split("/")
    first = unquote(raw[0]).lower()
    if first == "$namespaceinfo" and len(raw) == 1:
        return NamespaceInfo()
    if first == "$resources":
        return _resources(raw, raw_path)
    at = next((index for index, part in enumerate(raw) if index and part.lower() == "subscriptions"), None)
    if at is None:
        return QueueOrTopic(path="/".join(unquote(part) for part in raw).rstrip("/"))
    topic = "/".join(unquote(part) for part in raw[:at])
    return _below_topic(topic, [unquote(part) for part in raw[at + 1 :]], raw_path)


def _resources(raw: list[str], raw_path: str) -> Address:
    match [part.lower() for part in raw[1:] if part]:
        case ["queues"]:
            return QueueList()
        case ["topics"]:
            return TopicList()
    raise EntityNotFound(raw_path)


def _below_topic(topic: str, rest: list[str], raw_path: str) -> Address:
    match rest:
        case []:
            return SubscriptionList(topic=topic)
        case [name]:
            return SubscriptionAddress(topic=topic, name=name)
        case [subscription, rules] if rules.lower() == "rules":
            return RuleList(topic=topic, subscription=subscription)
        case [subscription, rules, name] if rules.lower() == "rules":
            return RuleAddress(topic=topic, subscription=subscription, name=name)
    raise EntityNotFound(raw_path)
