"""Counts the AMQP frames in a stream of bytes, for the fault that resets a connection after so many."""

from __future__ import annotations

_SIZE_BYTES = 4
#: A protocol header takes eight octets and begins with its name; no frame is that large.
_HEADER_NAME = b"AMQP"
_HEADER_BYTES = 8


class FrameMeter:
    """`count` = frames that have begun."""

    __slots__ = ("_left", "_size", "count")

    def __init__(self) -> None:
        self.count = 0
        self._left = 0
        self._size = b""

    def feed(self, data: bytes) -> None:
        position, end = 0, len(data)
        while position < end:
            if self._left:
                step = min(self._left, end - position)
                self._left -= step
                position += step
                continue
            missing = _SIZE_BYTES - len(self._size)
            self._size += data[position : position + missing]
            position += missing
            if len(self._size) == _SIZE_BYTES:
                self._begin(self._size)
                self._size = b""

    def _begin(self, size: bytes) -> None:
        if size == _HEADER_NAME:
            self._left = _HEADER_BYTES - _SIZE_BYTES
            return
        self.count += 1
        # A size below its own four octets is malformed; the connection fails over it, there is nothing left to count.
        self._left = max(int.from_bytes(size, "big") - _SIZE_BYTES, 0)
