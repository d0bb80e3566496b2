"""Auto-forward: a function that moves a message from one entity to another of the same namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import BrokerError, EntityNotFound
from .message_queue import HOPS_MAX, Forward, ForwardFailure
from .store import StoredMessage

if TYPE_CHECKING:
    from .namespace import Namespace


def forwarder(namespace: Namespace, source: str, target: str | None, *, dead_letters: bool = False) -> Forward | None:
    """A function that moves one message on to another entity of the namespace, or None where nothing is forwarded.

    What its destination does not take goes to the transfer dead-letter queue (Service Bus: dead-letter queues).
    """
    if target is None:
        return None

    def forward(message: StoredMessage) -> ForwardFailure | None:
        if message.hops >= HOPS_MAX:
            return ForwardFailure(
                reason="MaxTransferHopCountExceeded",
                description=f"The message was forwarded {HOPS_MAX} times already.",
            )
        try:
            namespace.sendable(target).send(
                message.content,
                enqueued_as=message.enqueue_sequence_number or message.sequence_number,
                source=source if dead_letters else message.dead_letter_source,
                hops=message.hops + 1,
            )
        except EntityNotFound as error:
            return ForwardFailure(reason="TransferDestinationNotFound", description=error.description)
        except BrokerError as error:
            return ForwardFailure(reason=error.condition, description=error.description)
        return None

    return forward
