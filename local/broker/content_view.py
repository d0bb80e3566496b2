"""A message as the filters and actions of rules see it."""

from __future__ import annotations

from .amqp.message import Properties, RawMessage
from .content import SYSTEM_FIELDS, Content, text_of


class ContentView:
    """A message as filters see it: system and user properties by name, decoded on first use."""

    __slots__ = ("_content", "_enqueued_at", "_properties", "_raw", "_sequence_number", "_user")

    def __init__(self, content: Content, *, enqueued_at: float = 0.0, sequence_number: int = 0) -> None:
        self._content = content
        self._enqueued_at = enqueued_at
        self._sequence_number = sequence_number
        self._raw: RawMessage | None = None
        self._properties: Properties | None = None
        self._user: dict[str, object] | None = None

    def system(self, name: str) -> object | None:
        content = self._content
        if name in SYSTEM_FIELDS:
            if self._properties is None:
                raw = self._sections()
                self._properties = raw.decode_properties() if raw.properties else Properties()
            return text_of(getattr(self._properties, SYSTEM_FIELDS[name]))
        if name == "sequencenumber":
            return self._sequence_number
        if name == "enqueuedtimeutc":
            return self._enqueued_at
        if name == "partitionkey":
            return content.partition_key
        if name == "timetolive":
            return content.time_to_live
        if name == "scheduledenqueuetimeutc":
            return content.scheduled_at
        if name in ("deliverycount", "enqueuedsequencenumber"):
            return 0
        return None

    def user(self, name: str) -> object | None:
        return self._user_properties().get(name.lower())

    def has_user(self, name: str) -> bool:
        return name.lower() in self._user_properties()

    def _sections(self) -> RawMessage:
        if self._raw is None:
            self._raw = self._content.sections()
        return self._raw

    def _user_properties(self) -> dict[str, object]:
        if self._user is None:
            raw = self._sections()
            decoded = raw.decode_application_properties() if raw.application_properties else {}
            self._user = {str(text_of(name)).lower(): value for name, value in decoded.items()}
        return self._user
