"""SASL as far as Service Bus clients use it (part 5, section 5.3): a mechanism is named, no challenge follows.

Who the peer is gets settled later, by tokens put on $cbs; ANONYMOUS, MSSBCBS and EXTERNAL all mean just that.
"""

from __future__ import annotations

from collections.abc import Sequence

from local.broker.amqp.errors import DecodeError
from local.broker.amqp.frames import SASL_FRAME, encode_frame
from local.broker.amqp.performatives import SaslInit, SaslMechanisms, SaslOutcome, decode_composite, encode_composite

OUTCOME_OK, OUTCOME_AUTH = 0, 1


def mechanisms_frame(mechanisms: Sequence[str]) -> bytes:
    return encode_frame(SASL_FRAME, 0, encode_composite(SaslMechanisms(tuple(mechanisms))))


def outcome_frame(code: int) -> bytes:
    return encode_frame(SASL_FRAME, 0, encode_composite(SaslOutcome(code)))


def read_init(buffer: bytes, start: int, end: int) -> SaslInit:
    """The client's choice; anything else in its place (a response without a challenge, say) is refused."""
    init, pos = decode_composite(buffer, start)
    if not isinstance(init, SaslInit) or pos != end:
        raise DecodeError("sasl-init was due")
    return init
