"""Sessions of one queue: which have messages, who holds which, and who waits for the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .clock import Timer
from .consumers import SessionHolder
from .store import Lane, Messages, StoredMessage


class Session:
    """One session: its waiting messages, its lock and its state."""

    __slots__ = ("holder", "id", "lane", "locked", "locked_until", "message_count", "state", "state_updated_at")

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.lane = Lane()
        self.holder: SessionHolder | None = None
        self.locked_until = 0.0
        #: Messages delivered under this session's lock and not settled yet.
        self.locked: dict[bytes, StoredMessage] = {}
        self.message_count = 0
        self.state: bytes | None = None
        self.state_updated_at = 0.0

    @property
    def is_idle(self) -> bool:
        return self.holder is None and self.message_count == 0 and self.state is None


@dataclass(eq=False)
class SessionWaiter:
    holder: SessionHolder
    timer: Timer


class SessionBook:
    """All sessions of a queue. A free session with a deliverable message is offered in the order it became so."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self._held: dict[SessionHolder, Session] = {}
        self._offered: dict[str, None] = {}
        self._waiters: dict[SessionHolder, SessionWaiter] = {}

    def get(self, session_id: str) -> Session:
        session = self.sessions.get(session_id)
        if session is None:
            session = self.sessions[session_id] = Session(session_id)
        return session

    def forget_if_idle(self, session: Session) -> None:
        if session.is_idle:
            self.sessions.pop(session.id, None)
            self._offered.pop(session.id, None)

    # -- holding

    def hold(self, session: Session, holder: SessionHolder) -> None:
        self._offered.pop(session.id, None)
        session.holder = holder
        self._held[holder] = session

    def release(self, session: Session) -> None:
        if session.holder is not None:
            del self._held[session.holder]
            session.holder = None

    @property
    def held_count(self) -> int:
        return len(self._held)

    def held(self) -> Iterable[Session]:
        return self._held.values()

    def held_by(self, holder: SessionHolder) -> Session | None:
        return self._held.get(holder)

    # -- offering

    def offer(self, session: Session) -> None:
        """A message of this session became deliverable, or its lock was given back."""
        if session.holder is None:
            self._offered[session.id] = None

    def take_offered(
        self, messages_of: Callable[[Session], Messages], is_up: Callable[[str], bool]
    ) -> Session | None:
        """The first that can be had; one whose partition is down stays on offer."""
        for session_id in list(self._offered):
            if not is_up(session_id):
                continue
            del self._offered[session_id]
            session = self.sessions.get(session_id)
            if session is None or session.holder is not None:
                continue
            if session.lane.head(messages_of(session)) is not None:
                return session
        return None

    # -- waiting

    def wait(self, waiter: SessionWaiter) -> None:
        self._waiters[waiter.holder] = waiter

    def stop_waiting(self, holder: SessionHolder) -> bool:
        waiter = self._waiters.pop(holder, None)
        if waiter is None:
            return False
        waiter.timer.cancel()
        return True

    def first_waiter(self) -> SessionWaiter | None:
        return next(iter(self._waiters.values()), None)

    def close(self) -> None:
        """Nobody holds or waits any more."""
        for waiter in self._waiters.values():
            waiter.timer.cancel()
        for table in (self._waiters, self._held, self._offered, self.sessions):
            table.clear()

    # -- listing

    def listing(self, updated_after: float | None) -> list[str]:
        """Ids in order: all with messages or state, or only those whose state changed after an instant."""
        sessions = self.sessions.values()
        if updated_after is None:
            return sorted(s.id for s in sessions if s.message_count or s.state is not None)
        return sorted(s.id for s in sessions if s.state is not None and s.state_updated_at > updated_after)
