"""Sessions: one holder at a time, order within, state beside, and a queue of those who wait."""

from __future__ import annotations

from datetime import timedelta

import pytest

from local.broker.clock import ManualClock
from local.broker.descriptions import QueueDescription
from local.broker.errors import (
    NOT_ALLOWED,
    SESSION_CANNOT_BE_LOCKED,
    SESSION_LOCK_LOST,
    BrokerError,
)
from local.broker.message_queue import MessageQueue
from local.broker.namespace import Namespace
from local.broker.store import STALE_MAX
from tests.support.broker import Receiver, accept, body_of, message

LOCK_S = 30.0


@pytest.fixture
def queue(space: Namespace) -> MessageQueue:
    description = QueueDescription(requires_session=True, lock_duration=timedelta(seconds=LOCK_S), max_delivery_count=3)
    return space.create_queue("orders", description).main


def fill(queue: MessageQueue, *pairs: tuple[str, bytes]) -> None:
    for session_id, body in pairs:
        queue.put(message(body, session_id=session_id))


def bodies(receiver: Receiver) -> list[bytes]:
    return [body_of(m) for m in receiver.got]


def test_a_holder_gets_its_session_in_order_and_nothing_else(queue: MessageQueue) -> None:
    fill(queue, ("a", b"1"), ("b", b"2"), ("a", b"3"))
    holder = accept(queue, "a", credit=10)
    fill(queue, ("b", b"4"), ("a", b"5"))
    assert [b"1", b"3", b"5"] == bodies(holder)


def test_a_message_without_session_id_is_refused(queue: MessageQueue) -> None:
    with pytest.raises(BrokerError) as refusal:
        queue.put(message())
    assert NOT_ALLOWED == refusal.value.condition


def test_the_empty_session_id_is_a_session(queue: MessageQueue) -> None:
    fill(queue, ("", b"1"))
    assert [b"1"] == bodies(accept(queue, "", credit=1))


def test_a_named_session_that_is_held_cannot_be_locked(queue: MessageQueue) -> None:
    accept(queue, "a")
    with pytest.raises(BrokerError) as refusal:
        accept(queue, "a")
    assert SESSION_CANNOT_BE_LOCKED == refusal.value.condition


def test_a_named_session_can_be_held_before_it_has_messages(queue: MessageQueue) -> None:
    holder = accept(queue, "a", credit=1)
    fill(queue, ("a", b"1"))
    assert [b"1"] == bodies(holder)


def test_the_next_available_session_is_the_one_that_waited_longest(queue: MessageQueue) -> None:
    fill(queue, ("a", b"1"), ("b", b"2"), ("a", b"3"))
    first, second = accept(queue), accept(queue)
    assert first.session is not None
    assert second.session is not None
    assert ("a", "b") == (first.session.id, second.session.id)
    assert None is accept(queue).session


def test_one_who_waits_gets_the_first_session_that_comes_free(queue: MessageQueue, clock: ManualClock) -> None:
    early, late = accept(queue, wait_s=60), accept(queue, wait_s=60)
    clock.advance(59)
    fill(queue, ("a", b"1"))
    assert early.session is not None
    assert "a" == early.session.id
    assert [] == [holder for holder in (late,) if holder.session is not None]
    queue.release_session(early)
    assert ["a"] == [holder.session.id for holder in (late,) if holder.session is not None]


def test_waiting_ends_in_time(queue: MessageQueue, clock: ManualClock) -> None:
    waiting = accept(queue, wait_s=5)
    clock.advance(4.9)
    assert [False] == [holder.timed_out for holder in (waiting,)]
    clock.advance(0.1)
    assert [True] == [holder.timed_out for holder in (waiting,)]
    fill(queue, ("a", b"1"))
    assert None is waiting.session


def test_one_who_stopped_waiting_gets_nothing(queue: MessageQueue, clock: ManualClock) -> None:
    waiting = accept(queue, wait_s=5)
    queue.release_session(waiting)
    fill(queue, ("a", b"1"))
    clock.advance(10)
    assert (None, False) == (waiting.session, waiting.timed_out)


def test_giving_a_session_back_returns_its_messages_uncounted_and_in_order(queue: MessageQueue) -> None:
    fill(queue, ("a", b"1"), ("a", b"2"), ("a", b"3"))
    holder = accept(queue, "a", credit=2)
    queue.complete(holder.tokens[0])
    queue.release_session(holder)
    again = accept(queue, credit=5)
    assert [(b"2", 0), (b"3", 0)] == [(body_of(m), m.delivery_count) for m in again.got]


def test_a_session_lock_that_runs_out_counts_and_frees_the_session(queue: MessageQueue, clock: ManualClock) -> None:
    fill(queue, ("a", b"1"), ("a", b"2"))
    holder = accept(queue, "a", credit=1)
    (token,) = holder.tokens
    clock.advance(LOCK_S)
    assert ["a"] == holder.lost
    again = accept(queue, credit=5)
    assert [(b"1", 1), (b"2", 0)] == [(body_of(m), m.delivery_count) for m in again.got]
    with pytest.raises(BrokerError) as refusal:
        queue.complete(token)
    assert SESSION_LOCK_LOST == refusal.value.condition


def test_messages_die_after_too_many_lost_sessions(space: Namespace, queue: MessageQueue, clock: ManualClock) -> None:
    fill(queue, ("a", b"1"))
    for _ in range(3):
        accept(queue, "a", credit=1)
        clock.advance(LOCK_S)
    assert (0, 1) == (queue.message_count, space.queue("orders").dead_letters.message_count)
    assert [] == queue.book.listing(None)


def test_renewing_a_session_renews_everything_under_its_lock(queue: MessageQueue, clock: ManualClock) -> None:
    fill(queue, ("a", b"1"))
    holder = accept(queue, "a", credit=1)
    clock.advance(LOCK_S - 1)
    assert clock.now() + LOCK_S == queue.renew_session("a")
    clock.advance(LOCK_S - 1)
    queue.complete(holder.tokens[0])
    clock.advance(1)
    assert ["a"] == holder.lost


def test_a_message_of_a_session_has_no_lock_of_its_own_to_renew(queue: MessageQueue) -> None:
    fill(queue, ("a", b"1"))
    holder = accept(queue, "a", credit=1)
    with pytest.raises(BrokerError) as refusal:
        queue.renew(holder.tokens[0])
    assert NOT_ALLOWED == refusal.value.condition


@pytest.mark.parametrize("use", ["renew_session", "session_state", "held_session"])
def test_a_session_nobody_holds_cannot_be_used(queue: MessageQueue, use: str) -> None:
    fill(queue, ("a", b"1"))
    for session_id in ("a", "unknown"):
        with pytest.raises(BrokerError) as refusal:
            getattr(queue, use)(session_id)
        assert SESSION_LOCK_LOST == refusal.value.condition


def test_state_outlives_holders_and_messages(queue: MessageQueue) -> None:
    holder = accept(queue, "a")
    assert None is queue.session_state("a")
    queue.set_session_state("a", b"page 3")
    queue.release_session(holder)
    accept(queue, "a")
    assert b"page 3" == queue.session_state("a")


def test_a_session_without_messages_and_state_is_forgotten(queue: MessageQueue) -> None:
    holder = accept(queue, "a")
    queue.set_session_state("a", b"page 3")
    queue.set_session_state("a", None)
    queue.release_session(holder)
    assert {} == queue.book.sessions


def test_sessions_are_listed_by_messages_or_state(queue: MessageQueue, clock: ManualClock) -> None:
    fill(queue, ("b", b"1"))
    accept(queue, "a")
    queue.set_session_state("a", b"state")
    accept(queue, "c")
    assert ["a", "b"] == queue.book.listing(None)


def test_sessions_are_listed_by_the_age_of_their_state(queue: MessageQueue, clock: ManualClock) -> None:
    fill(queue, ("b", b"1"))
    accept(queue, "a")
    queue.set_session_state("a", b"state")
    changed_at = clock.now()
    assert ["a"] == queue.book.listing(changed_at - 1)
    assert [] == queue.book.listing(changed_at)


def test_deferred_messages_belong_to_their_session(queue: MessageQueue) -> None:
    fill(queue, ("a", b"1"), ("b", b"2"))
    first = accept(queue, "a", credit=1)
    queue.defer(first.tokens[0])
    other = accept(queue, "b")
    assert other.session is not None
    with pytest.raises(BrokerError, match="message-not-found"):
        queue.receive_deferred([1], deletes=False, session=other.session)
    assert first.session is not None
    (deferred,) = queue.receive_deferred([1], deletes=False, session=first.session)
    queue.release_session(first)
    assert None is deferred.lock_token
    assert None is accept(queue).session, "a deferred message makes no session available"


def test_queues_without_sessions_have_none_to_accept(space: Namespace) -> None:
    plain = space.create_queue("plain", QueueDescription()).main
    plain.put(message(session_id="a"))
    with pytest.raises(BrokerError) as refusal:
        accept(plain, "a")
    assert NOT_ALLOWED == refusal.value.condition
    assert {} == plain.book.sessions


def test_an_expired_message_does_not_make_its_session_available(queue: MessageQueue, clock: ManualClock) -> None:
    queue.put(message(session_id="a", ttl_s=1))
    clock.advance(1)
    assert None is accept(queue).session


def test_entries_of_ended_holds_do_not_pile_up(queue: MessageQueue, clock: ManualClock) -> None:
    kept = accept(queue, "kept")
    for _ in range(3 * STALE_MAX):
        queue.release_session(accept(queue, "a"))
    assert len(queue._session_ends) <= STALE_MAX + 4
    clock.advance(LOCK_S)
    assert ["kept"] == kept.lost, "what is held still ends in time"


def test_credit_given_later_brings_what_waits(queue: MessageQueue) -> None:
    fill(queue, ("a", b"1"), ("a", b"2"))
    holder = accept(queue, "a")
    assert [] == holder.got
    holder.credit = 1
    assert holder.session is not None
    queue.pump_session(holder.session)
    assert [b"1"] == bodies(holder)
