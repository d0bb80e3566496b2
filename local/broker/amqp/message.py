"""Messages as raw sections (part 3, section 3.2): split once, passed on bit for bit, decoded only when asked."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from local.broker.amqp import fields as f
from local.broker.amqp.decoding import decode, skip
from local.broker.amqp.encoding import encode, encode_list_body
from local.broker.amqp.errors import DecodeError

#: message-format of a transfer whose data sections each hold one encoded message.
BATCH_MESSAGE_FORMAT = 0x80013700

#: Most body sections in one message; a batch has one per inner message.
MAX_BODY_SECTIONS = 65_536

HEADER = 0x70
DELIVERY_ANNOTATIONS = 0x71
MESSAGE_ANNOTATIONS = 0x72
PROPERTIES = 0x73
APPLICATION_PROPERTIES = 0x74
DATA = 0x75
SEQUENCE = 0x76
VALUE = 0x77
FOOTER = 0x78

_CODES_BY_SYMBOL = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}
_LISTS = frozenset((0x45, 0xC0, 0xD0))
_MAPS = frozenset((0x40, 0xC1, 0xD1))
_BINARIES = frozenset((0xA0, 0xB0))
_ALLOWED: dict[int, frozenset[int]] = {
    HEADER: _LISTS,
    DELIVERY_ANNOTATIONS: _MAPS,
    MESSAGE_ANNOTATIONS: _MAPS,
    PROPERTIES: _LISTS,
    APPLICATION_PROPERTIES: _MAPS,
    DATA: _BINARIES,
    SEQUENCE: _LISTS,
    VALUE: frozenset(range(256)),
    FOOTER: _MAPS,
}
_SLOT_OF = {
    HEADER: "header",
    DELIVERY_ANNOTATIONS: "delivery_annotations",
    MESSAGE_ANNOTATIONS: "message_annotations",
    PROPERTIES: "properties",
    APPLICATION_PROPERTIES: "application_properties",
    FOOTER: "footer",
}
#: Offset of the value inside a section: parse rewrites every descriptor to its three-octet form.
_VALUE_AT = 3


class Header(NamedTuple):
    durable: bool | None = None
    priority: int | None = None
    ttl: int | None = None  # milliseconds
    first_acquirer: bool | None = None
    delivery_count: int | None = None


class Properties(NamedTuple):
    message_id: Any = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: Any = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None  # milliseconds since the epoch
    creation_time: int | None = None  # milliseconds since the epoch
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


_HEADER_FIELDS = (f.BOOLEAN, f.UBYTE, f.UINT, f.BOOLEAN, f.UINT)
_PROPERTIES_FIELDS = (
    f.MESSAGE_ID,
    f.BINARY,
    f.STRING,
    f.STRING,
    f.STRING,
    f.MESSAGE_ID,
    f.SYMBOL,
    f.SYMBOL,
    f.TIMESTAMP,
    f.TIMESTAMP,
    f.STRING,
    f.UINT,
    f.STRING,
)
_HEADER_READERS = tuple(field.read for field in _HEADER_FIELDS)
_PROPERTIES_READERS = tuple(field.read for field in _PROPERTIES_FIELDS)


class RawMessage:
    """One message; each attribute holds the bytes of a whole section, or b"" when it is absent."""

    __slots__ = (
        "application_properties",
        "body",
        "delivery_annotations",
        "footer",
        "header",
        "message_annotations",
        "properties",
    )

    def __init__(
        self,
        *,
        header: bytes = b"",
        delivery_annotations: bytes = b"",
        message_annotations: bytes = b"",
        properties: bytes = b"",
        application_properties: bytes = b"",
        body: bytes = b"",
        footer: bytes = b"",
    ) -> None:
        self.header = header
        self.delivery_annotations = delivery_annotations
        self.message_annotations = message_annotations
        self.properties = properties
        self.application_properties = application_properties
        self.body = body
        self.footer = footer

    @classmethod
    def parse(cls, payload: bytes) -> RawMessage:
        """Split a payload; sections may come in any order (the Python client puts delivery-annotations last)."""
        if type(payload) is not bytes:
            payload = bytes(payload)
        message = cls()
        body_kind = 0
        body: list[bytes] = []
        pos = 0
        total = len(payload)
        while pos < total:
            code, section, pos = _next_section(payload, pos)
            slot = _SLOT_OF.get(code)
            if slot is None:
                if body_kind and (body_kind != code or code == VALUE):
                    raise DecodeError("the body mixes or repeats section kinds")
                body_kind = code
                body.append(section)
                _check_sections(len(body))
            elif getattr(message, slot):
                raise DecodeError(f"the {slot} section comes twice")
            elif section[_VALUE_AT] != 0x40:
                setattr(message, slot, section)
        message.body = body[0] if len(body) == 1 else b"".join(body)
        return message

    def to_payload(self) -> bytes:
        """All sections in the order the standard gives them."""
        return b"".join(
            (
                self.header,
                self.delivery_annotations,
                self.message_annotations,
                self.properties,
                self.application_properties,
                self.body,
                self.footer,
            )
        )

    def decode_header(self) -> Header:
        return Header(*_section_fields(self.header, _HEADER_READERS, "the header")) if self.header else Header()

    def decode_properties(self) -> Properties:
        if not self.properties:
            return Properties()
        return Properties(*_section_fields(self.properties, _PROPERTIES_READERS, "the properties section"))

    def decode_application_properties(self) -> dict[Any, Any]:
        return _section_map(self.application_properties)

    def decode_message_annotations(self) -> dict[Any, Any]:
        return _section_map(self.message_annotations)

    def decode_delivery_annotations(self) -> dict[Any, Any]:
        return _section_map(self.delivery_annotations)


def _next_section(payload: bytes, pos: int) -> tuple[int, bytes, int]:
    """Descriptor code, section bytes (with a three-octet descriptor) and the offset after the section at `pos`."""
    try:
        if payload[pos] == 0 and payload[pos + 1] == 0x53:
            code: int | None = payload[pos + 2]
            value_at = pos + _VALUE_AT
        else:
            with f.reading("a section descriptor"):
                code, value_at = f.read_descriptor(payload, pos, _CODES_BY_SYMBOL)
        allowed = _ALLOWED.get(code) if code is not None else None
        if code is None or allowed is None:
            raise DecodeError("a section of an unknown kind")
        if payload[value_at] not in allowed:
            raise DecodeError(f"a {_SLOT_OF.get(code, 'body')} section of the wrong type")
    except IndexError:
        raise DecodeError("the message ends inside a section") from None
    end = skip(payload, value_at)
    if value_at - pos == _VALUE_AT:
        return code, payload[pos:end], end
    return code, bytes((0, 0x53, code)) + payload[value_at:end], end


def _check_sections(count: int) -> None:
    if count > MAX_BODY_SECTIONS:
        raise DecodeError(f"more than {MAX_BODY_SECTIONS} body sections")


def _section_fields(section: bytes, readers: tuple[f.Reader, ...], what: str) -> list[Any]:
    try:
        values, _ = f.read_fields(section, _VALUE_AT, readers)
    except (IndexError, struct.error):
        raise DecodeError(f"{what} ends before its last octet") from None
    except UnicodeDecodeError:
        raise DecodeError(f"{what} holds a string that is not valid UTF-8") from None
    return values


def _section_map(section: bytes) -> dict[Any, Any]:
    if not section:
        return {}
    value, _ = decode(section, _VALUE_AT)
    return value if isinstance(value, dict) else {}


def encode_section_map(descriptor_code: int, values: dict[Any, Any]) -> bytes:
    """A map section: annotations, application-properties or footer."""
    return bytes((0, 0x53, descriptor_code)) + encode(values)


def _encode_section_list(descriptor_code: int, values: tuple[Any, ...], types: tuple[f.FieldType, ...]) -> bytes:
    parts = [f.NULL if value is None else field.write(value) for value, field in zip(values, types, strict=True)]
    return bytes((0, 0x53, descriptor_code)) + encode_list_body(parts)


def encode_header(header: Header) -> bytes:
    return _encode_section_list(HEADER, header, _HEADER_FIELDS)


def encode_properties(properties: Properties) -> bytes:
    return _encode_section_list(PROPERTIES, properties, _PROPERTIES_FIELDS)


def split_batch(payload: bytes) -> list[bytes]:
    """The encoded messages inside a transfer of BATCH_MESSAGE_FORMAT: the content of its data sections."""
    if type(payload) is not bytes:
        payload = bytes(payload)
    messages = []
    pos = 0
    total = len(payload)
    while pos < total:
        code, section, pos = _next_section(payload, pos)
        if code == DATA:
            messages.append(section[5:] if section[_VALUE_AT] == 0xA0 else section[8:])
            _check_sections(len(messages))
        elif code in (SEQUENCE, VALUE):
            raise DecodeError("a batch holds a body that is not data")
    return messages
