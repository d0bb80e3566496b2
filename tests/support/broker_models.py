"""A journal that keeps, in plain dictionaries, what it was told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from local.broker.errors import INTERNAL_ERROR, BrokerError
from local.broker.store import StoredMessage


class RecordingJournal:
    """Durable when told so; until then acknowledgements wait. Can be made to fail."""

    def __init__(self, *, is_instant: bool = True) -> None:
        self.messages: dict[tuple[str, int], StoredMessage] = {}
        self.ids: dict[str, dict[str, float]] = defaultdict(dict)
        self.states: dict[tuple[str, str], bytes] = {}
        self.entities: dict[str, str] = {}
        self.is_broken = False
        self._is_instant = is_instant
        self._waiting: list[Callable[[], None]] = []

    def make_durable(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def check(self) -> None:
        if self.is_broken:
            raise BrokerError(INTERNAL_ERROR, "The disk is full.")

    def put(self, queue: str, message: StoredMessage) -> None:
        self.messages[queue, message.sequence_number] = message

    def remove(self, queue: str, sequence_number: int) -> None:
        del self.messages[queue, sequence_number]

    def set_session_state(self, queue: str, session_id: str, state: bytes | None, updated_at: float) -> None:
        if state is None:
            self.states.pop((queue, session_id), None)
        else:
            self.states[queue, session_id] = state

    def remember_id(self, queue: str, partition: int, message_id: str, at: float) -> None:
        self.ids[queue][message_id] = at

    def forget_ids(self, queue: str, before: float) -> None:
        self.ids[queue] = {message_id: at for message_id, at in self.ids[queue].items() if at > before}

    def set_entity(self, path: str, kind: str, description: str) -> None:
        self.entities[path] = kind

    def remove_entity(self, path: str, queues: tuple[str, ...]) -> None:
        del self.entities[path]
        self.messages = {key: message for key, message in self.messages.items() if key[0] not in queues}

    def when_durable(self, callback: Callable[[], None]) -> None:
        if self._is_instant:
            callback()
        else:
            self._waiting.append(callback)
