"""Deferred messages are fetched by number; scheduled ones wait for their time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from local.broker.clock import ManualClock
from local.broker.descriptions import QueueDescription
from local.broker.errors import MESSAGE_NOT_FOUND, BrokerError
from local.broker.message_queue import MessageQueue
from local.broker.namespace import Namespace
from local.broker.store import STALE_MAX, MessageState
from tests.support.broker import Receiver, body_of, message, receive, take


@pytest.fixture
def queue(space: Namespace) -> MessageQueue:
    return space.create_queue("orders", QueueDescription(lock_duration=timedelta(seconds=30))).main


def test_a_deferred_message_comes_only_by_its_number(queue: MessageQueue) -> None:
    number = queue.put(message(b"later"))
    queue.put(message(b"now"))
    queue.defer(take(queue))
    assert [b"now"] == [body_of(m) for m in receive(queue, 5)]
    assert number is not None
    (deferred,) = queue.receive_deferred([number], deletes=False)
    assert (b"later", 1, MessageState.DEFERRED) == (body_of(deferred), deferred.delivery_count, deferred.state)
    assert deferred.lock_token is not None
    queue.complete(deferred.lock_token)
    assert 1 == queue.message_count


def test_deferred_messages_come_all_or_none(queue: MessageQueue) -> None:
    first, second = queue.put(message()), queue.put(message())
    assert first is not None
    assert second is not None
    queue.defer(take(queue))
    with pytest.raises(BrokerError) as refusal:
        queue.receive_deferred([first, second], deletes=False)
    assert MESSAGE_NOT_FOUND == refusal.value.condition
    assert 0 == queue.lock_count
    assert [first] == [m.sequence_number for m in queue.receive_deferred([first], deletes=True)]
    assert 1 == queue.message_count


def test_a_deferred_message_asked_for_twice_is_locked(queue: MessageQueue, clock: ManualClock) -> None:
    number = queue.put(message())
    assert number is not None
    queue.defer(take(queue))
    queue.receive_deferred([number], deletes=False)
    with pytest.raises(BrokerError, match="message-not-found"):
        queue.receive_deferred([number], deletes=False)
    clock.advance(30)
    (again,) = queue.receive_deferred([number], deletes=False)
    assert (MessageState.DEFERRED, 2) == (again.state, again.delivery_count)


def test_a_deferred_message_is_not_taken_by_age_until_it_is_settled(queue: MessageQueue, clock: ManualClock) -> None:
    number = queue.put(message(ttl_s=60))
    assert number is not None
    queue.defer(take(queue))
    clock.advance(3600)
    assert 1 == len(queue.receive_deferred([number], deletes=False))


def test_a_scheduled_message_appears_at_its_time_with_a_new_number(queue: MessageQueue, clock: ManualClock) -> None:
    due = clock.now() + 20
    scheduled = queue.put(message(b"later", scheduled_at=due))
    queue.put(message(b"now"))
    receiver = Receiver(credit=5)
    queue.attach(receiver)
    queue.pump()
    assert [b"now"] == [body_of(m) for m in receiver.got]
    assert (1, 2) == (queue.scheduled_count, queue.message_count)
    clock.advance(20)
    assert [b"now", b"later"] == [body_of(m) for m in receiver.got]
    late = receiver.got[1]
    assert (1, 3, due) == (scheduled, late.sequence_number, late.enqueued_at)
    assert 0 == queue.scheduled_count


def test_a_time_in_the_past_is_now(queue: MessageQueue, clock: ManualClock) -> None:
    queue.put(message(scheduled_at=clock.now() - 5))
    assert [clock.now()] == [m.enqueued_at for m in receive(queue)]


def test_a_cancelled_message_never_appears(queue: MessageQueue, clock: ManualClock) -> None:
    numbers = [queue.put(message(scheduled_at=clock.now() + 10)) for _ in range(3)]
    queue.cancel_scheduled([number for number in numbers[:2] if number is not None])
    clock.advance(10)
    assert 1 == len(receive(queue, 5))


def test_cancelling_takes_all_or_none(queue: MessageQueue, clock: ManualClock) -> None:
    waiting = queue.put(message())
    scheduled = queue.put(message(scheduled_at=clock.now() + 10))
    assert scheduled is not None
    for wrong in (waiting, 99, -1):
        assert wrong is not None
        with pytest.raises(BrokerError) as refusal:
            queue.cancel_scheduled([scheduled, wrong])
        assert MESSAGE_NOT_FOUND == refusal.value.condition
    assert 1 == queue.scheduled_count
    clock.advance(10)
    with pytest.raises(BrokerError, match="message-not-found"):
        queue.cancel_scheduled([scheduled])


def test_a_scheduled_message_lives_from_its_own_time(queue: MessageQueue, clock: ManualClock) -> None:
    queue.put(message(scheduled_at=clock.now() + 100, ttl_s=10))
    clock.advance(109)
    assert 1 == len(queue.peek(1, 10))
    clock.advance(1)
    assert 0 == queue.message_count


def test_schedules_that_were_cancelled_do_not_pile_up(queue: MessageQueue, clock: ManualClock) -> None:
    for _ in range(3 * STALE_MAX):
        number = queue.put(message(scheduled_at=clock.now() + 1000))
        assert number is not None
        queue.cancel_scheduled([number])
    assert len(queue._schedules) <= STALE_MAX + 2
