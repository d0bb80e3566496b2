"""What an entity lets in and out: status, quota, pings, counts; and how it ends."""

from __future__ import annotations

from datetime import timedelta

import pytest

from local.broker.clock import ManualClock
from local.broker.content import PING_CONTENT_TYPE
from local.broker.descriptions import EntityStatus, MessageCounts, QueueDescription, TopicDescription
from local.broker.entity import MEGABYTE
from local.broker.errors import (
    ARGUMENT_ERROR,
    ENTITY_DISABLED,
    NOT_ALLOWED,
    QUOTA_EXCEEDED,
    BrokerError,
    EntityExists,
    EntityNotFound,
)
from local.broker.namespace import Namespace
from tests.support.broker import accept, message, receive, subscribe, take

IDLE = timedelta(minutes=5)


class Link:
    """An attached link; it only remembers why it was closed."""

    def __init__(self, *, is_receiver: bool) -> None:
        self.is_receiver = is_receiver
        self.error: BrokerError | None = None

    def close_with(self, error: BrokerError) -> None:
        self.error = error


@pytest.mark.parametrize(
    ("status", "can_send", "can_receive"),
    [
        (EntityStatus.ACTIVE, True, True),
        (EntityStatus.DISABLED, False, False),
        (EntityStatus.SEND_DISABLED, False, True),
        (EntityStatus.RECEIVE_DISABLED, True, False),
    ],
)
def test_the_status_says_which_way_messages_may_go(
    space: Namespace, status: EntityStatus, can_send: bool, can_receive: bool
) -> None:
    queue = space.create_queue("orders", QueueDescription())
    queue.send(message())
    space.update_queue("orders", QueueDescription(status=status))
    if can_send:
        queue.send(message())
    else:
        with pytest.raises(BrokerError) as refusal:
            queue.send(message())
        assert ENTITY_DISABLED == refusal.value.condition
    assert int(can_receive) == len(receive(queue.main))
    if can_receive:
        queue.check_can_receive()
    else:
        with pytest.raises(BrokerError, match="entity-disabled"):
            queue.check_can_receive()


def test_disabling_receiving_closes_the_links_that_receive(space: Namespace) -> None:
    queue = space.create_queue("orders", QueueDescription())
    sender, receiver = Link(is_receiver=False), Link(is_receiver=True)
    queue.links |= {sender, receiver}
    space.update_queue("orders", QueueDescription(status=EntityStatus.RECEIVE_DISABLED))
    assert None is sender.error
    assert receiver.error is not None
    assert ENTITY_DISABLED == receiver.error.condition


def test_what_was_locked_before_receiving_was_disabled_can_still_be_settled(space: Namespace) -> None:
    queue = space.create_queue("orders", QueueDescription())
    queue.send(message())
    token = take(queue.main)
    space.update_queue("orders", QueueDescription(status=EntityStatus.DISABLED))
    queue.main.complete(token)
    assert 0 == queue.main.message_count


def test_a_disabled_topic_takes_nothing(space: Namespace) -> None:
    topic = space.create_topic("events", TopicDescription(status=EntityStatus.DISABLED))
    with pytest.raises(BrokerError, match="entity-disabled"):
        topic.send(message())


def test_a_full_queue_refuses_until_there_is_room(space: Namespace) -> None:
    queue = space.create_queue("orders", QueueDescription(max_size_in_megabytes=1))
    for _ in range(8):
        queue.send(message(b"x" * (MEGABYTE // 8)))
    with pytest.raises(BrokerError) as refusal:
        queue.send(message())
    assert QUOTA_EXCEEDED == refusal.value.condition
    receive(queue.main, deletes=True)
    queue.send(message())


def test_dead_letters_fill_the_queue_they_come_from(space: Namespace) -> None:
    queue = space.create_queue("orders", QueueDescription(max_size_in_megabytes=1))
    queue.send(message(b"x" * MEGABYTE))
    queue.main.dead_letter(take(queue.main), None, None)
    with pytest.raises(BrokerError, match="resource-limit-exceeded"):
        queue.send(message())


def test_a_full_topic_is_one_whose_subscriptions_are_full(space: Namespace) -> None:
    topic = space.create_topic("events", TopicDescription(max_size_in_megabytes=1))
    subscribe(space, "events", "slow")
    topic.send(message(b"x" * MEGABYTE))
    with pytest.raises(BrokerError, match="resource-limit-exceeded"):
        topic.send(message())


def test_a_ping_is_accepted_and_never_seen(space: Namespace, clock: ManualClock) -> None:
    def ping(**fields: object) -> None:
        for entity in (queue, sessions, forwarding, topic):
            assert 0 == entity.send(message(b"", content_type=PING_CONTENT_TYPE, session_id="a", **fields))

    queue = space.create_queue("orders", QueueDescription(dead_lettering_on_message_expiration=True))
    sessions = space.create_queue("sessions", QueueDescription(requires_session=True))
    forwarding = space.create_queue("forwarding", QueueDescription(forward_to="orders"))
    topic = space.create_topic("events", TopicDescription())
    subscription = subscribe(space, "events", "all")
    ping(ttl_s=1)
    ping(scheduled_at=clock.now() + 10)
    clock.advance(100)
    assert 0 == sum(q.message_count for q in space.message_queues())
    assert [] == queue.main.peek(0, 10)
    assert (None, 0) == (accept(sessions.main).session, subscription.dead_letters.message_count)


def test_a_ping_is_refused_where_a_message_would_be(space: Namespace) -> None:
    queue = space.create_queue("orders", QueueDescription(status=EntityStatus.SEND_DISABLED))
    with pytest.raises(BrokerError, match="entity-disabled"):
        queue.send(message(b"", content_type=PING_CONTENT_TYPE))


def test_counts_tell_where_messages_are(space: Namespace, clock: ManualClock) -> None:
    queue = space.create_queue("orders", QueueDescription())
    for _ in range(5):
        queue.send(message())
    queue.send(message(scheduled_at=clock.now() + 10))
    queue.main.dead_letter(take(queue.main), None, None)
    queue.main.defer(take(queue.main))
    take(queue.main)
    assert MessageCounts(active=4, dead_letter=1, scheduled=1) == queue.counts()
    assert 6 == queue.counts().total


def test_peek_looks_at_everything_without_touching_it(space: Namespace, clock: ManualClock) -> None:
    queue = space.create_queue("orders", QueueDescription()).main
    for index in range(4):
        queue.put(message(session_id="ab"[index % 2]))
    queue.put(message(scheduled_at=clock.now() + 10))
    take(queue)
    queue.defer(take(queue))
    assert [1, 2, 3, 4, 5] == [m.sequence_number for m in queue.peek(-7, 10)]
    assert [3, 4] == [m.sequence_number for m in queue.peek(3, 2)]
    assert [2, 4] == [m.sequence_number for m in queue.peek(0, 10, "b")]
    assert [] == queue.peek(6, 10)
    assert [] == queue.peek(1 << 60, 10)


def test_deleting_in_batches_takes_the_oldest_that_wait(space: Namespace, clock: ManualClock) -> None:
    queue = space.create_queue("orders", QueueDescription()).main
    for index in range(6):
        queue.put(message(session_id="ab"[index % 2]))
        clock.advance(1)
    early = clock.now() - 3
    locked = take(queue)
    assert 1 == queue.delete_batch(10, early, "a")
    assert 2 == queue.delete_batch(10, early)
    assert 1 == queue.delete_batch(1, clock.now())
    assert [1, 6] == [m.sequence_number for m in queue.messages()]
    queue.complete(locked)
    assert [6] == [m.sequence_number for m in receive(queue, 5)]


def test_an_idle_queue_deletes_itself_with_its_messages(space: Namespace, clock: ManualClock) -> None:
    queue = space.create_queue("orders", QueueDescription(auto_delete_on_idle=IDLE))
    queue.send(message())
    clock.advance(IDLE.total_seconds())
    with pytest.raises(EntityNotFound):
        space.queue("orders")
    assert 0 == queue.main.message_count


def test_use_keeps_a_queue_alive(space: Namespace, clock: ManualClock) -> None:
    queue = space.create_queue("orders", QueueDescription(auto_delete_on_idle=IDLE))
    for _ in range(5):
        clock.advance(IDLE.total_seconds() - 1)
        queue.touch()
    link = Link(is_receiver=True)
    queue.links.add(link)
    clock.advance(10 * IDLE.total_seconds())
    assert queue is space.queue("orders")
    queue.links.remove(link)
    clock.advance(2 * IDLE.total_seconds())
    with pytest.raises(EntityNotFound):
        space.queue("orders")


def test_topics_and_subscriptions_delete_themselves_too(space: Namespace, clock: ManualClock) -> None:
    space.create_topic("events", TopicDescription(auto_delete_on_idle=2 * IDLE))
    subscribe(space, "events", "s", auto_delete_on_idle=IDLE)
    clock.advance(IDLE.total_seconds())
    assert [] == space.subscriptions("events")
    clock.advance(IDLE.total_seconds())
    assert [] == space.topics()


def test_deleting_closes_links_and_stops_all_clocks(space: Namespace, clock: ManualClock) -> None:
    queue = space.create_queue("orders", QueueDescription(requires_session=True, auto_delete_on_idle=IDLE))
    queue.send(message(session_id="a", ttl_s=10))
    queue.send(message(session_id="b", scheduled_at=clock.now() + 10))
    holder, waiting = accept(queue.main, "a", credit=1), accept(queue.main)
    link = Link(is_receiver=True)
    queue.links.add(link)
    space.delete_queue("orders")
    assert link.error is not None
    assert "amqp:resource-deleted" == link.error.condition
    clock.advance(3600)
    assert ([], False) == (holder.lost, waiting.timed_out)
    assert [] == clock.pending


def test_a_name_can_be_used_again_after_deletion(space: Namespace) -> None:
    space.create_queue("Orders", QueueDescription()).send(message())
    with pytest.raises(EntityExists):
        space.create_topic("orders", TopicDescription())
    space.delete_queue("ORDERS")
    assert 1 == space.create_queue("orders", QueueDescription()).send(message())


@pytest.mark.parametrize(
    ("address", "key", "is_management"),
    [
        ("orders", "orders", False),
        ("amqps://host:5671/Orders", "orders", False),
        ("orders/$DeadLetterQueue", "orders/$DeadLetterQueue", False),
        ("orders/$deadletterqueue/$management", "orders/$DeadLetterQueue", True),
        ("orders/$Transfer/$DeadLetterQueue", "orders/$Transfer/$DeadLetterQueue", False),
        ("events/subscriptions/S", "events/Subscriptions/s", False),
        ("events/Subscriptions/s/$DeadLetterQueue", "events/Subscriptions/s/$DeadLetterQueue", False),
        ("a/b%20c/$Management", "a/b c", True),
    ],
)
def test_addresses_find_their_queue_whatever_their_case(
    space: Namespace, address: str, key: str, is_management: bool
) -> None:
    space.create_queue("orders", QueueDescription())
    space.create_queue("a/b c", QueueDescription())
    space.create_topic("events", TopicDescription())
    subscribe(space, "events", "s")
    found = space.resolve(address)
    assert found.queue is not None
    assert (key, is_management) == (found.queue.key, found.is_management)


def test_addresses_of_nothing_are_refused(space: Namespace) -> None:
    space.create_topic("events", TopicDescription())
    for address in ("nothing", "events/subscriptions/s", "nothing/$management", "orders/$other"):
        with pytest.raises(EntityNotFound):
            space.resolve(address)
    with pytest.raises(BrokerError) as refusal:
        space.resolve("events/$DeadLetterQueue")
    assert ARGUMENT_ERROR == refusal.value.condition
    assert None is space.resolve("events").queue


def test_a_queue_with_sessions_refuses_a_whole_batch_for_one_without(space: Namespace) -> None:
    queue = space.create_queue("orders", QueueDescription(requires_session=True))
    with pytest.raises(BrokerError) as refusal:
        queue.check(message())
    assert NOT_ALLOWED == refusal.value.condition
