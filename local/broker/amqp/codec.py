"""AMQP 1.0 values to and from bytes: the public face of decoding.py and encoding.py."""

from local.broker.amqp.decoding import MAX_COMPOUND_COUNT, MAX_NESTING, MAX_WIDTHLESS_ELEMENTS, decode, skip
from local.broker.amqp.encoding import encode
from local.broker.amqp.errors import DecodeError, EncodeError

__all__ = [
    "MAX_COMPOUND_COUNT",
    "MAX_NESTING",
    "MAX_WIDTHLESS_ELEMENTS",
    "DecodeError",
    "EncodeError",
    "decode",
    "encode",
    "skip",
]
