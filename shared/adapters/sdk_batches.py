"""What the SDK does to send messages, without what it does twice or for nobody.

`ServiceBusMessageBatch.add_message` encodes a message to learn its size and encodes it again to keep it, and nothing
can be taken out afterwards. Here the same parts of the SDK encode it once, and a parcel of several goes in whole or not
at all. `ServiceBusSender.send_messages` asks three times for every message whether anybody traces it, which takes as
long as all the rest of this app's way to the SDK; here that is asked once for each link.

They are private parts of a package whose version is pinned; tests compare the bytes with those of add_message and
send_messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from azure.core.settings import settings
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from azure.servicebus.aio import ServiceBusSender
from azure.servicebus.amqp import AmqpAnnotatedMessage

from shared.adapters.sdk_messages import sdk_message
from shared.domain.message import Outgoing

# A section of the batch costs so much on top of the message in it; AMQP has a shorter form for less than 256 bytes.
_SMALL_BYTES, _SMALL_OVERHEAD, _OVERHEAD = 256, 5, 8


def is_traced() -> bool:
    """Whether each message gets a span of its own, which is the SDK's business."""
    return settings.tracing_implementation() is not None


class _Single:
    """A message on its own, as far as the SDK looks at it from here on."""

    __slots__ = ("_message",)

    def __init__(self, message: AmqpAnnotatedMessage) -> None:
        self._message = PyamqpTransport.to_outgoing_amqp_message(message)


async def transfer(sender: ServiceBusSender, load: Any) -> None:
    """Sends a batch or a message as send_messages does, given that nobody traces it."""
    sender._check_live()  # type: ignore[no-untyped-call]  # the SDK gives it no types
    if not isinstance(load, ServiceBusMessageBatch):
        load = _Single(load.raw_amqp_message if isinstance(load, ServiceBusMessage) else load)
    await sender._do_retryable_operation(
        sender._send,
        message=load,
        timeout=None,
        operation_requires_timeout=True,
        apply_try_timeout=True,
        require_last_exception=True,
    )


class Batch:
    def __init__(self, load: ServiceBusMessageBatch) -> None:
        """`load` is empty, and of the sender that is going to send it."""
        self.load = load
        self._is_traced = is_traced()

    def add(self, parcel: Sequence[Outgoing]) -> bool:
        """Whether the whole parcel fits; nothing of it is added when it does not."""
        natives = [native(message) for message in parcel]
        encoded = list(map(encode, natives))
        load = self.load
        size = load.size_in_bytes + sum(map(_section_bytes, encoded))
        if size > load.max_size_in_bytes:
            return False
        if self._is_traced:
            for one in natives:
                load.add_message(one)
            return True
        if not load:
            first = parcel[0]
            PyamqpTransport.set_batch_envelope_properties(
                load._message, first.message_id, first.session_id, first.partition_key
            )
        load._message[5].extend(encoded)
        load._messages.extend(natives)
        load._size = size
        load._count += len(encoded)
        return True


def encode(message: Any) -> bytearray:
    """A message as it travels inside a batch."""
    annotated = message.raw_amqp_message if isinstance(message, ServiceBusMessage) else message
    encoded = bytearray()
    encode_payload(encoded, PyamqpTransport.to_outgoing_amqp_message(annotated))
    return encoded


def measure(natives: Sequence[Any]) -> int:
    """Bytes that these messages take in a batch of their own, as the SDK itself counts them."""
    return ServiceBusMessageBatch().size_in_bytes + sum(_section_bytes(encode(one)) for one in natives)


def native(message: Outgoing) -> Any:
    return message.native if message.native is not None else sdk_message(message.read())


def _section_bytes(encoded: bytearray) -> int:
    return len(encoded) + (_SMALL_OVERHEAD if len(encoded) < _SMALL_BYTES else _OVERHEAD)
