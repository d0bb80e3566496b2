"""A message as a sender gave it: raw sections that are passed on bit for bit, and the few fields the broker acts on.

Immutable, so that a topic hands one `Content` to all its subscriptions. Only what the broker owns is rebuilt at
delivery: header.delivery-count, its own message annotations and the lock token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from .amqp.codec import DecodeError, decode, encode, skip
from .amqp.message import RawMessage, encode_properties, encode_section_map
from .amqp.types import UInt
from .errors import ARGUMENT_ERROR, ARGUMENT_OUT_OF_RANGE, DECODE_ERROR, BrokerError
from .filters import Changes

PING_CONTENT_TYPE = "application/vnd.ms-servicebus-ping"

#: Message-id, session id, partition key and reply-to session id may not be longer (Service Bus quotas).
KEY_LENGTH_MAX = 128
#: Header, annotations and properties of one message together (Service Bus quotas: SerializationException).
PROPERTY_BYTES_MAX = 64 * 1024
#: One application property (Service Bus quotas).
ONE_PROPERTY_BYTES_MAX = 32 * 1024

#: Annotations that only the broker may write; a received message that is sent again carries stale ones.
BROKER_ANNOTATIONS = frozenset(
    {
        "x-opt-sequence-number",
        "x-opt-enqueued-time",
        "x-opt-locked-until",
        "x-opt-message-state",
        "x-opt-enqueue-sequence-number",
        "x-opt-deadletter-source",
        "x-opt-lock-token",
    }
)
_PARTITION_KEY = "x-opt-partition-key"
_SCHEDULED_TIME = "x-opt-scheduled-enqueue-time"

_HEADER_FIELDS_KEPT = 4
_NO_HEADER_FIELDS = b"\x40" * _HEADER_FIELDS_KEPT
_APPLICATION_PROPERTIES = 0x74
#: The header's ttl is a uint of milliseconds: 49 days, then it saturates.
_TTL_MS_MAX = 0xFFFFFFFF


class Content:
    """What was sent. `bare` = properties, application properties, body and footer exactly as they came."""

    __slots__ = (
        "annotation_count",
        "annotations",
        "bare",
        "delivery_annotation_count",
        "delivery_annotations",
        "header_fields",
        "is_ping",
        "message_id",
        "partition_key",
        "scheduled_at",
        "session_id",
        "size",
        "time_to_live",
    )

    bare: bytes
    #: The first four header fields, encoded: durable, priority, ttl, first-acquirer.
    header_fields: bytes
    #: Encoded key-value pairs of the sender's own message annotations.
    annotations: bytes
    annotation_count: int
    delivery_annotations: bytes
    delivery_annotation_count: int
    message_id: str | None
    session_id: str | None
    partition_key: str | None
    #: Seconds; None = the entity's default.
    time_to_live: float | None
    #: Unix time; None = at once.
    scheduled_at: float | None
    size: int
    is_ping: bool

    @classmethod
    def parse(cls, payload: bytes) -> Content:
        """Read one encoded message; BrokerError when it is malformed or breaks a limit."""
        try:
            return cls._parse(payload)
        except DecodeError as error:
            raise BrokerError(DECODE_ERROR, f"The message cannot be decoded: {error}") from error

    @classmethod
    def _parse(cls, payload: bytes) -> Content:
        raw = RawMessage.parse(payload)
        self = cls.__new__(cls)
        self.bare = raw.properties + raw.application_properties + raw.body + raw.footer
        self.size = len(payload)
        self._read_header(raw)
        self._read_annotations(raw)
        self._read_properties(raw)
        property_bytes = self.size - len(raw.body)
        if property_bytes > PROPERTY_BYTES_MAX:
            raise BrokerError(
                ARGUMENT_OUT_OF_RANGE,
                f"The message's header and properties take {property_bytes} bytes; the limit is {PROPERTY_BYTES_MAX}.",
            )
        if raw.application_properties:
            _check_application_properties(raw)
        return self

    def _read_header(self, raw: RawMessage) -> None:
        self.header_fields = _NO_HEADER_FIELDS
        self.time_to_live = None
        if not raw.header:
            return
        ttl_ms = raw.decode_header().ttl
        self.header_fields = _first_fields(raw.header, _HEADER_FIELDS_KEPT)
        if ttl_ms is not None:
            self.time_to_live = ttl_ms / 1000.0

    def _read_annotations(self, raw: RawMessage) -> None:
        self.partition_key = None
        self.scheduled_at = None
        self.annotations, self.annotation_count = b"", 0
        self.delivery_annotations, self.delivery_annotation_count = b"", 0
        if raw.message_annotations:
            kept = []
            for key, value in _map_items(raw.message_annotations):
                name = text_of(decode(key)[0])
                if name in BROKER_ANNOTATIONS:
                    continue
                if name == _PARTITION_KEY:
                    self.partition_key = _key(decode(value)[0], "partition key")
                elif name == _SCHEDULED_TIME:
                    self.scheduled_at = _instant(decode(value)[0])
                kept.append(key + value)
            self.annotations, self.annotation_count = b"".join(kept), len(kept)
        if raw.delivery_annotations:
            items = _map_items(raw.delivery_annotations)
            pairs = [key + value for key, value in items if text_of(decode(key)[0]) not in BROKER_ANNOTATIONS]
            self.delivery_annotations, self.delivery_annotation_count = b"".join(pairs), len(pairs)

    def _read_properties(self, raw: RawMessage) -> None:
        self.message_id = self.session_id = None
        self.is_ping = False
        if not raw.properties:
            return
        properties = raw.decode_properties()
        self.message_id = _key(properties.message_id, "message id")
        self.session_id = _key(properties.group_id, "session id")
        _key(properties.reply_to_group_id, "reply-to session id")
        self.is_ping = text_of(properties.content_type) == PING_CONTENT_TYPE

    def sections(self) -> RawMessage:
        """The bare sections again, for the rare uses that look inside (filters, dead-lettering)."""
        return RawMessage.parse(self.bare)

    def with_application_properties(self, added: Mapping[str, object]) -> Content:
        raw = self.sections()
        return self._with_application(raw, {**raw.decode_application_properties(), **added})

    def _with_application(self, raw: RawMessage, values: dict[Any, Any]) -> Content:
        section = encode_section_map(_APPLICATION_PROPERTIES, values) if values else b""
        return self._copy(raw.properties + section + raw.body + raw.footer)

    def changed_by(self, changes: Changes) -> Content:
        """What a rule's action makes of this message."""
        content = self
        if changes.set_user or changes.removed_user:
            raw = self.sections()
            # Rules know no case: a property that is set anew takes the place of one that is written differently.
            gone = {name.lower() for name in (*changes.set_user, *changes.removed_user)}
            kept = {k: v for k, v in raw.decode_application_properties().items() if str(text_of(k)).lower() not in gone}
            content = self._with_application(raw, {**kept, **changes.set_user})
        if changes.set_system:
            content = content._with_system(dict(changes.set_system))
        return content

    def with_ttl_at_most(self, limit_s: float | None) -> Content:
        """The entity's default time to live is also the longest: a longer one is shortened to it."""
        if limit_s is None or (self.time_to_live is not None and self.time_to_live <= limit_s):
            return self
        return self._with_ttl(limit_s)

    def _with_ttl(self, time_to_live_s: float) -> Content:
        content = self._copy(self.bare)
        content.time_to_live = time_to_live_s
        start = skip(self.header_fields, skip(self.header_fields, 0))
        ttl_ms = encode(UInt(min(int(time_to_live_s * 1000), _TTL_MS_MAX)))
        content.header_fields = (
            self.header_fields[:start] + ttl_ms + self.header_fields[skip(self.header_fields, start) :]
        )
        return content

    def _with_system(self, values: dict[str, object]) -> Content:
        content = self
        ttl_s = values.pop("timetolive", None)
        if ttl_s is not None:
            content = content._with_ttl(float(str(ttl_s)))
        fields: dict[str, Any] = {SYSTEM_FIELDS[name]: text_of(value) for name, value in values.items()}
        if fields:
            raw = content.sections()
            properties = raw.decode_properties()._replace(**fields)
            content = content._copy(encode_properties(properties) + raw.application_properties + raw.body + raw.footer)
            content.message_id = _key(properties.message_id, "message id")
            content.session_id = _key(properties.group_id, "session id")
        return content

    def _copy(self, bare: bytes) -> Content:
        other = Content.__new__(Content)
        for slot in Content.__slots__:
            setattr(other, slot, getattr(self, slot))
        other.bare = bare
        other.size = self.size + len(bare) - len(self.bare)
        return other


#: System properties a rule's action may set, by the AMQP field that holds them.
SYSTEM_FIELDS = {
    "messageid": "message_id",
    "correlationid": "correlation_id",
    "to": "to",
    "replyto": "reply_to",
    "label": "subject",
    "subject": "subject",
    "sessionid": "group_id",
    "replytosessionid": "reply_to_group_id",
    "contenttype": "content_type",
}


def _check_application_properties(raw: RawMessage) -> None:
    """They are read again long after the sender has gone (rules, dead letters); what cannot be is refused now."""
    values = raw.decode_application_properties()
    if len(raw.application_properties) <= ONE_PROPERTY_BYTES_MAX:
        return
    for name, value in values.items():
        if len(encode(value)) > ONE_PROPERTY_BYTES_MAX:
            raise BrokerError(
                ARGUMENT_OUT_OF_RANGE,
                f"The application property '{name}' is longer than {ONE_PROPERTY_BYTES_MAX} bytes.",
            )


def _map_items(section: bytes) -> list[tuple[bytes, bytes]]:
    """Raw key and value slices of a map section (descriptor, then map8 or map32)."""
    start = skip(section, 1)
    code = section[start]
    if code == 0xC1:
        offset, count = start + 3, section[start + 2]
    elif code == 0xD1:
        offset, count = start + 9, int.from_bytes(section[start + 5 : start + 9], "big")
    elif code == 0x40:
        return []
    else:
        raise DecodeError("annotations must be a map")
    if count % 2:
        raise DecodeError("a map needs an even number of elements")
    items = []
    for _ in range(count // 2):
        middle = skip(section, offset)
        end = skip(section, middle)
        items.append((section[offset:middle], section[middle:end]))
        offset = end
    return items


def _first_fields(section: bytes, wanted: int) -> bytes:
    """The first fields of a list section, as they came; nulls for those that are missing."""
    code = section[3]
    if code == 0xC0:
        start, count = 6, section[5]
    elif code == 0xD0:
        start, count = 12, int.from_bytes(section[8:12], "big")
    else:
        start, count = len(section), 0
    end = start
    for _ in range(min(count, wanted)):
        end = skip(section, end)
    return section[start:end] + b"\x40" * max(wanted - count, 0)


def text_of(value: object) -> str | None:
    """Strings also arrive as binary (a received message sent again) or as uuid or number (message ids)."""
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(int(value)) if isinstance(value, int) else str(value)


def _key(value: object, what: str) -> str | None:
    if value is not None and not isinstance(value, (str, bytes, int, UUID)):
        raise BrokerError(ARGUMENT_ERROR, f"The {what} must be a string.")
    text = text_of(value)
    if text is not None and len(text) > KEY_LENGTH_MAX:
        raise BrokerError(ARGUMENT_OUT_OF_RANGE, f"The {what} is longer than {KEY_LENGTH_MAX} characters.")
    return text


def _instant(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, int):
        return value / 1000.0
    raise BrokerError(ARGUMENT_ERROR, "x-opt-scheduled-enqueue-time must be a timestamp.")
