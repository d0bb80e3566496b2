"""AMQP 1.0, server side, without I/O: bytes in, events out.

    connection = Connection(container_id="broker")
    for event in connection.receive_data(data): ...
    transport.write(connection.data_to_send())

connection.py, session.py and link.py hold the machine; states.py every state and move; errors.py says whose fault a
failure is; performatives.py, fields.py, codec.py the wire types; message.py the sections of a message.
"""

from local.broker.amqp.codec import decode, encode, skip
from local.broker.amqp.connection import Connection
from local.broker.amqp.delivery import Delivery
from local.broker.amqp.errors import AmqpProtocolError, DecodeError, EncodeError, LocalProtocolError
from local.broker.amqp.events import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    DeliveryReceived,
    DeliveryUpdated,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    SessionEnded,
)
from local.broker.amqp.limits import Limits
from local.broker.amqp.link import Link
from local.broker.amqp.message import BATCH_MESSAGE_FORMAT, RawMessage, split_batch
from local.broker.amqp.performatives import AmqpError
from local.broker.amqp.session import Session
from local.broker.amqp.states import ConnectionState, LinkState, SessionState

__all__ = [
    "BATCH_MESSAGE_FORMAT",
    "AmqpError",
    "AmqpProtocolError",
    "Connection",
    "ConnectionClosed",
    "ConnectionFailed",
    "ConnectionOpened",
    "ConnectionState",
    "DecodeError",
    "Delivery",
    "DeliveryReceived",
    "DeliveryUpdated",
    "EncodeError",
    "Event",
    "Limits",
    "Link",
    "LinkAttached",
    "LinkDetached",
    "LinkFlow",
    "LinkState",
    "LocalProtocolError",
    "RawMessage",
    "Session",
    "SessionEnded",
    "SessionState",
    "decode",
    "encode",
    "skip",
    "split_batch",
]
