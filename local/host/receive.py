"""Reading the SDK's received messages into what triggers are given."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.amqp import AmqpMessageBodyType, AmqpMessageProperties

from local.host.messages import TriggerMessage, json_value

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Of a message whose sender left the section out, as plain AMQP clients may.
_NO_PROPERTIES = AmqpMessageProperties()


def read_message(message: ServiceBusReceivedMessage) -> TriggerMessage:
    """One message, from its AMQP form, since each property of the SDK's own form looks everything up again.

    .NET counts the running delivery and AMQP does not, so one is added.
    """
    raw = message.raw_amqp_message
    properties: Any = raw.properties or _NO_PROPERTIES
    annotations: Any = raw.annotations
    header: Any = raw.header
    enqueued = _EPOCH + timedelta(milliseconds=annotations[b"x-opt-enqueued-time"])
    lifetime_ms = None if header is None else header.time_to_live
    return TriggerMessage(
        body=_body(message),
        message_id=_text(properties.message_id),
        lock_token=str(message.lock_token),
        sequence_number=annotations[b"x-opt-sequence-number"],
        delivery_count=(0 if header is None else header.delivery_count or 0) + 1,
        enqueued=enqueued,
        expires=None if lifetime_ms is None else _after(enqueued, lifetime_ms),
        content_type=_text(properties.content_type),
        correlation_id=_text(properties.correlation_id),
        subject=_text(properties.subject),
        to=_text(properties.to),
        reply_to=_text(properties.reply_to),
        reply_to_session_id=_text(properties.reply_to_group_id),
        session_id=_text(properties.group_id),
        partition_key=_text(annotations.get(b"x-opt-partition-key")),
        transaction_partition_key=_text(annotations.get(b"x-opt-via-partition-key")),
        dead_letter_source=_text(annotations.get(b"x-opt-deadletter-source")),
        properties={str(_text(name)): value for name, value in (raw.application_properties or {}).items()},
    )


def _after(moment: datetime, milliseconds: int) -> datetime | None:
    """A lifetime beyond what a date can hold is no expiry."""
    try:
        return moment + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _body(message: ServiceBusReceivedMessage) -> bytes:
    """The body as bytes. A body that is no data section has no bytes of its own: text as UTF-8, the rest as JSON."""
    if message.body_type == AmqpMessageBodyType.DATA:
        parts = list(message.body)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    if message.body_type == AmqpMessageBodyType.VALUE:
        value = message.body
        if isinstance(value, (bytes, bytearray)):
            return bytes(value)
        return value.encode() if isinstance(value, str) else json.dumps(value, default=json_value).encode()
    return json.dumps(list(message.body), default=json_value).encode()
