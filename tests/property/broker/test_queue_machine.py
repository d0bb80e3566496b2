"""A queue against a model in plain Python: nothing accepted is lost or delivered twice without a counted failure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from local.broker.clock import ManualClock
from local.broker.descriptions import QueueDescription
from local.broker.errors import BrokerError
from local.broker.store import MessageState
from tests.support.broker import body_of, message, namespace, receive
from tests.support.broker_models import RecordingJournal

LOCK_S, MAX_DELIVERIES = 30.0, 3
STATES = {
    "waiting": MessageState.ACTIVE,
    "locked": MessageState.ACTIVE,
    "scheduled": MessageState.SCHEDULED,
    "deferred": MessageState.DEFERRED,
    "deferred and locked": MessageState.DEFERRED,
}


@dataclass
class Known:
    """What the model knows of one message."""

    number: int
    state: str
    ttl_s: float | None
    expires_at: float = float("inf")
    failures: int = 0
    #: When its lock ends, or its schedule is due.
    until: float = float("inf")


class QueueMachine(RuleBasedStateMachine):
    locks = Bundle("locks")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.journal = RecordingJournal()
        description = QueueDescription(
            lock_duration=timedelta(seconds=LOCK_S),
            max_delivery_count=MAX_DELIVERIES,
            dead_lettering_on_message_expiration=True,
        )
        self.entity = namespace(self.clock, self.journal).create_queue("orders", description)
        self.queue = self.entity.main
        self.known: dict[bytes, Known] = {}
        self.dead: set[bytes] = set()
        self.done: set[bytes] = set()
        self.sent = 0
        self.last_number = 0

    # -- what clients do

    @rule(
        ttl_s=st.one_of(st.none(), st.sampled_from([5.0, 20.0, 45.0, 90.0])),
        delay_s=st.one_of(st.none(), st.sampled_from([1.0, 15.0, 40.0])),
    )
    def send(self, ttl_s: float | None, delay_s: float | None) -> None:
        body = f"message {self.sent}".encode()
        self.sent += 1
        self.last_number += 1
        due = None if delay_s is None else self.clock.now() + delay_s
        assert self.last_number == self.queue.put(message(body, ttl_s=ttl_s, scheduled_at=due))
        if due is None:
            self.known[body] = Known(self.last_number, "waiting", ttl_s, self._end(ttl_s, self.clock.now()))
        else:
            self.known[body] = Known(self.last_number, "scheduled", ttl_s, until=due)

    @rule(target=locks, count=st.integers(1, 4))
    def receive(self, count: int) -> object:
        got = receive(self.queue, count)
        assert self._next(count) == [body_of(m) for m in got]
        for m in got:
            mine = self.known[body_of(m)]
            assert (mine.number, mine.failures) == (m.sequence_number, m.delivery_count)
            mine.state, mine.until = "locked", self.clock.now() + LOCK_S
        return multiple(*[(body_of(m), m.lock_token) for m in got])

    @rule(count=st.integers(1, 3))
    def receive_and_delete(self, count: int) -> None:
        expected = self._next(count)
        assert expected == [body_of(m) for m in receive(self.queue, count, deletes=True)]
        for body in expected:
            self._forget(body, self.done)

    @rule(lock=consumes(locks), how=st.sampled_from(["complete", "abandon", "release", "defer", "dead_letter"]))
    def settle(self, lock: tuple[bytes, bytes], how: str) -> None:
        body, token = lock
        mine = self._holds(lock)
        arguments = ("Reason", None) if how == "dead_letter" else ()
        if mine is None:
            with pytest.raises(BrokerError, match="message-lock-lost"):
                getattr(self.queue, how)(token, *arguments)
            return
        getattr(self.queue, how)(token, *arguments)
        if how == "complete":
            self._forget(body, self.done)
        elif how == "dead_letter":
            self._forget(body, self.dead)
        elif how == "defer":
            mine.failures, mine.state = mine.failures + 1, "deferred"
        else:
            self._unlock(body, mine, failed=how == "abandon")

    @rule(lock=locks)
    def renew(self, lock: tuple[bytes, bytes]) -> None:
        mine = self._holds(lock)
        if mine is None:
            with pytest.raises(BrokerError, match="message-lock-lost"):
                self.queue.renew(lock[1])
        else:
            mine.until = self.queue.renew(lock[1])
            assert self.clock.now() + LOCK_S == mine.until

    @rule(target=locks, data=st.data())
    def receive_deferred(self, data: st.DataObject) -> object:
        deferred = {body: k for body, k in self.known.items() if k.state == "deferred"}
        if not deferred:
            return multiple()
        body = data.draw(st.sampled_from(sorted(deferred)))
        (got,) = self.queue.receive_deferred([deferred[body].number], deletes=False)
        deferred[body].state, deferred[body].until = "deferred and locked", self.clock.now() + LOCK_S
        return multiple((body, got.lock_token))

    @rule(number=st.integers(0, 60))
    def cancel(self, number: int) -> None:
        found = [body for body, k in self.known.items() if k.number == number and k.state == "scheduled"]
        if found:
            self.queue.cancel_scheduled([number])
            self._forget(found[0], self.done)
        else:
            with pytest.raises(BrokerError, match="message-not-found"):
                self.queue.cancel_scheduled([number])

    # -- what time does

    @rule(seconds=st.sampled_from([0.5, 5.0, 29.0, 31.0, 100.0]))
    def wait(self, seconds: float) -> None:
        end = self.clock.now() + seconds
        while (event := self._first_event(end)) is not None:
            _, _, _, body = event
            mine = self.known[body]
            if mine.state == "scheduled":
                self.last_number += 1
                mine.number, mine.state, mine.expires_at = self.last_number, "waiting", self._end(mine.ttl_s, event[0])
            elif mine.state == "waiting":
                self._forget(body, self.dead)
            else:
                self._unlock(body, mine, failed=True, now=event[0])
        self.clock.advance(seconds)

    def _first_event(self, end: float) -> tuple[float, int, int, bytes] | None:
        """Schedules before locks before lives, where they end at the same instant."""
        events = []
        for body, mine in self.known.items():
            if mine.state == "scheduled":
                events.append((mine.until, 0, mine.number, body))
            elif "locked" in mine.state:
                events.append((mine.until, 1, mine.number, body))
            elif mine.state == "waiting":
                events.append((mine.expires_at, 2, mine.number, body))
        return min((event for event in events if event[0] <= end), default=None)

    # -- the model

    @staticmethod
    def _end(ttl_s: float | None, now: float) -> float:
        return float("inf") if ttl_s is None else now + ttl_s

    def _next(self, count: int) -> list[bytes]:
        waiting = sorted((k.number, body) for body, k in self.known.items() if k.state == "waiting")
        return [body for _, body in waiting[:count]]

    def _holds(self, lock: tuple[bytes, bytes]) -> Known | None:
        """The message of a lock that is still good."""
        mine = self.known.get(lock[0])
        held = next((m for m in self.queue.messages() if m.lock_token == lock[1]), None)
        return mine if mine is not None and held is not None and "locked" in mine.state else None

    def _unlock(self, body: bytes, mine: Known, *, failed: bool, now: float | None = None) -> None:
        mine.failures += failed
        if mine.state == "deferred and locked":
            mine.state = "deferred"
        elif (failed and mine.failures >= MAX_DELIVERIES) or mine.expires_at <= (now or self.clock.now()):
            self._forget(body, self.dead)
        else:
            mine.state = "waiting"

    def _forget(self, body: bytes, where: set[bytes]) -> None:
        del self.known[body]
        where.add(body)

    # -- always

    @invariant()
    def the_queue_holds_what_the_model_knows(self) -> None:
        held = {body_of(m): (m.sequence_number, m.state, m.delivery_count) for m in self.queue.messages()}
        assert {body: (k.number, STATES[k.state], k.failures) for body, k in self.known.items()} == held
        states = [k.state for k in self.known.values()]
        assert states.count("scheduled") == self.queue.scheduled_count
        assert states.count("locked") + states.count("deferred and locked") == self.queue.lock_count

    @invariant()
    def every_message_is_in_one_place(self) -> None:
        assert self.dead == {body_of(m) for m in self.entity.dead_letters.messages()}
        assert self.sent == len(self.known) + len(self.dead) + len(self.done)
        assert sum(m.content.size for m in self.queue.messages()) == self.queue.size_bytes

    @invariant()
    def the_journal_holds_what_the_queues_hold(self) -> None:
        queues = (self.queue, self.entity.dead_letters)
        assert self.journal.messages == {(q.key, m.sequence_number): m for q in queues for m in q.messages()}


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=80, stateful_step_count=40)
