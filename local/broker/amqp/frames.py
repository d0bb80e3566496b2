"""Frames on the wire (part 2, section 2.3): splitting the input, writing the output, the two hot performatives."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from local.broker.amqp.encoding import encode_binary, encode_uint
from local.broker.amqp.errors import FRAMING_ERROR, RemoteProtocolError
from local.broker.amqp.performatives import Accepted, DeliveryState, Released, encode_composite

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_FRAME, SASL_FRAME = 0, 1
EMPTY_FRAME = b"\x00\x00\x00\x08\x02\x00\x00\x00"

#: Smallest max-frame-size a peer may ask for (part 2, section 2.3.3).
MIN_MAX_FRAME_SIZE = 512
#: Longest delivery-tag (part 2, section 2.8.7).
MAX_TAG_SIZE = 32

_FRAME_HEADER_SIZE = 8
_frame_header = Struct(">IBBH")
_unpack_header = _frame_header.unpack_from
_pack_header = _frame_header.pack


class FramingError(RemoteProtocolError):
    """The stream cannot be cut into frames any more: nothing after this point can be read."""

    def __init__(self, description: str) -> None:
        super().__init__(description, FRAMING_ERROR)


class Frame(NamedTuple):
    """One frame: its body is buffer[start:end]; empty (start == end) is a heartbeat."""

    kind: int
    channel: int
    buffer: bytes
    start: int
    end: int


class ReceiveBuffer:
    """Bytes as they arrive, frames as they complete. Holds at most one incomplete frame of at most `max_frame_size`."""

    __slots__ = ("_data", "_max_frame_size", "_pos", "_tail", "_wanted")

    def __init__(self, max_frame_size: int) -> None:
        self._max_frame_size = max_frame_size
        self._data = b""
        self._pos = 0
        self._tail = bytearray()
        self._wanted = 0

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add input; all of the earlier input must have been asked for (next_frame or take_header gave None)."""
        if self._tail:
            self._tail += data
            if len(self._tail) < self._wanted:
                return
            self._data = bytes(self._tail)
            self._tail = bytearray()
        else:
            self._data = data if type(data) is bytes else bytes(data)
        self._pos = 0

    def clear(self) -> None:
        self._data, self._pos, self._tail, self._wanted = b"", 0, bytearray(), 0

    def take_header(self) -> bytes | None:
        """The eight octets of a protocol header, or fewer as soon as they cannot become one, or None for 'wait'."""
        header = self._data[self._pos : self._pos + _FRAME_HEADER_SIZE]
        if len(header) == _FRAME_HEADER_SIZE or header[:4] != b"AMQP"[: len(header)]:
            self._pos += len(header)
            return header
        self._keep_tail(_FRAME_HEADER_SIZE)
        return None

    def next_frame(self) -> Frame | None:
        """The next complete frame, or None for 'wait for more input'. Raises FramingError."""
        data, pos = self._data, self._pos
        available = len(data) - pos
        if available < _FRAME_HEADER_SIZE:
            self._keep_tail(_FRAME_HEADER_SIZE)
            return None
        size, offset, kind, channel = _unpack_header(data, pos)
        if size > self._max_frame_size:
            raise FramingError(f"a frame of {size} octets where {self._max_frame_size} is the limit")
        if offset < 2 or offset * 4 > size:
            raise FramingError(f"data offset {offset} does not fit a frame of {size} octets")
        if available < size:
            self._keep_tail(size)
            return None
        self._pos = end = pos + size
        return Frame(kind, channel, data, pos + offset * 4, end)

    def _keep_tail(self, wanted: int) -> None:
        if self._data:
            self._tail = bytearray(self._data[self._pos :])
            self._data, self._pos = b"", 0
        self._wanted = wanted


def encode_frame(kind: int, channel: int, body: bytes) -> bytes:
    return _pack_header(_FRAME_HEADER_SIZE + len(body), 2, kind, channel) + body


# ------------------------------------------------------------------------------------------------ hot performatives

# What follows the message-format of a transfer: settled, more, then rcv-settle-mode, state, resume (null) and
# aborted, batchable (false).
_TRANSFER_END = {
    (settled, more): (b"\x41" if settled else b"\x42") + (b"\x41" if more else b"\x42") + b"\x40\x40\x40\x42\x42"
    for settled in (False, True)
    for more in (False, True)
}
_TRANSFER_FIELDS = 11


def encode_transfers(
    channel: int,
    head: bytes,
    payload: bytes,
    max_frame_size: int,
    settled: bool,
) -> list[tuple[bytes, bytes]]:
    """The frames of one delivery as (header and performative, slice of the payload).

    `head` is handle, delivery-id, delivery-tag and message-format as made by transfer_head: every frame repeats it,
    which the standard allows and every client understands.
    """
    room = max_frame_size - _FRAME_HEADER_SIZE - 6 - len(head) - 7
    size = len(payload)
    if size <= room:
        return [(_transfer_frame(channel, head, settled, False, size), payload)]
    frames = []
    for start in range(0, size, room):
        part = payload[start : start + room]
        frames.append((_transfer_frame(channel, head, settled, start + room < size, len(part)), part))
    return frames


def transfer_head(handle: bytes, delivery_id: int, tag: bytes, message_format: int) -> bytes:
    """The first four fields of a transfer, already encoded; `handle` comes encoded from its link."""
    return handle + encode_uint(delivery_id) + encode_binary(tag) + encode_uint(message_format)


def _transfer_frame(channel: int, head: bytes, settled: bool, more: bool, payload_size: int) -> bytes:
    fields = head + _TRANSFER_END[settled, more]
    size = len(fields)
    return (
        _pack_header(_FRAME_HEADER_SIZE + 6 + size + payload_size, 2, AMQP_FRAME, channel)
        + b"\x00\x53\x14\xc0"
        + bytes((size + 1, _TRANSFER_FIELDS))
        + fields
    )


_ENCODED_STATES: dict[type, bytes] = {Accepted: encode_composite(Accepted()), Released: encode_composite(Released())}
_pack_disposition = Struct(">IBBHIBBBBIBIB").pack
_DISPOSITION_LIST8 = 0x005315C0
_DISPOSITION_FIELDS = 6


def encode_disposition(channel: int, role: bool, delivery_id: int, state: DeliveryState | None) -> bytes:
    """A settled disposition for exactly one delivery: clients hand ranges to every link of the session."""
    encoded_state = (_ENCODED_STATES.get(type(state)) or encode_composite(state)) if state is not None else b"\x40"
    list_size = 14 + len(encoded_state)  # with its count octet
    role_octet = 0x41 if role else 0x42
    if list_size > 255:
        fields = _pack_long_fields(role_octet, 0x70, delivery_id, 0x70, delivery_id, 0x41) + encoded_state + b"\x42"
        body = b"\x00\x53\x15\xd0" + _pack_sizes(len(fields) + 4, _DISPOSITION_FIELDS) + fields
        return encode_frame(AMQP_FRAME, channel, body)
    return (
        _pack_disposition(
            _FRAME_HEADER_SIZE + 5 + list_size,
            2,
            AMQP_FRAME,
            channel,
            _DISPOSITION_LIST8,
            list_size,
            _DISPOSITION_FIELDS,
            role_octet,
            0x70,
            delivery_id,
            0x70,
            delivery_id,
            0x41,
        )
        + encoded_state
        + b"\x42"
    )


_pack_long_fields = Struct(">BBIBIB").pack
_pack_sizes = Struct(">II").pack
