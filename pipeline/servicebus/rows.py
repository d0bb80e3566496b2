"""A peeked message as a row."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta
from typing import Any

from azure.servicebus import ServiceBusMessageState, ServiceBusReceivedMessage
from azure.servicebus.amqp import AmqpMessageBodyType
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from shared.domain.partitions import partition_of

_TEXT = StringType()
SCHEMA = StructType(
    [
        StructField("entity", _TEXT, nullable=False),
        StructField("sequence_number", LongType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("enqueued_at", TimestampType()),
        StructField("state", _TEXT, nullable=False),
        StructField("delivery_count", IntegerType()),
        StructField("message_id", _TEXT),
        StructField("session_id", _TEXT),
        StructField("partition_key", _TEXT),
        StructField("subject", _TEXT),
        StructField("content_type", _TEXT),
        StructField("correlation_id", _TEXT),
        StructField("reply_to", _TEXT),
        StructField("reply_to_session_id", _TEXT),
        StructField("to", _TEXT),
        StructField("time_to_live", DoubleType()),
        StructField("expires_at", TimestampType()),
        StructField("scheduled_enqueue_time", TimestampType()),
        StructField("enqueued_sequence_number", LongType()),
        StructField("dead_letter_reason", _TEXT),
        StructField("dead_letter_error_description", _TEXT),
        StructField("dead_letter_source", _TEXT),
        StructField("body_type", _TEXT),
        StructField("body", BinaryType()),
        StructField("application_properties", MapType(_TEXT, _TEXT)),
    ]
)


def is_scheduled(message: ServiceBusReceivedMessage) -> bool:
    return message.state == ServiceBusMessageState.SCHEDULED


def row_of(entity: str, message: ServiceBusReceivedMessage) -> tuple[Any, ...]:
    """In the order of SCHEMA."""
    number = message.sequence_number
    assert number is not None, "the service numbers every message"
    ttl = message.time_to_live
    body_type, body = _body(message)
    return (
        entity,
        number,
        partition_of(number),
        message.enqueued_time_utc,
        message.state.name.lower(),
        message.delivery_count,
        _text(message.message_id),
        _text(message.session_id),
        _text(message.partition_key),
        _text(message.subject),
        _text(message.content_type),
        _text(message.correlation_id),
        _text(message.reply_to),
        _text(message.reply_to_session_id),
        _text(message.to),
        None if ttl is None else ttl.total_seconds(),
        _expiry(message.enqueued_time_utc, ttl),
        message.scheduled_enqueue_time_utc,
        message.enqueued_sequence_number,
        _text(message.dead_letter_reason),
        _text(message.dead_letter_error_description),
        _text(message.dead_letter_source),
        body_type,
        body,
        {str(_text(name)): _text(value) for name, value in (message.application_properties or {}).items()},
    )


def _expiry(enqueued_at: datetime | None, time_to_live: timedelta | None) -> datetime | None:
    if enqueued_at is None or time_to_live is None:
        return None
    try:
        return enqueued_at + time_to_live
    except OverflowError:  # it lives for ever
        return None


def _body(message: ServiceBusReceivedMessage) -> tuple[str | None, bytes | None]:
    """Data as it is; a body of AMQP values as JSON; nothing for a message without a body."""
    raw = message.raw_amqp_message
    match raw.body_type:
        case AmqpMessageBodyType.DATA:
            return "data", b"".join(bytes(section) for section in raw.body)
        case AmqpMessageBodyType.SEQUENCE:
            return "sequence", json.dumps([list(part) for part in raw.body], default=_plain).encode()
        case _:
            return (
                (None, None) if raw.body is None else ("value", json.dumps(_named(raw.body), default=_plain).encode())
            )


def _text(value: object) -> str | None:
    """Text as it is, anything else as JSON. The SDK's decoder leaves text as bytes and cannot tell it from binary."""
    match value:
        case None | str():
            return value
        case bytes():
            plain = _plain(value)
            return plain if isinstance(plain, str) else json.dumps(plain)
        case list() | tuple() | dict() | bool() | int() | float():
            return json.dumps(_named(value), default=_plain)
        case _:
            return str(value)


def _named(value: Any) -> Any:
    """Names in maps as text: JSON has no other."""
    match value:
        case dict():
            return {str(_text(name)): _named(item) for name, item in value.items()}
        case list() | tuple():
            return [_named(item) for item in value]
        case _:
            return value


def _plain(value: Any) -> Any:
    """What JSON has no type for."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return str(value)
