"""Messages as the REST API of Service Bus takes them: a body with headers, or a JSON batch.

The rules are those of https://learn.microsoft.com/rest/api/servicebus/message-headers-and-properties. Broker properties
are JSON in one header, or a member of each item of a batch; unknown ones are ignored. User properties are headers of
their own: text in double quotes, numbers and booleans bare. In a batch they are JSON values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.domain.envelope import TRANSFER_PROPERTIES, TTL_FOREVER_MS
from shared.domain.keys import check_keys
from shared.domain.message import PARTITION_KEY, SCHEDULED_ENQUEUE_TIME, DataBody, Header, Message, Properties
from shared.errors import Rejected

BATCH_CONTENT_TYPE = "application/vnd.microsoft.servicebus.json"
#: The largest request the service takes over HTTP, in any tier.
REQUEST_BYTES_MAX = 1_048_576
BATCH_ITEMS_MAX = 10_000
#: Service Bus quotas: 32 KB for a property, 64 KB for all of them.
PROPERTY_BYTES_MAX = 32_768
PROPERTIES_BYTES_MAX = 65_536

_RFC_1123 = "%a, %d %b %Y %H:%M:%S GMT"
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_VIA_PARTITION_KEY = "x-opt-via-partition-key"
_TEXT_PROPERTIES = {
    "CorrelationId": "correlation_id",
    "Label": "subject",
    "Subject": "subject",
    "ReplyTo": "reply_to",
    "ReplyToSessionId": "reply_to_group_id",
    "SessionId": "group_id",
    "To": "to",
    "ContentType": "content_type",
}
# Headers that belong to HTTP, to the Functions host or to proxies on the way, and are nobody's user properties.
# fmt: off
_NOT_PROPERTIES = frozenset({
    "accept", "accept-charset", "accept-encoding", "accept-language", "authorization", "brokerproperties",
    "cache-control", "client-ip", "connection", "content-encoding", "content-length", "content-type",
    "cookie", "date", "disguised-host", "dnt", "expect", "forwarded", "from", "host", "if-match",
    "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "keep-alive", "max-forwards",
    "origin", "pragma", "proxy-authorization", "proxy-connection", "range", "referer", "request-id",
    "sec-websocket-key", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade",
    "upgrade-insecure-requests", "user-agent", "via", "was-default-hostname", "warning", "x-client-ip",
    "x-client-port",
})
# fmt: on
_NOT_PROPERTY_PREFIXES = (
    "x-functions-",
    "x-ms-",
    "x-arr-",
    "x-forwarded-",
    "x-original-",
    "x-appservice-",
    "x-azure-",
    "x-site-",
    "x-waws-",
    "x-pair-",
    "x-real-ip",
    "sec-",
)
NewId = Callable[[], str]


def messages_of(headers: Mapping[str, str], body: bytes, new_id: NewId) -> list[Message]:
    """The messages of one request, each checked; Rejected names what is wrong, and in a batch the item."""
    content_type = headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() == BATCH_CONTENT_TYPE:
        return _batch(body, new_id)
    broker = _broker_properties(headers.get("brokerproperties", ""))
    properties = user_properties(headers)
    return [_message(body, broker, properties, new_id, content_type=content_type or None)]


def _batch(body: bytes, new_id: NewId) -> list[Message]:
    try:
        items = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"The batch is not JSON: {error}.") from None
    if not isinstance(items, list) or not items:
        raise Rejected('A batch is a JSON array of at least one message: [{"Body": "..."}].')
    if len(items) > BATCH_ITEMS_MAX:
        raise Rejected(f"A batch has at most {BATCH_ITEMS_MAX} messages; this one has {len(items)}.")
    messages = []
    for number, item in enumerate(items):
        try:
            messages.append(_item(item, new_id))
        except Rejected as error:
            raise Rejected(f"Message {number} of the batch (counted from 0): {error.message}") from None
    return messages


def _item(item: object, new_id: NewId) -> Message:
    if not isinstance(item, dict):
        raise Rejected("it is not a JSON object.")
    if unknown := set(item) - {"Body", "BrokerProperties", "UserProperties"}:
        raise Rejected(f"it has a member {sorted(unknown)[0]}; known are Body, BrokerProperties and UserProperties.")
    body = item.get("Body")
    if not isinstance(body, str):
        raise Rejected("its Body is missing or is not text.")
    broker, properties = item.get("BrokerProperties") or {}, item.get("UserProperties") or {}
    if not isinstance(broker, dict):
        raise Rejected("its BrokerProperties is not a JSON object.")
    if not isinstance(properties, dict):
        raise Rejected("its UserProperties is not a JSON object.")
    for name, value in properties.items():
        if not isinstance(value, str | int | float | bool | None):
            raise Rejected(f"its user property {name} is neither text, number nor boolean.")
    return _message(_encoded(body, "its Body"), broker, properties, new_id)


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Rejected(f"{what} holds half of a surrogate pair, which no text does.") from None


def _broker_properties(header: str) -> dict[str, Any]:
    if not header.strip():
        return {}
    if not header.isascii():
        raise Rejected("The header BrokerProperties is not ASCII; write other characters as \\u escapes of JSON.")
    try:
        value = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"The header BrokerProperties is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise Rejected('The header BrokerProperties is not a JSON object, as {"MessageId": "1"}.')
    return value


def _message(
    body: bytes,
    broker: Mapping[str, Any],
    user: Mapping[str, Any],
    new_id: NewId,
    *,
    content_type: str | None = None,
) -> Message:
    fields: dict[str, Any] = {"content_type": content_type}
    for name, field in _TEXT_PROPERTIES.items():
        if (text := _text(broker, name)) is not None:
            fields[field] = text
    message_id = _text(broker, "MessageId")
    fields["message_id"] = new_id() if message_id is None else message_id
    partition_key = _text(broker, "PartitionKey")
    annotations = {
        PARTITION_KEY: partition_key,
        _VIA_PARTITION_KEY: _text(broker, "ViaPartitionKey"),
        SCHEDULED_ENQUEUE_TIME: _scheduled_time(broker),
    }
    check_keys(
        message_id=fields["message_id"],
        session_id=fields.get("group_id"),
        partition_key=partition_key,
        reply_to_session_id=fields.get("reply_to_group_id"),
    )
    _check_user_properties(user)
    return Message(
        body=DataBody((body,)),
        header=Header(time_to_live_ms=_time_to_live_ms(broker)),
        properties=Properties(**fields),
        application_properties=dict(user),
        annotations={name: value for name, value in annotations.items() if value is not None},
    )


def _text(broker: Mapping[str, Any], name: str) -> str | None:
    value = broker.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Rejected(f"The broker property {name} is text; this one is {_kind(value)}.")
    _encoded(value, f"the broker property {name}")
    return value


def _time_to_live_ms(broker: Mapping[str, Any]) -> int | None:
    value = broker.get("TimeToLive")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(f"The broker property TimeToLive is a number of seconds; this one is {_kind(value)}.")
    if not 0 < value <= timedelta.max.total_seconds():
        raise Rejected("The broker property TimeToLive is a number of seconds above 0.")
    return min(max(int(value * 1000), 1), TTL_FOREVER_MS)


def _scheduled_time(broker: Mapping[str, Any]) -> datetime | None:
    text = _text(broker, "ScheduledEnqueueTimeUtc")
    if text is None:
        return None
    try:
        return datetime.strptime(text.strip(), _RFC_1123).replace(tzinfo=UTC)
    except ValueError:
        example = "Sun, 06 Nov 1994 08:49:37 GMT"
        raise Rejected(f"The broker property ScheduledEnqueueTimeUtc is a time as in {example}.") from None


def user_properties(headers: Mapping[str, str]) -> dict[str, Any]:
    """User properties among the headers. The Functions host writes all names of headers in lower case."""
    found = {}
    for name, text in headers.items():
        lowered = name.lower()
        if lowered not in _NOT_PROPERTIES and not lowered.startswith(_NOT_PROPERTY_PREFIXES):
            found[name] = _header_value(name, text)
    return found


def _header_value(name: str, text: str) -> Any:
    if not text.isascii():
        raise Rejected(f"The header {name} is not ASCII; send the property in a batch, whose JSON takes any character.")
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if any(mark in text for mark in ".eE") else int(text)
    return text


def _check_user_properties(properties: Mapping[str, Any]) -> None:
    total = 0
    for name, value in properties.items():
        if name in TRANSFER_PROPERTIES:
            raise Rejected(f"The user property {name} belongs to the pair; give yours another name.")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise Rejected(f"The user property {name} is a number of more than 64 bits.")
        size = len(_encoded(name, "the name of a user property"))
        size += len(_encoded(str(value), f"the user property {name}"))
        if size > PROPERTY_BYTES_MAX:
            raise Rejected(f"The user property {name[:50]} has {size} bytes; at most {PROPERTY_BYTES_MAX} are allowed.")
        total += size
    if total > PROPERTIES_BYTES_MAX:
        raise Rejected(f"The user properties have {total} bytes; at most {PROPERTIES_BYTES_MAX} are allowed.")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "a number" if isinstance(value, int | float) else "a list or an object"


def destination_in(path: str) -> str:
    """The entity's path in `{entity path}/messages`; Rejected when the request is for anything else."""
    entity, slash, last = path.rpartition("/")
    if not slash or last.lower() != "messages" or not entity or entity != entity.strip("/"):
        raise Rejected("Messages are sent to {entity path}/messages; other operations of the service are not offered.")
    return entity


