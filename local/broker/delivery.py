"""A stored message as bytes for a receiver: what the broker owns is written, the rest is passed on as it came."""

from __future__ import annotations

import struct

from .store import MessageState, StoredMessage

_HEADER = b"\x00\x53\x70"
_DELIVERY_ANNOTATIONS = b"\x00\x53\x71"
_MESSAGE_ANNOTATIONS = b"\x00\x53\x72"

_LONG = struct.Struct(">Bq")
_UINT = struct.Struct(">BI")
_MAP32 = struct.Struct(">BII")


def _symbol(name: str) -> bytes:
    return bytes((0xA3, len(name))) + name.encode("ascii")


_SEQUENCE_NUMBER = _symbol("x-opt-sequence-number")
_ENQUEUED_TIME = _symbol("x-opt-enqueued-time")
_LOCKED_UNTIL = _symbol("x-opt-locked-until")
_MESSAGE_STATE = _symbol("x-opt-message-state")
_ENQUEUE_SEQUENCE_NUMBER = _symbol("x-opt-enqueue-sequence-number")
_DEAD_LETTER_SOURCE = _symbol("x-opt-deadletter-source")
_LOCK_TOKEN = _symbol("x-opt-lock-token")

_TYPE_LONG = 0x81
_TYPE_TIMESTAMP = 0x83
_TYPE_UUID = b"\x98"
_TYPE_SMALL_INT = 0x54


def encode_delivery(message: StoredMessage) -> bytes:
    """For a receiver: with lock token and lock time when the message is locked."""
    return b"".join(
        (
            _header(message),
            _delivery_annotations(message),
            _message_annotations(message, locked=message.lock_token is not None),
            message.content.bare,
        )
    )


def encode_peek(message: StoredMessage) -> bytes:
    """For a look without a lock."""
    return _header(message) + _message_annotations(message, locked=False) + message.content.bare


def lock_token_bytes(tag: bytes) -> bytes:
    """A delivery tag is the lock token in .NET's byte order; an AMQP uuid wants the other one."""
    return tag[3::-1] + tag[5:3:-1] + tag[7:5:-1] + tag[8:]


def _header(message: StoredMessage) -> bytes:
    count = message.delivery_count
    fields = message.content.header_fields
    if count == 0:
        fields += b"\x43"
    elif count < 256:
        fields += bytes((0x52, count))
    else:
        fields += _UINT.pack(0x70, count)
    return _HEADER + bytes((0xC0, len(fields) + 1, 5)) + fields


def _delivery_annotations(message: StoredMessage) -> bytes:
    content = message.content
    pairs, count = content.delivery_annotations, content.delivery_annotation_count
    if message.lock_token is not None:
        pairs += _LOCK_TOKEN + _TYPE_UUID + lock_token_bytes(message.lock_token)
        count += 1
    return _DELIVERY_ANNOTATIONS + _map(pairs, count)


def _message_annotations(message: StoredMessage, *, locked: bool) -> bytes:
    content = message.content
    pairs = [
        _SEQUENCE_NUMBER,
        _LONG.pack(_TYPE_LONG, message.sequence_number),
        _ENQUEUED_TIME,
        _LONG.pack(_TYPE_TIMESTAMP, int(message.enqueued_at * 1000)),
        content.annotations,
    ]
    count = 2 + content.annotation_count
    if locked:
        pairs += (_LOCKED_UNTIL, _LONG.pack(_TYPE_TIMESTAMP, int(message.locked_until * 1000)))
        count += 1
    if message.enqueue_sequence_number is not None:
        pairs += (_ENQUEUE_SEQUENCE_NUMBER, _LONG.pack(_TYPE_LONG, message.enqueue_sequence_number))
        count += 1
    if message.dead_letter_source is not None:
        source = message.dead_letter_source.encode()
        pairs += (_DEAD_LETTER_SOURCE, b"\xb1", len(source).to_bytes(4, "big"), source)
        count += 1
    if message.state is not MessageState.ACTIVE:
        pairs += (_MESSAGE_STATE, bytes((_TYPE_SMALL_INT, message.state)))
        count += 1
    return _MESSAGE_ANNOTATIONS + _map(b"".join(pairs), count)


def _map(pairs: bytes, pair_count: int) -> bytes:
    count = 2 * pair_count
    size = len(pairs) + 1
    if size < 256 and count < 256:
        return bytes((0xC1, size, count)) + pairs
    return _MAP32.pack(0xD1, len(pairs) + 4, count) + pairs
