"""A namespace as its journal left it: entities, messages, sessions, duplicate history, sequence numbers."""

from __future__ import annotations

from .description_json import load_description
from .descriptions import QueueDescription, RuleDescription, SubscriptionDescription, TopicDescription
from .entities import Entity
from .message_queue import MessageQueue
from .namespace import Namespace
from .sqlite_journal import SqliteJournal


def restore(namespace: Namespace, journal: SqliteJournal) -> int:
    """Fill an empty namespace from disk, and let it write there from now on; how many messages came back.

    The namespace comes with a journal that forgets, so that what is read is not written again.
    """
    _restore_entities(namespace, journal)
    queues = {queue.key: queue for queue in namespace.message_queues()}
    count = _restore_messages(queues, journal)
    namespace.use_journal(journal)
    for queue in queues.values():
        queue.resume()
    return count


def _restore_messages(queues: dict[str, MessageQueue], journal: SqliteJournal) -> int:
    """What the journal has is of queues that exist: an entity takes its messages with it when it is deleted."""
    for key, partition, last in journal.counters():
        queues[key].partitions[partition].restore_counter(last)
    for key, partition, message_id, at in journal.history():
        queues[key].partitions[partition].history[message_id] = at
    for key, session_id, state, updated_at in journal.sessions():
        session = queues[key].book.get(session_id)
        session.state, session.state_updated_at = state, updated_at
    count = 0
    for key, message in journal.messages():
        queues[key].restore(message)
        count += 1
    return count


def _restore_entities(namespace: Namespace, journal: SqliteJournal) -> None:
    rows = [(path, kind, *load_description(text)) for path, kind, text in journal.entities()]
    for path, _, description, _, created_at, updated_at in rows:
        if isinstance(description, QueueDescription):
            _date(namespace.create_queue(path, description), created_at, updated_at)
        elif isinstance(description, TopicDescription):
            _date(namespace.create_topic(path, description), created_at, updated_at)
    for path, _, description, rules, created_at, updated_at in rows:
        if isinstance(description, SubscriptionDescription):
            topic_path, _, name = path.rpartition("/Subscriptions/")
            default = RuleDescription(name="$Default")
            subscription = namespace.create_subscription(topic_path, name, description, default)
            subscription.rules.clear()
            for rule, rule_created_at in rules:
                namespace.create_rule(topic_path, name, rule, created_at=rule_created_at)
            _date(subscription, created_at, updated_at)


def _date(entity: Entity, created_at: float, updated_at: float) -> None:
    entity.created_at, entity.updated_at = created_at, updated_at
