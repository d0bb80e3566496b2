"""What one request asks for: read, list, create, update or delete entities of a namespace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, assert_never

from local.broker import quotas, validation
from local.broker.auth import Claims
from local.broker.descriptions import QueueDescription, RuleDescription, SubscriptionDescription, TopicDescription
from local.broker.entities import Queue, Topic
from local.broker.errors import EntityNotFound, InvalidDescription
from local.broker.http import Request, Response
from local.broker.namespace import Namespace
from local.broker.naming import DEFAULT_RULE

from . import write
from .access import require_forwarding
from .addresses import (
    Address,
    EntityAddress,
    ListAddress,
    NamespaceInfo,
    QueueList,
    QueueOrTopic,
    RuleAddress,
    RuleList,
    SubscriptionAddress,
    SubscriptionList,
    TopicList,
)
from .atom import ENTRY_TYPE, FEED_TYPE, Entry, Place, write_entry, write_feed
from .elements import Element
from .listing import read_filter, read_page
from .names import QUEUE, RULE, SERVICE_BUS, SUBSCRIPTION, TOPIC
from .parse import read_description, read_queue, read_subscription, read_topic
from .parse_rules import read_default_rule, read_rule

Sized = TypeVar("Sized", QueueDescription, TopicDescription)


@dataclass(frozen=True, slots=True)
class _Item:
    """Written only if it is on the page."""

    name: str
    entry: Callable[[], Entry]


@dataclass(frozen=True, slots=True)
class _List:
    path: str
    items: list[_Item]


class Operations:
    """One request by one caller, who has shown that they may manage."""

    def __init__(
        self, namespace: Namespace, request: Request, claims: Claims, place: Place, make_key: Callable[[], str]
    ) -> None:
        self._namespace = namespace
        self._request = request
        self._claims = claims
        self._place = place
        self._make_key = make_key

    # -- reading

    def get(self, address: Address) -> Response:
        match address:
            case NamespaceInfo():
                return self._entry(200, write.namespace_entry(self._namespace))
            case QueueList() | TopicList() | SubscriptionList() | RuleList():
                return self._feed(address)
            case SubscriptionAddress(topic=topic, name=""):
                return self._feed(SubscriptionList(topic=topic))
            case RuleAddress(topic=topic, subscription=subscription, name=""):
                return self._feed(RuleList(topic=topic, subscription=subscription))
            case QueueOrTopic() | SubscriptionAddress() | RuleAddress():
                return self._entry(200, self._read(address))
            case _:
                assert_never(address)

    def _read(self, address: EntityAddress) -> Entry:
        match address:
            case QueueOrTopic(path=""):
                raise InvalidDescription("The name of a queue or topic is missing.")
            case QueueOrTopic(path=path):
                entity = self._queue_or_topic(path)
                if isinstance(entity, Queue):
                    return write.queue_entry(entity, self._place)
                return write.topic_entry(entity, self._place)
            case SubscriptionAddress(topic=topic, name=name):
                return write.subscription_entry(self._namespace.subscription(topic, name), self._place)
            case RuleAddress(topic=topic, subscription=subscription, name=name):
                owner = self._namespace.subscription(topic, subscription)
                return write.rule_entry(self._namespace.rule(topic, subscription, name), owner)
            case _:
                assert_never(address)

    def _feed(self, address: ListAddress) -> Response:
        listed = self._listed(address)
        wanted = read_filter(self._request.query)
        chosen = [item for item in listed.items if wanted(item.name)]
        page = read_page(self._request.query)
        links = [("self", self._place.url(listed.path, skip=page.skip, top=page.top))]
        next_skip = page.next_skip(len(chosen))
        if next_skip is not None:
            links.append(("next", self._place.url(listed.path, skip=next_skip, top=page.top)))
        body = write_feed(listed.path, [item.entry() for item in page.of(chosen)], self._place, links)
        return Response(status=200, body=body, content_type=FEED_TYPE)

    def _listed(self, address: ListAddress) -> _List:
        namespace, place = self._namespace, self._place
        match address:
            case QueueList():
                queues = [_Item(q.path, partial(write.queue_entry, q, place)) for q in namespace.queues()]
                return _List("$Resources/queues", queues)
            case TopicList():
                topics = [_Item(t.path, partial(write.topic_entry, t, place)) for t in namespace.topics()]
                return _List("$Resources/topics", topics)
            case SubscriptionList(topic=path):
                found = namespace.subscriptions(path)
                subscriptions = [_Item(s.name, partial(write.subscription_entry, s, place)) for s in found]
                return _List(f"{path}/subscriptions", subscriptions)
            case RuleList(topic=path, subscription=name):
                owner = namespace.subscription(path, name)
                found_rules = namespace.rules(path, name)
                rules = [_Item(r.description.name, partial(write.rule_entry, r, owner)) for r in found_rules]
                return _List(f"{path}/subscriptions/{name}/rules", rules)
            case _:
                assert_never(address)

    # -- writing

    def put(self, address: Address) -> Response:
        """Create, or update with `If-Match: *`."""
        match address:
            case QueueOrTopic(path=path):
                element = read_description(self._request.body, QUEUE, TOPIC)
                self._check_version(element)
                return self._put_queue(path, element) if element.name == QUEUE else self._put_topic(path, element)
            case SubscriptionAddress():
                return self._put_subscription(address, read_description(self._request.body, SUBSCRIPTION))
            case RuleAddress():
                return self._put_rule(address, read_description(self._request.body, RULE))
            case _:
                raise InvalidDescription("Only a queue, topic, subscription or rule can be created or updated.")

    def _put_queue(self, path: str, element: Element) -> Response:
        namespace, is_update = self._namespace, self._is_update()
        before = namespace.queue(path).description if is_update else None
        made = self._completed(read_queue(element, before or QueueDescription()), before)
        validation.validate_queue(path, made, tier=namespace.tier, exists=self._exists, before=before)
        require_forwarding(namespace, self._request, self._claims, made)
        if is_update:
            namespace.queue(path).check_all_partitions()
            return self._entry(200, write.queue_entry(namespace.update_queue(path, made), self._place))
        self._check_entity_room(made)
        return self._entry(201, write.queue_entry(namespace.create_queue(path, made), self._place))

    def _put_topic(self, path: str, element: Element) -> Response:
        namespace, is_update = self._namespace, self._is_update()
        before = namespace.topic(path).description if is_update else None
        made = self._completed(read_topic(element, before or TopicDescription()), before)
        validation.validate_topic(path, made, tier=namespace.tier, before=before)
        if is_update:
            namespace.topic(path).check_all_partitions()
            return self._entry(200, write.topic_entry(namespace.update_topic(path, made), self._place))
        self._check_entity_room(made)
        return self._entry(201, write.topic_entry(namespace.create_topic(path, made), self._place))

    def _put_subscription(self, address: SubscriptionAddress, element: Element) -> Response:
        namespace, topic, name = self._namespace, address.topic, address.name
        before = namespace.subscription(topic, name).description if self._is_update() else None
        made = read_subscription(element, before or SubscriptionDescription())
        validation.validate_subscription(topic, name, made, tier=namespace.tier, exists=self._exists, before=before)
        require_forwarding(namespace, self._request, self._claims, made)
        namespace.topic(topic).check_all_partitions()
        if before is not None:
            updated = namespace.update_subscription(topic, name, made)
            return self._entry(200, write.subscription_entry(updated, self._place))
        rule = read_default_rule(element, DEFAULT_RULE)
        validation.validate_rule(rule)
        self._check_rule_room(topic, rule)
        quotas.check_subscription_room(len(namespace.topic(topic).subscriptions))
        created = namespace.create_subscription(topic, name, made, rule)
        return self._entry(201, write.subscription_entry(created, self._place))

    def _put_rule(self, address: RuleAddress, element: Element) -> Response:
        namespace, topic, subscription = self._namespace, address.topic, address.subscription
        owner = namespace.subscription(topic, subscription)
        made = read_rule(element, address.name)
        validation.validate_rule(made)
        if self._is_update():
            kept_name = namespace.rule(topic, subscription, address.name).description.name
            rule = namespace.update_rule(topic, subscription, replace(made, name=kept_name))
            return self._entry(200, write.rule_entry(rule, owner))
        self._check_rule_room(topic, made)
        return self._entry(201, write.rule_entry(namespace.create_rule(topic, subscription, made), owner))

    def delete(self, address: Address) -> Response:
        namespace = self._namespace
        match address:
            case QueueOrTopic(path=path):
                self._queue_or_topic(path).check_all_partitions()
                delete = (
                    namespace.delete_queue if isinstance(self._queue_or_topic(path), Queue) else namespace.delete_topic
                )
                delete(path)
            case SubscriptionAddress(topic=topic, name=name):
                namespace.subscription(topic, name).check_all_partitions()
                namespace.delete_subscription(topic, name)
            case RuleAddress(topic=topic, subscription=subscription, name=name):
                namespace.delete_rule(topic, subscription, name)
            case _:
                raise InvalidDescription("Only a queue, topic, subscription or rule can be deleted.")
        return Response(status=200)

    # -- parts

    def _is_update(self) -> bool:
        if_match = self._request.headers.get("if-match", "").strip()
        if if_match not in ("", "*"):
            raise InvalidDescription("If-Match can only be '*'; entities have no tags.")
        return if_match == "*"

    def _check_version(self, element: Element) -> None:
        given = element.child(SERVICE_BUS, "MaxMessageSizeInKilobytes")
        if given is not None and not given.is_nil and self._place.api_version < write.MESSAGE_SIZE_SINCE:
            since = write.MESSAGE_SIZE_SINCE
            raise InvalidDescription(f"MaxMessageSizeInKilobytes needs the api-version {since} or later.")

    def _completed(self, made: Sized, before: Sized | None) -> Sized:
        """With the size of one partition, and with keys for rules that came without: their own, or new ones."""
        known = {rule.key_name: rule for rule in before.authorization_rules} if before is not None else {}
        rules = []
        for rule in made.authorization_rules:
            held = known.get(rule.key_name)
            rules.append(
                replace(
                    rule,
                    primary_key=rule.primary_key or (held.primary_key if held else self._make_key()),
                    secondary_key=rule.secondary_key or (held.secondary_key if held else self._make_key()),
                )
            )
        return replace(validation.with_stored_size(made, self._namespace.tier), authorization_rules=tuple(rules))

    def _check_entity_room(self, made: QueueDescription | TopicDescription) -> None:
        quotas.check_entity_room(len(self._namespace.queues()) + len(self._namespace.topics()))
        if made.enable_partitioning:
            quotas.check_partitioned_room(self._namespace.partitioned_count())

    def _check_rule_room(self, topic: str, rule: RuleDescription) -> None:
        sql, correlation = write.filter_counts(self._namespace.topic(topic))
        quotas.check_rule_room(rule, sql_filters=sql, correlation_filters=correlation)

    def _queue_or_topic(self, path: str) -> Queue | Topic:
        try:
            return self._namespace.queue(path)
        except EntityNotFound:
            return self._namespace.topic(path)

    def _exists(self, path: str) -> bool:
        try:
            self._queue_or_topic(path)
        except EntityNotFound:
            return False
        return True

    def _entry(self, status: int, entry: Entry) -> Response:
        return Response(status=status, body=write_entry(entry, self._place), content_type=ENTRY_TYPE)
