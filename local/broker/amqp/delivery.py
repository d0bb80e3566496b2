"""One delivery, either way, and the assembly of one that arrives in several frames (part 2, section 2.6.12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local.broker.amqp.performatives import DeliveryState, Transfer

if TYPE_CHECKING:
    from local.broker.amqp.link import Link


class Delivery:
    """One message on a link, either way. `payload` is kept for received deliveries only."""

    __slots__ = ("id", "link", "message_format", "payload", "settled", "state", "tag", "user")

    def __init__(
        self,
        link: Link,
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        message_format: int,
        settled: bool,
        state: DeliveryState | None = None,
    ) -> None:
        self.link = link
        self.id = delivery_id
        self.tag = tag
        self.payload = payload
        self.message_format = message_format
        self.settled = settled
        self.state = state
        self.user: Any = None

    def settle(self, state: DeliveryState | None) -> None:
        """Tell the peer the outcome and forget the delivery. A second call, or one after the link is gone, is void."""
        if self.settled:
            return
        self.settled = True
        self.state = state
        self.link.session.settle(self, state)

    def forget(self) -> None:
        """Drop a delivery we sent without a word: later dispositions for it are ignored."""
        self.settled = True
        self.link.session.drop_unsettled(self)


class Assembly:
    """A delivery whose last frame has not arrived. Clients repeat id, tag and format in every frame."""

    __slots__ = ("_payload", "delivery")

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self._payload = bytearray()

    @property
    def size(self) -> int:
        return len(self._payload)

    def fits(self, transfer: Transfer) -> bool:
        """Whether a frame belongs to this delivery; without an id of its own it does."""
        return transfer.delivery_id is None or transfer.delivery_id == self.delivery.id

    def add(self, transfer: Transfer, payload: bytes) -> None:
        self._payload += payload
        if transfer.settled:
            self.delivery.settled = True

    def finish(self) -> Delivery:
        self.delivery.payload = bytes(self._payload)
        return self.delivery
