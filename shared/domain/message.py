"""A message as AMQP 1.0 sees it, free of any SDK: sections as plain values, nothing left out, nothing interpreted.

Values in sections are Python's own (None, bool, int, float, str, bytes, datetime, timedelta, UUIDs, lists, dicts)
where those tell the AMQP type, and `Typed` or `Described` where they do not: a symbol, an unsigned number, a long that
would fit an int. Section 3.2 of the AMQP 1.0 messaging part names the sections.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

AmqpValue: TypeAlias = Any
"""Any AMQP value; what may be inside is checked where it is encoded."""

PARTITION_KEY = "x-opt-partition-key"
SCHEDULED_ENQUEUE_TIME = "x-opt-scheduled-enqueue-time"


@dataclass(frozen=True)
class Typed:
    """A value whose AMQP type Python's own types cannot tell; `kind` is the type's name in the specification."""

    kind: str
    value: AmqpValue


@dataclass(frozen=True)
class Described:
    """A described value: its descriptor (a symbol) and the value itself, as in `com.microsoft:timespan`."""

    descriptor: str
    value: AmqpValue


@dataclass(frozen=True, kw_only=True)
class Header:
    durable: bool | None = None
    priority: int | None = None
    time_to_live_ms: int | None = None
    first_acquirer: bool | None = None
    delivery_count: int | None = None


@dataclass(frozen=True, kw_only=True)
class Properties:
    message_id: AmqpValue = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: AmqpValue = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time_ms: int | None = None
    creation_time_ms: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


@dataclass(frozen=True)
class DataBody:
    sections: tuple[bytes, ...]


@dataclass(frozen=True)
class SequenceBody:
    sections: tuple[list[AmqpValue], ...]


@dataclass(frozen=True)
class ValueBody:
    value: AmqpValue


Body: TypeAlias = DataBody | SequenceBody | ValueBody | None


@dataclass(frozen=True, kw_only=True)
class Message:
    """Names in its maps are text in a message to be sent, and bytes in one as a receiver decoded it."""

    body: Body = None
    header: Header = Header()
    properties: Properties = Properties()
    application_properties: Mapping[Any, AmqpValue] = field(default_factory=dict)
    annotations: Mapping[Any, AmqpValue] = field(default_factory=dict)
    delivery_annotations: Mapping[Any, AmqpValue] = field(default_factory=dict)
    footer: Mapping[Any, AmqpValue] = field(default_factory=dict)

    def with_properties(self, **changes: AmqpValue) -> Message:
        return replace(self, properties=replace(self.properties, **changes))


class Outgoing(NamedTuple):
    """A message on its way: what deciding needs is read, the rest stays in the form it came in.

    `native` is the object that the SDK can send as it is; `read` gives the same message as sections, which is only
    asked for when the message has to be rewritten. A tuple, because one is made for every message sent.
    """

    message_id: str
    session_id: str | None
    partition_key: str | None
    body_bytes: int
    property_names: Collection[Any]
    read: Callable[[], Message]
    native: object | None = None

    @property
    def key(self) -> str | None:
        """What decides the partition, as far as the sender knows."""
        return self.session_id if self.session_id is not None else self.partition_key


def body_bytes(body: Body) -> int:
    """Bytes of a data body; structured bodies are measured only when they are encoded."""
    return sum(map(len, body.sections)) if isinstance(body, DataBody) else 0


def outgoing(message: Message) -> Outgoing:
    """The message as it is sent; it must have a message id by now."""
    if message.properties.message_id is None:
        raise ValueError("a message is sent only with a message id, which stays the same on every detour")
    return Outgoing(
        message_id=str(message.properties.message_id),
        session_id=message.properties.group_id,
        partition_key=message.annotations.get(PARTITION_KEY),
        body_bytes=body_bytes(message.body),
        property_names=message.application_properties,
        read=lambda: message,
    )
