"""What a Service Bus triggered function is given: the body and the metadata the real extension sends. Pure.

The extension leaves out dead-letter reason and description, enqueued sequence number, locked-until, scheduled
time, state and time to live; so those stay absent here too.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from local.host.converters import Datum

MAX_DATE = "9999-12-31T23:59:59.9999999"
#: Objects the extension offers to .NET code; in other languages they arrive as empty JSON.
_OBJECTS = ("MessageReceiver", "MessageActions", "ReceiveActions", "Client")
_SESSION_OBJECTS = ("MessageSession", "SessionActions")


class BodyNotText(ValueError):
    """The trigger wants text and the body is not UTF-8."""


@dataclass(frozen=True, kw_only=True)
class TriggerMessage:
    """A received message, as far as triggers see it. `delivery_count` counts this delivery too."""

    body: bytes
    message_id: str | None
    lock_token: str
    sequence_number: int
    delivery_count: int
    enqueued: datetime
    expires: datetime | None = None
    content_type: str | None = None
    correlation_id: str | None = None
    subject: str | None = None
    to: str | None = None
    reply_to: str | None = None
    reply_to_session_id: str | None = None
    session_id: str | None = None
    partition_key: str | None = None
    transaction_partition_key: str | None = None
    dead_letter_source: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)


def body_datum(message: TriggerMessage, *, binary: bool) -> Datum:
    """The trigger's value: bytes for a binary trigger, else text."""
    if binary:
        return Datum(message.body, "bytes")
    return Datum(_text(message.body), "string")


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise BodyNotText("the body is not UTF-8 text; use data_type=func.DataType.BINARY on the trigger") from None


def single_metadata(message: TriggerMessage, *, binary: bool) -> dict[str, Datum]:
    """Trigger metadata of one message; values that are null are not sent."""
    metadata = {name: Datum("{}", "json") for name in _OBJECTS}
    if message.session_id is not None:
        metadata.update({name: Datum("{}", "json") for name in _SESSION_OBJECTS})
    strings = _strings(message)
    metadata |= {name: Datum(value, "string") for name, value in strings.items() if value is not None}
    metadata |= {name: Datum(json.dumps(value), "json") for name, value in _values(message).items()}
    if not binary:
        _apply_body(_text(message.body), metadata, names=(*metadata, *strings))
    return metadata


def _apply_body(text: str, metadata: dict[str, Datum], names: Sequence[str]) -> None:
    """The real host writes top-level properties of a JSON text body over the metadata of the same name.

    Case does not matter, and neither does it matter whether the message had a value of its own.
    """
    if not text.lstrip().startswith("{"):
        return
    try:
        values = json.loads(text)
    except ValueError:
        return
    if not isinstance(values, dict):
        return
    known: dict[str, str] = {name.lower(): name for name in names}
    for name, value in values.items():
        if value is None or isinstance(value, list):
            continue
        # A scalar arrives as .NET's ToString() gives it, an object as JSON.
        datum = Datum(json.dumps(value), "json") if isinstance(value, dict) else Datum(_dotnet_text(value), "string")
        metadata[str(known.get(name.lower(), name))] = datum


def _dotnet_text(value: Any) -> str:
    if isinstance(value, bool):
        return "True" if value else "False"
    return str(value)


def many_body(messages: Sequence[TriggerMessage], *, binary: bool) -> Datum:
    """Bodies of a batch; empty ones are dropped, as the real host drops them."""
    if binary:
        return Datum(SimpleNamespace(bytes=[item.body for item in messages if item.body]), "collection_bytes")
    texts = [_text(item.body) for item in messages]
    return Datum(SimpleNamespace(string=[text for text in texts if text]), "collection_string")


def many_metadata(messages: Sequence[TriggerMessage]) -> dict[str, Datum]:
    """Trigger metadata of a batch: arrays per property.

    Null and empty texts are dropped from text arrays, so what follows them moves to the wrong message; and the
    transaction partition key array carries partition keys. Both are how the real host behaves.
    """
    metadata: dict[str, Datum] = {}
    for name in _strings(messages[0]):
        source = "PartitionKey" if name == "TransactionPartitionKey" else name
        texts = [_strings(message)[source] for message in messages]
        metadata[f"{name}Array"] = Datum(SimpleNamespace(string=[text for text in texts if text]), "collection_string")
    for name in _values(messages[0]):
        values = [_values(message)[name] for message in messages]
        if name == "SequenceNumber":
            metadata["SequenceNumberArray"] = Datum(SimpleNamespace(sint64=values), "collection_sint64")
        else:
            metadata[f"{name}Array"] = Datum(json.dumps(values), "json")
    return metadata


def _strings(message: TriggerMessage) -> dict[str, str | None]:
    return {
        "DeadLetterSource": message.dead_letter_source,
        "LockToken": message.lock_token,
        "MessageId": message.message_id,
        "ContentType": message.content_type,
        "ReplyTo": message.reply_to,
        "To": message.to,
        "Subject": message.subject,
        "Label": message.subject,
        "CorrelationId": message.correlation_id,
        "SessionId": message.session_id,
        "ReplyToSessionId": message.reply_to_session_id,
        "PartitionKey": message.partition_key,
        "TransactionPartitionKey": message.transaction_partition_key,
    }


def _values(message: TriggerMessage) -> dict[str, Any]:
    properties = {name: json_value(value) for name, value in message.properties.items()}
    expires = MAX_DATE if message.expires is None else _dotnet_time(message.expires)
    enqueued = _dotnet_time(message.enqueued)
    return {
        "DeliveryCount": message.delivery_count,
        "SequenceNumber": message.sequence_number,
        # The ...Utc forms lose their zone on the way, so that Python makes naive times of them.
        "ExpiresAtUtc": expires,
        "ExpiresAt": f"{expires}+00:00",
        "EnqueuedTimeUtc": enqueued,
        "EnqueuedTime": f"{enqueued}+00:00",
        "ApplicationProperties": properties,
        "UserProperties": properties,
    }


def _dotnet_time(moment: datetime) -> str:
    """ISO text without a zone, trailing zeros of the fraction trimmed."""
    moment = moment.astimezone(UTC)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{moment.microsecond:06d}".rstrip("0").rstrip(".") if moment.microsecond else text


def json_value(value: Any) -> Any:
    """An application property as JSON shows it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray() | memoryview():
            # AMQP symbols come as bytes from this library and are text to .NET.
            try:
                return bytes(value).decode("ascii")
            except UnicodeDecodeError:
                return base64.b64encode(bytes(value)).decode()
        case datetime():
            return f"{_dotnet_time(value if value.tzinfo else value.replace(tzinfo=UTC))}Z"
        case UUID():
            return str(value)
    return str(value)
