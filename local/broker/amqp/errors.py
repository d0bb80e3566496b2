"""What can go wrong, and whose fault it was.

AmqpProtocolError
  LocalProtocolError     we (the code driving the engine) asked for something the protocol does not allow
    EncodeError          a Python value has no AMQP form
  RemoteProtocolError    the peer broke a rule; carries the AMQP condition to answer with; never leaves receive_data
    DecodeError          the peer's bytes are not AMQP
    SessionFault         the fault concerns one session only: it ends, the connection lives on
"""

from __future__ import annotations

DECODE_ERROR = "amqp:decode-error"
FRAMING_ERROR = "amqp:connection:framing-error"
FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small"
ILLEGAL_STATE = "amqp:illegal-state"
INVALID_FIELD = "amqp:invalid-field"
NOT_ALLOWED = "amqp:not-allowed"
NOT_IMPLEMENTED = "amqp:not-implemented"
RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
UNAUTHORIZED_ACCESS = "amqp:unauthorized-access"
HANDLE_IN_USE = "amqp:session:handle-in-use"
UNATTACHED_HANDLE = "amqp:session:unattached-handle"
LINK_STOLEN = "amqp:link:stolen"
MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded"


class AmqpProtocolError(Exception):
    """Base: never raised itself."""


class LocalProtocolError(AmqpProtocolError):
    """The caller used the engine against the protocol."""


class EncodeError(LocalProtocolError, ValueError):
    """The value cannot be written as AMQP."""


class RemoteProtocolError(AmqpProtocolError):
    """The peer broke the protocol; `condition` is what it will be told."""

    def __init__(self, description: str, condition: str = ILLEGAL_STATE) -> None:
        super().__init__(description)
        self.condition = condition
        self.description = description


class DecodeError(RemoteProtocolError, ValueError):
    """The bytes are not a valid AMQP value, performative or message."""

    def __init__(self, description: str, condition: str = DECODE_ERROR) -> None:
        super().__init__(description, condition)


class SessionFault(RemoteProtocolError):
    """The peer broke a rule of one session, which is ended with `condition`."""
