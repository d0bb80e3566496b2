"""Duplicate detection: a message id is taken once within the window."""

from __future__ import annotations

from datetime import timedelta

import pytest

from local.broker.clock import ManualClock
from local.broker.descriptions import QueueDescription, TopicDescription
from local.broker.message_queue import FORGET_LOT, MessageQueue
from local.broker.namespace import Namespace
from tests.support.broker import body_of, message, namespace, receive, subscribe
from tests.support.broker_models import RecordingJournal

WINDOW_S = 60.0


@pytest.fixture
def queue(space: Namespace) -> MessageQueue:
    description = QueueDescription(
        requires_duplicate_detection=True, duplicate_detection_history_time_window=timedelta(seconds=WINDOW_S)
    )
    return space.create_queue("orders", description).main


def test_the_second_message_of_an_id_is_accepted_and_dropped(queue: MessageQueue) -> None:
    assert 1 == queue.put(message(b"first", message_id="7"))
    assert None is queue.put(message(b"second", message_id="7"))
    assert [b"first"] == [body_of(m) for m in receive(queue, 5)]


def test_an_id_counts_as_seen_even_when_its_message_is_gone(queue: MessageQueue) -> None:
    queue.put(message(message_id="7"))
    receive(queue, deletes=True)
    assert None is queue.put(message(message_id="7"))


def test_an_id_is_free_again_after_the_window(queue: MessageQueue, clock: ManualClock) -> None:
    queue.put(message(message_id="7"))
    clock.advance(WINDOW_S - 0.001)
    assert None is queue.put(message(message_id="7"))
    clock.advance(0.001)
    assert 2 == queue.put(message(message_id="7"))


def test_messages_without_id_are_never_duplicates(queue: MessageQueue) -> None:
    assert (1, 2) == (queue.put(message()), queue.put(message()))


@pytest.mark.parametrize("again", [b"7", "7"])
def test_an_id_sent_again_as_binary_is_the_same_id(queue: MessageQueue, again: object) -> None:
    queue.put(message(message_id="7"))
    assert None is queue.put(message(message_id=again))


def test_scheduled_messages_take_part(queue: MessageQueue, clock: ManualClock) -> None:
    queue.put(message(message_id="7", scheduled_at=clock.now() + 10))
    assert None is queue.put(message(message_id="7"))


def test_topics_detect_duplicates_before_their_subscriptions_see_them(space: Namespace) -> None:
    topic = space.create_topic("events", TopicDescription(requires_duplicate_detection=True))
    subscription = subscribe(space, "events", "all")
    topic.send(message(message_id="7"))
    assert 0 == topic.send(message(message_id="7"))
    assert 1 == subscription.main.message_count


def test_queues_without_detection_take_every_message(space: Namespace) -> None:
    queue = space.create_queue("plain", QueueDescription()).main
    assert (1, 2) == (queue.put(message(message_id="7")), queue.put(message(message_id="7")))


def test_the_history_stays_as_long_as_its_window_in_memory_and_on_disk(clock: ManualClock) -> None:
    journal = RecordingJournal()
    description = QueueDescription(
        requires_duplicate_detection=True, duplicate_detection_history_time_window=timedelta(seconds=WINDOW_S)
    )
    queue = namespace(clock, journal).create_queue("orders", description).main
    for index in range(2 * FORGET_LOT):
        queue.put(message(message_id=str(index)))
        clock.advance(WINDOW_S / 10)
    assert len(queue.partitions[0].history) <= 11
    assert len(journal.ids["orders"]) <= FORGET_LOT + 11
