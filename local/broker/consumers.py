"""Receiver links as a queue sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .sessions import Session
    from .store import StoredMessage


class Consumer(Protocol):
    @property
    def credit(self) -> int:
        """How many more messages it takes now."""
        ...

    @property
    def deletes(self) -> bool:
        """Receive-and-delete."""
        ...

    def deliver(self, message: StoredMessage) -> None: ...


class SessionHolder(Consumer, Protocol):
    """A consumer that holds, or waits to hold, one session."""

    def session_accepted(self, session: Session) -> None: ...

    def session_timed_out(self) -> None:
        """No session came free within the wait."""
        ...

    def session_lost(self, session: Session) -> None:
        """The lock ran out; the session is free for others."""
        ...
