"""Time to live, and what happens to a message that ran out of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from local.broker.clock import ManualClock
from local.broker.descriptions import QueueDescription
from local.broker.message_queue import MessageQueue
from local.broker.namespace import Namespace
from local.broker.store import STALE_MAX
from tests.support.broker import Receiver, application_of, body_of, message, receive, take


def queue_with(space: Namespace, **description: object) -> MessageQueue:
    return space.create_queue("orders", QueueDescription(**description)).main  # type: ignore[arg-type]


def test_a_message_dies_at_the_end_of_its_time_to_live(space: Namespace, clock: ManualClock) -> None:
    queue = queue_with(space)
    queue.put(message(ttl_s=10))
    clock.advance(9.999)
    assert 1 == len(queue.peek(1, 1))
    clock.advance(0.001)
    assert (0, 0) == (queue.message_count, queue.size_bytes)
    assert 0 == space.queue("orders").dead_letters.message_count


def test_an_expired_message_is_dead_lettered_where_that_is_asked_for(space: Namespace, clock: ManualClock) -> None:
    queue = queue_with(space, dead_lettering_on_message_expiration=True)
    queue.put(message(b"old", ttl_s=10))
    clock.advance(10)
    (dead,) = receive(space.queue("orders").dead_letters)
    assert (b"old", "TTLExpiredException") == (body_of(dead), application_of(dead)["DeadLetterReason"])


@pytest.mark.parametrize(("asked_s", "given_s"), [(None, 20.0), (60.0, 20.0), (5.0, 5.0)])
def test_the_default_time_to_live_is_also_the_longest(
    space: Namespace, clock: ManualClock, asked_s: float | None, given_s: float
) -> None:
    queue = queue_with(space, default_message_time_to_live=timedelta(seconds=20))
    queue.put(message(ttl_s=asked_s))
    (held,) = queue.peek(1, 1)
    assert clock.now() + given_s == held.expires_at
    assert given_s == held.content.time_to_live


def test_a_message_under_lock_lives_until_the_lock_ends(space: Namespace, clock: ManualClock) -> None:
    queue = queue_with(space, lock_duration=timedelta(seconds=30))
    queue.put(message(ttl_s=10))
    token = take(queue)
    clock.advance(20)
    assert clock.now() + 30 == queue.renew(token)
    clock.advance(29)
    queue.complete(token)
    queue.put(message(ttl_s=10))
    take(queue)
    clock.advance(30)
    assert 0 == queue.message_count


def test_an_expired_message_that_is_abandoned_dies_at_once(space: Namespace, clock: ManualClock) -> None:
    queue = queue_with(space, dead_lettering_on_message_expiration=True)
    queue.put(message(ttl_s=10))
    token = take(queue)
    clock.advance(10)
    queue.abandon(token)
    assert (0, 1) == (queue.message_count, space.queue("orders").dead_letters.message_count)


def test_a_dead_letter_never_expires(space: Namespace, clock: ManualClock) -> None:
    queue = queue_with(space, default_message_time_to_live=timedelta(seconds=10))
    queue.put(message())
    queue.dead_letter(take(queue), None, None)
    clock.advance(10_000)
    assert 1 == space.queue("orders").dead_letters.message_count


def test_expired_messages_leave_nothing_behind_without_receivers(space: Namespace, clock: ManualClock) -> None:
    queue = queue_with(space)
    for _ in range(4):
        for _ in range(STALE_MAX):
            queue.put(message(ttl_s=1))
        clock.advance(1)
    assert 0 == queue.message_count
    assert len(queue.partitions[0].ready) <= 2 * STALE_MAX + 1


def test_deadlines_of_messages_that_left_do_not_pile_up(space: Namespace) -> None:
    queue = queue_with(space)
    receiver = Receiver(credit=10**9, deletes=True)
    queue.attach(receiver)
    for _ in range(3 * STALE_MAX):
        queue.put(message(ttl_s=1000))
    assert len(queue._expiries) <= STALE_MAX + 2
