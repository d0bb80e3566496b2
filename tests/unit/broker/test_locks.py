"""Peek-lock: who has a message, for how long, and where it goes when it comes back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from local.broker.clock import ManualClock
from local.broker.descriptions import QueueDescription
from local.broker.errors import MESSAGE_LOCK_LOST, NOT_ALLOWED, BrokerError
from local.broker.message_queue import MessageQueue
from local.broker.namespace import Namespace
from local.broker.store import STALE_MAX
from tests.support.broker import Receiver, application_of, body_of, message, receive, take

LOCK_S = 30.0


@pytest.fixture
def queue(space: Namespace) -> MessageQueue:
    description = QueueDescription(lock_duration=timedelta(seconds=LOCK_S), max_delivery_count=3)
    return space.create_queue("orders", description).main


def test_a_locked_message_is_delivered_to_nobody_else(queue: MessageQueue) -> None:
    queue.put(message())
    assert 1 == len(receive(queue))
    assert [] == receive(queue)
    assert 1 == queue.message_count


def test_a_lock_that_runs_out_returns_the_message_to_its_old_place_and_counts(
    queue: MessageQueue, clock: ManualClock
) -> None:
    for body in (b"1", b"2", b"3"):
        queue.put(message(body))
    take(queue)
    clock.advance(LOCK_S - 0.001)
    assert [b"2"] == [body_of(m) for m in receive(queue)]
    clock.advance(0.001)
    first, third = receive(queue, 2)
    assert (b"1", 1) == (body_of(first), first.delivery_count)
    assert (b"3", 0) == (body_of(third), third.delivery_count)


def test_an_expired_lock_can_neither_settle_nor_renew(queue: MessageQueue, clock: ManualClock) -> None:
    queue.put(message())
    token = take(queue)
    clock.advance(LOCK_S)
    for settle in (queue.complete, queue.abandon, queue.release, queue.defer, queue.renew):
        with pytest.raises(BrokerError) as refusal:
            settle(token)
        assert MESSAGE_LOCK_LOST == refusal.value.condition
    assert 1 == queue.message_count


def test_a_renewed_lock_lives_a_full_duration_from_then(queue: MessageQueue, clock: ManualClock) -> None:
    queue.put(message())
    token = take(queue)
    clock.advance(LOCK_S - 1)
    assert clock.now() + LOCK_S == queue.renew(token)
    clock.advance(LOCK_S - 1)
    queue.complete(token)
    assert 0 == queue.message_count


def test_a_renewed_lock_ends_on_time_as_well(queue: MessageQueue, clock: ManualClock) -> None:
    queue.put(message())
    token = take(queue)
    clock.advance(10)
    queue.renew(token)
    clock.advance(LOCK_S)
    assert 0 == queue.lock_count
    assert [1] == [m.delivery_count for m in receive(queue)]


def test_release_returns_a_message_uncounted(queue: MessageQueue) -> None:
    queue.put(message(b"1"))
    queue.put(message(b"2"))
    queue.release(take(queue))
    assert [(b"1", 0), (b"2", 0)] == [(body_of(m), m.delivery_count) for m in receive(queue, 2)]


def test_abandon_counts_and_changes_properties(queue: MessageQueue) -> None:
    queue.put(message(application={"kept": 1, "changed": "old"}))
    before = queue.size_bytes
    queue.abandon(take(queue), {"changed": "newer", "added": True})
    (again,) = receive(queue)
    assert 1 == again.delivery_count
    assert {"kept": 1, "changed": "newer", "added": True} == application_of(again)
    assert before < queue.size_bytes == again.content.size


def test_completing_twice_is_a_lost_lock(queue: MessageQueue) -> None:
    queue.put(message())
    token = take(queue)
    queue.complete(token)
    with pytest.raises(BrokerError) as refusal:
        queue.complete(token)
    assert MESSAGE_LOCK_LOST == refusal.value.condition


def test_the_last_allowed_delivery_ends_in_the_dead_letter_queue(space: Namespace, queue: MessageQueue) -> None:
    queue.put(message(b"poison", message_id="7"))
    for _ in range(3):
        queue.abandon(take(queue))
    assert 0 == queue.message_count
    (dead,) = receive(space.queue("orders").dead_letters)
    assert (b"poison", 3) == (body_of(dead), dead.delivery_count)
    assert "MaxDeliveryCountExceeded" == application_of(dead)["DeadLetterReason"]


def test_locks_that_run_out_count_as_deliveries(space: Namespace, queue: MessageQueue, clock: ManualClock) -> None:
    queue.put(message())
    for _ in range(3):
        take(queue)
        clock.advance(LOCK_S)
    assert (0, 1) == (queue.message_count, space.queue("orders").dead_letters.message_count)


def test_dead_letters_have_no_limit_of_deliveries_and_stay(space: Namespace, queue: MessageQueue) -> None:
    queue.put(message())
    queue.dead_letter(take(queue), "Because", None)
    grave = space.queue("orders").dead_letters
    for _ in range(20):
        grave.abandon(take(grave))
    assert 1 == grave.message_count
    with pytest.raises(BrokerError) as refusal:
        grave.dead_letter(take(grave), None, None)
    assert NOT_ALLOWED == refusal.value.condition
    assert 1 == grave.message_count


def test_dead_lettering_writes_down_why_and_what_the_receiver_adds(space: Namespace, queue: MessageQueue) -> None:
    queue.put(message(application={"own": 1}))
    queue.dead_letter(take(queue), "Broken", "could not be read", {"added": 2})
    (dead,) = receive(space.queue("orders").dead_letters)
    expected = {"own": 1, "added": 2, "DeadLetterReason": "Broken", "DeadLetterErrorDescription": "could not be read"}
    assert expected == application_of(dead)


def test_a_dead_letter_without_reason_has_none(space: Namespace, queue: MessageQueue) -> None:
    queue.put(message(application={"own": 1}))
    queue.dead_letter(take(queue), None, None)
    (dead,) = receive(space.queue("orders").dead_letters)
    assert {"own": 1} == application_of(dead)


def test_receive_and_delete_takes_the_message_for_good(queue: MessageQueue) -> None:
    queue.put(message())
    (gone,) = receive(queue, deletes=True)
    assert (None, 0, 0) == (gone.lock_token, queue.message_count, queue.size_bytes)


def test_consumers_get_messages_in_turn_and_never_beyond_their_credit(queue: MessageQueue) -> None:
    small, large, none = Receiver(credit=1), Receiver(credit=5), Receiver()
    for consumer in (small, large, none):
        queue.attach(consumer)
    for _ in range(8):
        queue.put(message())
    assert (1, 5, 0) == tuple(len(consumer.got) for consumer in (small, large, none))
    assert [1, 2, 3, 4, 5, 6] == sorted(small.numbers + large.numbers)


def test_locks_outlive_the_link_they_were_given_to(queue: MessageQueue) -> None:
    queue.put(message())
    queue.complete(take(queue))
    assert 0 == queue.message_count


def test_entries_of_ended_locks_do_not_pile_up(queue: MessageQueue) -> None:
    queue.put(message())
    for _ in range(3 * STALE_MAX):
        queue.release(take(queue))
    assert len(queue._lock_ends) <= 2 + STALE_MAX + 1
