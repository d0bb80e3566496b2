"""Messages between the SDK's types and ours.

The SDK takes a value's AMQP type from its Python type, and where that is not enough from a mapping with the keys TYPE
and VALUE, which it uses itself for annotations. That is how longs, binary properties, symbols and time spans get the
type they had. A received message has lost its types; `received_message` leaves it so, and the envelope puts them back.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.amqp import (
    AmqpAnnotatedMessage,
    AmqpMessageBodyType,
    AmqpMessageHeader,
    AmqpMessageProperties,
)

from shared.domain.envelope import without_traces_of_the_service
from shared.domain.message import (
    PARTITION_KEY,
    Body,
    DataBody,
    Described,
    Header,
    Message,
    Outgoing,
    Properties,
    SequenceBody,
    Typed,
    ValueBody,
    outgoing,
)
from shared.domain.typing_notes import INT_MAX, INT_MIN, TIMESPAN, ticks
from shared.errors import Rejected

_SDK_TYPES = {
    "null": "NULL",
    "boolean": "BOOL",
    "ubyte": "UBYTE",
    "byte": "BYTE",
    "ushort": "USHORT",
    "short": "SHORT",
    "uint": "UINT",
    "int": "INT",
    "ulong": "ULONG",
    "long": "LONG",
    "float": "FLOAT",
    "double": "DOUBLE",
    "decimal128": "DECIMAL128",
    "timestamp": "TIMESTAMP",
    "uuid": "UUID",
    "binary": "BINARY",
    "string": "STRING",
    "symbol": "SYMBOL",
    "array": "ARRAY",
}
_KINDS = {sdk: kind for kind, sdk in _SDK_TYPES.items()}
_SELF_EVIDENT = ("BINARY", "STRING", "BOOL", "NULL", "DOUBLE", "UUID")  # Python's own type says as much
_EMPTY: dict[Any, Any] = {}
_DATA = AmqpMessageBodyType.DATA
_PLAIN_TYPES = (str, bool, int, float)
_NO_HEADER, _NO_PROPERTIES = Header(), Properties()


def sdk_value(value: Any) -> Any:
    """A value of ours as the SDK encodes it with the right AMQP type."""
    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return value if INT_MIN <= value <= INT_MAX else {"TYPE": "LONG", "VALUE": value}
        case bytes() | bytearray():
            # Not bytes themselves: as an application property the SDK would turn them into text.
            return {"TYPE": "BINARY", "VALUE": bytes(value)}
        case timedelta():
            return sdk_value(Described(TIMESPAN, Typed("long", ticks(value))))
        case Typed(kind="array", value=items):
            return {"TYPE": "ARRAY", "VALUE": [sdk_value(item) for item in items]}
        case Typed(kind=kind, value=inner):
            return {"TYPE": _SDK_TYPES[kind], "VALUE": inner.encode() if kind == "symbol" else inner}
        case Described(descriptor=descriptor, value=inner):
            symbol = {"TYPE": "SYMBOL", "VALUE": descriptor.encode()}
            return {"TYPE": "DESCRIBED", "VALUE": (symbol, sdk_value(inner))}
        case list() | tuple():
            return [sdk_value(item) for item in value]
        case dict():
            # A list of pairs, since a typed key is a mapping and mappings cannot be keys.
            return {"TYPE": "MAP", "VALUE": [(sdk_value(key), sdk_value(item)) for key, item in value.items()]}
        case _:
            return value


def _sdk_body_value(value: Any) -> Any:
    """The outermost value of a body, where the SDK looks at Python types alone."""
    match value:
        case dict():
            return {key: sdk_value(item) for key, item in value.items()}
        case Described(descriptor=descriptor, value=inner):
            return ({"TYPE": "SYMBOL", "VALUE": descriptor.encode()}, sdk_value(inner))
        case timedelta():
            return _sdk_body_value(Described(TIMESPAN, Typed("long", ticks(value))))
        case Typed(kind="timestamp", value=ms):
            return _datetime(ms)
        case Typed(kind=kind):
            raise Rejected(f"A body whose outermost value is of AMQP type {kind} cannot be sent; put it into a list.")
        case list() | tuple():
            return sdk_value(value)
        case _:
            return value


def _datetime(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def sdk_message(message: Message) -> AmqpAnnotatedMessage:
    header, properties = message.header, message.properties
    result = AmqpAnnotatedMessage(
        **_sdk_body(message.body),
        application_properties=_sdk_section(message.application_properties),
        annotations=_sdk_section(message.annotations),
        delivery_annotations=_sdk_section(message.delivery_annotations),
        footer=_sdk_section(message.footer),
    )
    if header != _NO_HEADER:
        result.header = AmqpMessageHeader(
            durable=header.durable,
            priority=header.priority,
            time_to_live=header.time_to_live_ms,
            first_acquirer=header.first_acquirer,
        )
    result.properties = AmqpMessageProperties(
        message_id=properties.message_id,
        user_id=properties.user_id,
        to=properties.to,
        subject=properties.subject,
        reply_to=properties.reply_to,
        correlation_id=properties.correlation_id,
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        absolute_expiry_time=properties.absolute_expiry_time_ms,
        creation_time=properties.creation_time_ms,
        group_id=properties.group_id,
        group_sequence=properties.group_sequence,
        reply_to_group_id=properties.reply_to_group_id,
    )
    return result


def _sdk_section(section: Mapping[Any, Any]) -> dict[Any, Any] | None:
    if not section:
        return None
    # Text needs no look at its type, and most values are text.
    return {name: value if type(value) is str else sdk_value(value) for name, value in section.items()}


def _sdk_body(body: Body) -> dict[str, Any]:
    match body:
        case None:
            return {"value_body": None}
        case DataBody(sections=sections):
            return {"data_body": list(sections)}
        case SequenceBody(sections=sections):
            return {"sequence_body": [sdk_value(section) for section in sections]}
        case ValueBody(value=value):
            return {"value_body": _sdk_body_value(value)}


def received_message(message: AmqpAnnotatedMessage) -> Message:
    """A message as the SDK decoded it. Text among the properties is text again; other types are still lost."""
    return Message(
        body=_our_body(message),
        header=_our_header(message.header),
        properties=_our_properties(message.properties),
        application_properties=message.application_properties or _EMPTY,
        annotations=message.annotations or _EMPTY,
        delivery_annotations=message.delivery_annotations or _EMPTY,
        footer=message.footer or _EMPTY,
    )


def _our_header(header: Any) -> Header:
    if header is None:
        return _NO_HEADER
    return Header(
        durable=header.durable,
        priority=header.priority,
        time_to_live_ms=header.time_to_live,
        first_acquirer=header.first_acquirer,
        delivery_count=header.delivery_count,
    )


def _our_properties(properties: Any) -> Properties:
    if properties is None:
        return _NO_PROPERTIES
    return Properties(
        message_id=properties.message_id,
        user_id=properties.user_id,
        to=_text(properties.to),
        subject=_text(properties.subject),
        reply_to=_text(properties.reply_to),
        correlation_id=properties.correlation_id,
        content_type=_text(properties.content_type),
        content_encoding=_text(properties.content_encoding),
        absolute_expiry_time_ms=properties.absolute_expiry_time,
        creation_time_ms=properties.creation_time,
        group_id=_text(properties.group_id),
        group_sequence=properties.group_sequence,
        reply_to_group_id=_text(properties.reply_to_group_id),
    )


def _our_body(message: AmqpAnnotatedMessage) -> Body:
    match message.body_type:
        case AmqpMessageBodyType.DATA:
            return DataBody(tuple(bytes(section) for section in message.body))
        case AmqpMessageBodyType.SEQUENCE:
            return SequenceBody(tuple(message.body))
        case _:
            return None if message.body is None else ValueBody(message.body)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def sender_message(message: AmqpAnnotatedMessage) -> Message:
    """A message that a program built to be sent, with the types its values have in Python."""
    return Message(
        body=_typed_body(_our_body(message)),
        header=_our_header(message.header),
        properties=_our_properties(message.properties),
        application_properties=_our_section(message.application_properties),
        annotations=_our_section(message.annotations),
        delivery_annotations=_our_section(message.delivery_annotations),
        footer=_our_section(message.footer),
    )


def _our_section(section: Mapping[Any, Any] | None) -> Mapping[Any, Any]:
    return {_text(name): our_value(value) for name, value in section.items()} if section else _EMPTY


def _typed_body(body: Body) -> Body:
    match body:
        case ValueBody(value=value):
            return ValueBody(our_value(value))
        case SequenceBody(sections=sections):
            return SequenceBody(tuple(our_value(list(section)) for section in sections))
        case _:
            return body


def our_value(value: Any) -> Any:
    """A value as the SDK takes it, as one of ours."""
    match value:
        case {"TYPE": "DESCRIBED", "VALUE": (descriptor, inner)}:
            name = descriptor["VALUE"] if isinstance(descriptor, dict) else descriptor
            return Described(_text(name), our_value(inner))
        case {"TYPE": "ARRAY", "VALUE": items}:
            return Typed("array", [our_value(item) for item in items])
        case {"TYPE": str() as sdk_type, "VALUE": inner} if sdk_type in _KINDS:
            return inner if sdk_type in _SELF_EVIDENT else Typed(_KINDS[sdk_type], _text(inner))
        case list():
            return [our_value(item) for item in value]
        case (descriptor, inner):
            return Described(_text(descriptor), our_value(inner))
        case dict():
            return {our_value(key): our_value(item) for key, item in value.items()}
        case _:
            return value


def outgoing_from(message: object) -> Outgoing:
    """What a program may hand to the sender: the SDK's messages, received ones too, ours, text, bytes."""
    if type(message) is ServiceBusMessage:  # nearly always
        return _outgoing_from_annotated(message.raw_amqp_message, message)
    match message:
        case str() | bytes():
            return outgoing_from(ServiceBusMessage(message))
        case ServiceBusReceivedMessage():
            received = without_traces_of_the_service(received_message(message.raw_amqp_message))
            return outgoing(_with_message_id(received))
        case ServiceBusMessage():
            return _outgoing_from_annotated(message.raw_amqp_message, message)
        case AmqpAnnotatedMessage():
            return _outgoing_from_annotated(message, message)
        case Message():
            return outgoing(_with_message_id(message))
        case _:
            known = "ServiceBusMessage, AmqpAnnotatedMessage, str or bytes"
            raise Rejected(f"A message is a {known}; this is a {type(message).__name__}.")


def _with_message_id(message: Message) -> Message:
    if message.properties.message_id is not None:
        return message
    return message.with_properties(message_id=str(uuid.uuid4()))


def _outgoing_from_annotated(raw: AmqpAnnotatedMessage, native: object) -> Outgoing:
    properties, names = raw.properties, raw.application_properties or _EMPTY
    if properties is None or properties.message_id is None or (names and _needs_typing(names)):
        return outgoing(_with_message_id(sender_message(raw)))
    annotations, message_id, session_id = raw.annotations, properties.message_id, properties.group_id
    # By position, and nothing called that is not needed: this is done for every message sent.
    return Outgoing(
        message_id if isinstance(message_id, str) else str(_text(message_id)),
        None if session_id is None else _text(session_id),
        _text(_annotation(annotations, PARTITION_KEY)) if annotations else None,
        sum(map(len, raw.body)) if raw.body_type is _DATA else 0,
        names,
        partial(sender_message, raw),
        native,
    )


def extended(message: Outgoing, extra: Mapping[str, str]) -> Outgoing | None:
    """The message with these application properties besides its own, which is all that most need for a detour.

    None for one with more to it: what `envelope.wrap` would note, move or take away.
    """
    native = message.native
    if type(native) is ServiceBusMessage:
        raw = native.raw_amqp_message
    elif type(native) is AmqpAnnotatedMessage:
        raw = native
    else:
        return None
    own = raw.application_properties
    if raw.body_type is not _DATA or message.session_id is not None or not _has_nothing_to_note(raw):
        return None
    # A shallow copy, as copy.copy makes it in five times the time.
    copied = AmqpAnnotatedMessage.__new__(AmqpAnnotatedMessage)
    vars(copied).update(vars(raw))
    names: dict[Any, Any] = {**(own or _EMPTY), **extra}
    copied.application_properties = names
    return Outgoing(
        message.message_id,
        None,
        message.partition_key,
        message.body_bytes,
        names,
        partial(sender_message, copied),
        copied,
    )


def _has_nothing_to_note(raw: AmqpAnnotatedMessage) -> bool:
    if raw.annotations or raw.delivery_annotations or raw.footer:
        return False
    for value in vars(raw.properties).values():
        if value is not None and type(value) is not str:
            return False
    for value in vars(raw.header).values() if raw.header is not None else ():
        if value is not None:
            return False
    for name, value in raw.application_properties.items() if raw.application_properties else ():
        if type(name) is not str or type(value) not in _PLAIN_TYPES:
            return False
    return True


def _annotation(annotations: Mapping[Any, Any], name: str) -> Any:
    """The SDK itself names annotations in bytes, its users in text."""
    value = annotations.get(name)
    return annotations.get(name.encode()) if value is None else value


def _needs_typing(application_properties: Mapping[Any, Any]) -> bool:
    """Whether the SDK on its own would refuse or change a value."""
    return any(
        isinstance(value, bytes | timedelta) or (type(value) is int and not INT_MIN <= value <= INT_MAX)
        for value in application_properties.values()
    )
