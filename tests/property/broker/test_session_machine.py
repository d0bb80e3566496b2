"""Sessions against a model in plain Python: one holder each, order within, nothing lost when holders come and go."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from local.broker.clock import ManualClock
from local.broker.descriptions import QueueDescription
from local.broker.errors import BrokerError
from tests.support.broker import Receiver, accept, body_of, message, namespace
from tests.support.broker_models import RecordingJournal

LOCK_S, WAIT_S, MAX_DELIVERIES = 30.0, 20.0, 3
SESSIONS = st.sampled_from(["a", "b", "c"])


class SessionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.journal = RecordingJournal()
        description = QueueDescription(
            requires_session=True, lock_duration=timedelta(seconds=LOCK_S), max_delivery_count=MAX_DELIVERIES
        )
        self.entity = namespace(self.clock, self.journal).create_queue("orders", description)
        self.queue = self.entity.main
        self.waiting: dict[str, list[bytes]] = {"a": [], "b": [], "c": []}
        self.failures: dict[bytes, int] = {}
        self.holders: list[Receiver] = []
        self.states: dict[str, bytes | None] = {}
        self.sent = self.completed = self.dead = 0

    @rule(session_id=SESSIONS)
    def send(self, session_id: str) -> None:
        body = f"{session_id} {self.sent}".encode()
        self.sent += 1
        self.waiting[session_id].append(body)
        self.failures[body] = 0
        self.queue.put(message(body, session_id=session_id))

    @rule(session_id=st.one_of(st.none(), SESSIONS))
    def accept(self, session_id: str | None) -> None:
        held = {holder.session.id for holder in self.holders if holder.session is not None}
        if session_id in held:
            with pytest.raises(BrokerError, match="session-cannot-be-locked"):
                accept(self.queue, session_id)
            return
        is_free = session_id is not None or any(self.waiting[name] for name in self.waiting if name not in held)
        holder = accept(self.queue, session_id, wait_s=WAIT_S)
        assert is_free == (holder.session is not None)
        self.holders.append(holder)

    def _holding(self) -> list[Receiver]:
        return [holder for holder in self.holders if holder.session is not None]

    @precondition(lambda self: self._holding())
    @rule(data=st.data(), count=st.integers(1, 3))
    def take(self, data: st.DataObject, count: int) -> None:
        holder = data.draw(st.sampled_from(self._holding()))
        assert holder.session is not None
        before = len(holder.got)
        in_hand = [body_of(m) for m in holder.got]
        expected = [body for body in self.waiting[holder.session.id] if body not in in_hand][:count]
        holder.credit = count
        self.queue.pump_session(holder.session)
        holder.credit = 0
        assert expected == [body_of(m) for m in holder.got[before:]]
        assert [self.failures[body] for body in expected] == [m.delivery_count for m in holder.got[before:]]

    @precondition(lambda self: any(holder.got for holder in self._holding()))
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from([holder for holder in self._holding() if holder.got]))
        done = holder.got.pop(data.draw(st.integers(0, len(holder.got) - 1)))
        assert holder.session is not None
        assert done.lock_token is not None
        self.queue.complete(done.lock_token)
        self.waiting[holder.session.id].remove(body_of(done))
        self.completed += 1

    @precondition(lambda self: self._holding())
    @rule(data=st.data(), state=st.one_of(st.none(), st.binary(max_size=5)))
    def set_state(self, data: st.DataObject, state: bytes | None) -> None:
        holder = data.draw(st.sampled_from(self._holding()))
        assert holder.session is not None
        assert self.states.get(holder.session.id) == self.queue.session_state(holder.session.id)
        self.queue.set_session_state(holder.session.id, state)
        self.states[holder.session.id] = state

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(self.holders))
        self.holders.remove(holder)
        self.queue.release_session(holder)

    @rule(seconds=st.sampled_from([5.0, 25.0, LOCK_S]))
    def wait(self, seconds: float) -> None:
        """Every holder's session is renewed but for the last step, so that all locks end at the same time or none."""
        for holder in self._holding():
            assert holder.session is not None
            self.queue.renew_session(holder.session.id)
        losing = {holder.session.id: holder for holder in self._holding() if holder.session is not None}
        self.clock.advance(seconds)
        if seconds < LOCK_S:
            assert all(holder.session is not None for holder in losing.values())
        else:
            self._count_failures(losing)
        self.holders = [h for h in self.holders if not (h.timed_out or h.lost)]

    def _count_failures(self, losing: dict[str, Receiver]) -> None:
        for session_id, holder in losing.items():
            assert [session_id] == holder.lost
            for m in holder.got:
                body = m.content.sections().body[8:]
                self.failures[body] += 1
                if self.failures[body] == MAX_DELIVERIES:
                    self.waiting[session_id].remove(body)
                    self.dead += 1

    @invariant()
    def nothing_is_lost(self) -> None:
        held: dict[str, list[bytes]] = {"a": [], "b": [], "c": []}
        for m in self.queue.messages():
            held[m.content.session_id or ""].append(body_of(m))
        assert self.waiting == held
        assert self.dead == self.entity.dead_letters.message_count
        assert self.sent == self.completed + self.dead + self.queue.message_count

    @invariant()
    def one_holder_each_and_nobody_waits_beside_a_free_session(self) -> None:
        held = [holder.session.id for holder in self.holders if holder.session is not None]
        assert len(held) == len(set(held))
        if any(holder.session is None for holder in self.holders):
            assert [] == [name for name, bodies in self.waiting.items() if bodies and name not in held]

    @invariant()
    def the_books_agree(self) -> None:
        kept = sorted(name for name in self.waiting if self.waiting[name] or self.states.get(name) is not None)
        assert kept == self.queue.book.listing(None)
        assert {("orders", k): v for k, v in self.states.items() if v is not None} == self.journal.states


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(max_examples=80, stateful_step_count=40)
