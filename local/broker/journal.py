"""What the broker must not forget, as a port: every change is told here before its acknowledgement leaves.

Changes told in one turn of the event loop belong together: all of them survive, or none. `MemoryJournal` forgets at
once, by design. `sqlite_journal.py` keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .store import StoredMessage


class Journal(Protocol):
    def check(self) -> None:
        """BrokerError while nothing can be written: then nothing is accepted either."""
        ...

    def put(self, queue: str, message: StoredMessage) -> None:
        """The message is in this queue now, in this state (also for a change of state)."""
        ...

    def remove(self, queue: str, sequence_number: int) -> None: ...

    def set_session_state(self, queue: str, session_id: str, state: bytes | None, updated_at: float) -> None: ...

    def remember_id(self, queue: str, partition: int, message_id: str, at: float) -> None:
        """An entry of the duplicate detection history."""
        ...

    def forget_ids(self, queue: str, before: float) -> None:
        """What the duplicate detection history had until then is out of its window."""
        ...

    def set_entity(self, path: str, kind: str, description: str) -> None:
        """An entity was created or changed; `description` is its serialised form."""
        ...

    def remove_entity(self, path: str, queues: tuple[str, ...]) -> None:
        """An entity and everything in its queues is gone."""
        ...

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Run the callback once all that was told before is safe."""
        ...


class MemoryJournal:
    """Nothing outlives the process, so everything is as safe as it will ever be."""

    def check(self) -> None:
        pass

    def put(self, queue: str, message: StoredMessage) -> None:
        pass

    def remove(self, queue: str, sequence_number: int) -> None:
        pass

    def set_session_state(self, queue: str, session_id: str, state: bytes | None, updated_at: float) -> None:
        pass

    def remember_id(self, queue: str, partition: int, message_id: str, at: float) -> None:
        pass

    def forget_ids(self, queue: str, before: float) -> None:
        pass

    def set_entity(self, path: str, kind: str, description: str) -> None:
        pass

    def remove_entity(self, path: str, queues: tuple[str, ...]) -> None:
        pass

    def when_durable(self, callback: Callable[[], None]) -> None:
        callback()
