"""Builders for tests of sending: messages with something of everything in them, and what a receiver makes of them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.domain.message import (
    Body,
    Described,
    Header,
    Message,
    Properties,
    SequenceBody,
    Typed,
    ValueBody,
)

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)

TYPED_VALUES: dict[str, Any] = {
    "int": 7,
    "negative": -2_000_000_000,
    "long": Typed("long", 2**40),
    "small long": Typed("long", 5),
    "float": 2.5,
    "single": Typed("float", 0.5),
    "true": True,
    "false": False,
    "bytes": b"\xff\x00\xfe",
    "text-like bytes": b"text",
    "when": NOON,
    "uuid": uuid.UUID("0683ec86-1b0a-40b0-aa12-6ce5bbed3f1d"),
    "span": timedelta(hours=1, microseconds=3),
    "text": "żółć 漢字 🚀",
    "empty": "",
    "symbol": Typed("symbol", "sym"),
    "byte": Typed("ubyte", 255),
    "null": None,
}


def full_message(body: Body) -> Message:
    """A message with a value in every place that survives a detour."""
    return Message(
        body=body,
        header=Header(durable=True, priority=7, time_to_live_ms=3_600_000),
        properties=Properties(
            message_id="m-1",
            user_id=b"me",
            to="to",
            subject="subject",
            reply_to="reply",
            correlation_id="c-1",
            content_type="text/plain",
            content_encoding="utf-8",
            group_id="session",
            group_sequence=3,
            reply_to_group_id="reply-session",
        ),
        application_properties=dict(TYPED_VALUES),
        annotations={
            "x-opt-partition-key": "session",
            "x-opt-scheduled-enqueue-time": Typed("timestamp", 1_800_000_000_000),
            "x-opt-mine": Typed("symbol", "kept"),
        },
        delivery_annotations={"x-opt-delivery": 12},
        footer={"x-opt-footer": b"\x00"},
    )


def as_received(message: Message) -> Message:
    """The message as the SDK's receiver decodes it: types lost, and the service's annotations added."""
    return replace(
        message,
        header=replace(message.header, delivery_count=0),
        properties=_decoded_properties(message.properties),
        application_properties=_decoded_section(message.application_properties),
        annotations={
            **_decoded_section(message.annotations),
            b"x-opt-sequence-number": 1,
            b"x-opt-enqueued-time": 1_800_000_000_000,
            b"x-opt-locked-until": 1_800_000_060_000,
        },
        delivery_annotations={**_decoded_section(message.delivery_annotations), b"x-opt-lock-token": uuid.uuid4()},
        footer=_decoded_section(message.footer),
        body=_decoded_body(message.body),
    )


def _decoded_properties(properties: Properties) -> Properties:
    ids = {name: decoded(getattr(properties, name)) for name in ("message_id", "correlation_id")}
    return replace(properties, **ids)


def _decoded_section(section: Mapping[str, Any]) -> dict[Any, Any]:
    return {name.encode(): decoded(value) for name, value in section.items()}


def _decoded_body(body: Body) -> Body:
    match body:
        case ValueBody(value=value):
            return ValueBody(decoded(value))
        case SequenceBody(sections=sections):
            return SequenceBody(tuple(decoded(section) for section in sections))
        case _:
            return body


def decoded(value: Any) -> Any:
    """What the SDK's decoder leaves of a value."""
    match value:
        case str():
            return value.encode()
        case datetime():
            return round(value.timestamp() * 1000)
        case timedelta():
            return value // timedelta(microseconds=1) * 10
        case Described(value=inner):
            return decoded(inner)
        case Typed(kind="symbol", value=inner):
            return inner.encode()
        case Typed(kind="array", value=inner):
            return [decoded(item) for item in inner]
        case Typed(value=inner):
            return decoded(inner)
        case list() | tuple():
            return [decoded(item) for item in value]
        case dict():
            return {decoded(key): decoded(item) for key, item in value.items()}
        case _:
            return value


def canonical(value: Any) -> Any:
    """Two spellings of the same AMQP value made equal: a datetime and its timestamp, a time span and its ticks."""
    match value:
        case datetime():
            return Typed("timestamp", round(value.timestamp() * 1000))
        case timedelta():
            return Described("com.microsoft:timespan", Typed("long", value // timedelta(microseconds=1) * 10))
        case int() if not isinstance(value, bool) and not -(2**31) <= value < 2**31:
            return Typed("long", value)
        case Typed(kind="array", value=inner):
            return Typed("array", canonical(inner))
        case Described(descriptor=descriptor, value=inner):
            return Described(descriptor, canonical(inner))
        case list() | tuple():
            return [canonical(item) for item in value]
        case dict():
            return {canonical(key): canonical(item) for key, item in value.items()}
        case _:
            return value


def canonical_message(message: Message) -> Message:
    body = message.body
    if isinstance(body, ValueBody):
        body = ValueBody(canonical(body.value))
    elif isinstance(body, SequenceBody):
        body = SequenceBody(tuple(canonical(section) for section in body.sections))
    return replace(
        message,
        body=body,
        application_properties=canonical(dict(message.application_properties)),
        annotations=canonical(dict(message.annotations)),
        delivery_annotations=canonical(dict(message.delivery_annotations)),
        footer=canonical(dict(message.footer)),
    )
