"""Sessions over a queue: one consumer holds a session at a time and gets all its messages in order."""

from __future__ import annotations

from .consumers import SessionHolder
from .errors import NOT_ALLOWED, SESSION_CANNOT_BE_LOCKED, SESSION_LOCK_LOST, BrokerError
from .queue_delivery import LOCKS_MAX, QueueDelivery
from .sessions import Session, SessionWaiter
from .store import StoredMessage


class QueueSessions(QueueDelivery):
    # -- taking and giving back

    def accept_session(self, holder: SessionHolder, session_id: str | None, wait_s: float) -> None:
        """Lock a session by name, or the next free one with messages, waiting for it up to `wait_s`."""
        if not self.policy.requires_session:
            raise BrokerError(NOT_ALLOWED, f"'{self.key}' does not use sessions.")
        if session_id is not None:
            self._check_up(self._partition_of(session_id))
            session = self.book.get(session_id)
            if session.holder is not None:
                raise BrokerError(
                    SESSION_CANNOT_BE_LOCKED,
                    f"The requested session '{session_id}' cannot be accepted. It may be locked by another receiver.",
                )
            self._hold(session, holder)
            return
        timer = self._clock.call_at(self._clock.now() + wait_s, lambda: self._give_up(holder))
        self.book.wait(SessionWaiter(holder, timer))
        self._serve_waiters()

    def release_session(self, holder: SessionHolder) -> None:
        """The link is gone: its session is free at once and its messages return uncounted."""
        if self.book.stop_waiting(holder):
            return
        session = self.book.held_by(holder)
        if session is not None:
            self._free(session, failed=False)

    def renew_session(self, session_id: str) -> float:
        session = self.held_session(session_id)
        session.locked_until = self._clock.now() + self.policy.lock_duration_s
        for message in session.locked.values():
            message.locked_until = session.locked_until
        return session.locked_until

    def held_session(self, session_id: str) -> Session:
        self._check_up(self._partition_of(session_id))
        session = self.book.sessions.get(session_id)
        if session is None or session.holder is None or session.locked_until <= self._clock.now():
            raise BrokerError(SESSION_LOCK_LOST, f"The lock on session '{session_id}' is not held. Accept it again.")
        return session

    # -- state

    def session_state(self, session_id: str) -> bytes | None:
        return self.held_session(session_id).state

    def set_session_state(self, session_id: str, state: bytes | None) -> None:
        session = self.held_session(session_id)
        session.state = state
        session.state_updated_at = self._clock.now()
        self.journal.set_session_state(self.key, session_id, state, session.state_updated_at)

    # -- delivering

    def pump_session(self, session: Session) -> None:
        consumer = session.holder
        if consumer is None or not self.policy.can_receive or not self._is_up(session.id):
            return
        now = self._clock.now()
        while session.holder is consumer and consumer.credit > 0 and len(self._locks) < LOCKS_MAX:
            message = session.lane.take(self._messages_of(session))
            if message is None:
                return
            if message.has_expired(now):
                self._expire(message)
            else:
                self._hand_over(consumer, message, session)

    def _make_ready(self, message: StoredMessage) -> None:
        if self.forward is not None or not self.policy.requires_session:
            super()._make_ready(message)
            return
        session = self.book.get(message.content.session_id or "")
        session.lane.push(message.sequence_number, self._messages_of(session))
        if session.holder is not None:
            self.pump_session(session)
        else:
            self.book.offer(session)
            self._serve_waiters()

    def _is_up(self, session_id: str) -> bool:
        return self.health is None or self.health[self._partition_of(session_id)].down is None

    def health_changed(self) -> None:
        """A partition may be back: hand out what waited in it."""
        self.pump()
        for session in list(self.book.held()):
            self.pump_session(session)
        self._serve_waiters()

    # -- holding

    def _hold(self, session: Session, holder: SessionHolder) -> None:
        session.locked_until = self._clock.now() + self.policy.lock_duration_s
        if self._session_ends.is_crowded(self.book.held_count):
            self._session_ends.rebuild((held.locked_until, held.id) for held in self.book.held())
        self.book.hold(session, holder)
        self._session_ends.add(session.locked_until, session.id)
        self._arm(session.locked_until)
        holder.session_accepted(session)

    def _give_up(self, holder: SessionHolder) -> None:
        if self.book.stop_waiting(holder):
            holder.session_timed_out()

    def _serve_waiters(self) -> None:
        while (waiter := self.book.first_waiter()) is not None:
            session = self.book.take_offered(self._messages_of, self._is_up)
            if session is None:
                return
            self.book.stop_waiting(waiter.holder)
            self._hold(session, waiter.holder)

    def _free(self, session: Session, *, failed: bool) -> None:
        """End a hold. The session is offered again only once all its messages are back in their places."""
        unlocked = list(session.locked.values())
        for message in unlocked:
            self._unlock(message)
        returned = [message for message in unlocked if self._survives(message, failed=failed)]
        self.book.release(session)
        for message in returned:
            if self.forward is not None:
                self._make_ready(message)
            else:
                session.lane.push(message.sequence_number, self._messages_of(session))
        if session.lane.head(self._messages_of(session)) is not None:
            self.book.offer(session)
        self.book.forget_if_idle(session)
        self._serve_waiters()

    def _end_sessions(self, now: float) -> None:
        for session_id in self._session_ends.due(now):
            session = self.book.sessions.get(session_id)
            if session is None or session.holder is None:
                continue
            if session.locked_until > now:
                self._session_ends.add(session.locked_until, session_id)
                continue
            holder = session.holder
            self._free(session, failed=True)
            holder.session_lost(session)
