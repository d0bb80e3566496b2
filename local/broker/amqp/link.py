"""One link and its deliveries, seen from the broker's side (part 2, sections 2.6 and 2.7)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from local.broker.amqp.delivery import Assembly, Delivery
from local.broker.amqp.encoding import encode_uint
from local.broker.amqp.errors import (
    INVALID_FIELD,
    MESSAGE_SIZE_EXCEEDED,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    TRANSFER_LIMIT_EXCEEDED,
    LocalProtocolError,
    SessionFault,
)
from local.broker.amqp.events import DeliveryReceived, LinkDetached, LinkFlow
from local.broker.amqp.frames import MAX_TAG_SIZE
from local.broker.amqp.performatives import (
    RECEIVER,
    SENDER,
    UINT_MAX,
    AmqpError,
    Attach,
    Coordinator,
    Detach,
    Flow,
    Source,
    Target,
    Transfer,
)
from local.broker.amqp.serial import serial_add, serial_difference
from local.broker.amqp.states import LINK_MOVES, LinkMove, LinkState, move
from local.broker.amqp.types import Described

if TYPE_CHECKING:
    from local.broker.amqp.connection import Connection
    from local.broker.amqp.session import Session

__all__ = ["Delivery", "Link"]


class Link:
    """A link the peer attached. `is_sender` is True when we send on it. All state moves are those of LINK_MOVES."""

    __slots__ = (
        "_credit",
        "_delivery_count",
        "_drained_waiting",
        "_partial",
        "_window",
        "connection",
        "drain",
        "encoded_handle",
        "handle",
        "is_sender",
        "name",
        "pending",
        "properties",
        "rcv_settle_mode",
        "refused",
        "remote",
        "session",
        "snd_settle_mode",
        "source",
        "state",
        "target",
        "unsettled_count",
        "user",
    )

    def __init__(self, session: Session, handle: int, remote: Attach) -> None:
        self.session = session
        self.connection: Connection = session.connection
        self.handle = handle
        self.encoded_handle = encode_uint(handle)
        self.remote = remote
        self.name = remote.name
        self.is_sender = remote.role is RECEIVER
        self.source: Source | Described | None = remote.source
        self.target: Target | Coordinator | Described | None = remote.target
        self.properties: dict[Any, Any] = remote.properties or {}
        self.snd_settle_mode = remote.snd_settle_mode
        self.rcv_settle_mode = remote.rcv_settle_mode
        self.state = LinkState.ATTACHING
        self.refused = False
        self.user: Any = None
        self.drain = False
        self.pending: deque[tuple[bytes, bytes]] = deque()
        self.unsettled_count = 0
        self._drained_waiting = False
        self._credit = 0
        self._delivery_count = 0 if self.is_sender else remote.initial_delivery_count or 0
        self._window = 0
        self._partial: Assembly | None = None

    def __repr__(self) -> str:
        return f"<Link {self.name!r} {'out' if self.is_sender else 'in'} {self.state.name}>"

    @property
    def is_gone(self) -> bool:
        """Detached by either side: nothing more can be said on it."""
        return self.state is LinkState.DETACH_SENT or self.state is LinkState.DETACHED

    @property
    def credit(self) -> int:
        """How many deliveries may be sent on it now (by us or, on a receiving link, by the peer); never negative."""
        if self.state is not LinkState.ATTACHED or not self.session.is_usable:
            return 0
        if self.is_sender and self.session.is_backlog_full:
            return 0
        return max(self._credit, 0)

    # ------------------------------------------------------------------------------------------ attach, detach

    def accept(
        self,
        source: Source | Described | None = None,
        target: Target | Coordinator | Described | None = None,
        properties: dict[Any, Any] | None = None,
        max_message_size: int | None = None,
        initial_delivery_count: int = 0,
        offered_capabilities: tuple[str, ...] | None = None,
    ) -> None:
        """Answer the peer's attach, at once or later. What is not given repeats the peer's own words."""
        if self.is_gone:
            return
        self.state = move(LINK_MOVES, self.state, LinkMove.ATTACH_SENT)
        self.source = self.remote.source if source is None else source
        self.target = self.remote.target if target is None else target
        if self.is_sender:
            self._delivery_count = initial_delivery_count
        answer = self._answer()
        answer.source, answer.target = self.source, self.target
        answer.initial_delivery_count = initial_delivery_count if self.is_sender else None
        answer.max_message_size = max_message_size
        answer.offered_capabilities = offered_capabilities
        answer.properties = properties
        self.session.send(answer)
        if self._window:
            self.grant_credit(self._window)

    def _answer(self) -> Attach:
        return Attach(
            name=self.name,
            handle=self.handle,
            role=SENDER if self.is_sender else RECEIVER,
            snd_settle_mode=self.snd_settle_mode,
            rcv_settle_mode=self.rcv_settle_mode,
            initial_delivery_count=0 if self.is_sender else None,
        )

    def refuse(self, error: AmqpError) -> None:
        """Attach with neither source nor target, then detach: how a link is refused (part 2, section 2.6.3)."""
        if self.state is LinkState.ATTACHED:
            raise LocalProtocolError("a link can be refused only before it is accepted; detach it instead")
        self.detach(error)

    def detach(self, error: AmqpError | None = None, closed: bool = True) -> None:
        """End the link from our side; one that was not accepted yet is refused. No event follows: the caller knows."""
        if self.is_gone:
            return
        self.refused = self.state is LinkState.ATTACHING
        # The state moves before anything is written: writing may find that the peer cannot take the frame.
        self.state = move(LINK_MOVES, self.state, LinkMove.DETACH_SENT)
        if self.refused:
            self.session.send(self._answer())
        self.session.send(Detach(self.handle, closed, error))
        self.forget_deliveries()

    def fault(self, condition: str, description: str) -> None:
        """The peer broke a rule of this link: detach it and report."""
        error = AmqpError(condition, description)
        self.detach(error)
        self.connection.emit(LinkDetached(self, error, True))

    def on_detach(self, detach: Detach) -> None:
        before = self.state
        self.state = move(LINK_MOVES, before, LinkMove.DETACH_RECEIVED)
        if before is LinkState.DETACH_SENT:
            return
        if before is LinkState.ATTACHING:
            # Clients drop the connection at a detach of a link they never saw attached.
            self.session.send(self._answer())
        self.session.send(Detach(self.handle, detach.closed))
        self.forget_deliveries()
        self.connection.emit(LinkDetached(self, detach.error, detach.closed))

    def on_session_gone(self) -> None:
        self.state = move(LINK_MOVES, self.state, LinkMove.SESSION_GONE)
        self._drop_partial()
        self.pending.clear()

    def forget_deliveries(self) -> None:
        self._drop_partial()
        self.session.forget_link(self)

    # ------------------------------------------------------------------------------------------ receiving

    def grant_credit(self, total: int) -> None:
        """Let the peer send `total` deliveries from now on."""
        if self.is_sender:
            raise LocalProtocolError("credit is granted on links we receive on")
        if not 0 <= total <= UINT_MAX:
            raise LocalProtocolError(f"{total} is not a link credit")
        if self.state is LinkState.ATTACHED:
            self._credit = total
            self.session.send_flow(self)

    def set_credit_window(self, window: int) -> None:
        """Keep the peer's credit between half of `window` and `window`; 0 stops the topping up."""
        if self.is_sender:
            raise LocalProtocolError("credit is granted on links we receive on")
        if not 0 <= window <= UINT_MAX:
            raise LocalProtocolError(f"{window} is not a link credit")
        self._window = window
        if window and self._credit <= window >> 1:
            self.grant_credit(window)

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        if self.state is not LinkState.ATTACHED:
            if self.state is LinkState.ATTACHING:
                self.fault(TRANSFER_LIMIT_EXCEEDED, "a transfer on a link that is not attached yet")
            return
        if self.is_sender:
            raise SessionFault("a transfer on a link whose sender is this side", NOT_ALLOWED)
        if self._partial is None and not (transfer.more or transfer.aborted or transfer.resume):
            delivery = self._first_frame(transfer, payload)
            if delivery is not None:
                self._complete(delivery)
            return
        self._on_partial_transfer(transfer, payload)

    def _first_frame(self, transfer: Transfer, payload: bytes) -> Delivery | None:
        if transfer.delivery_id is None:
            self.fault(INVALID_FIELD, "the first transfer of a delivery has no delivery-id")
            return None
        if len(payload) > self.connection.limits.max_message_size:
            self._fault_size()
            return None
        return Delivery(
            self,
            transfer.delivery_id,
            transfer.delivery_tag or b"",
            payload,
            transfer.message_format or 0,
            transfer.settled or False,
            transfer.state,
        )

    def _on_partial_transfer(self, transfer: Transfer, payload: bytes) -> None:
        """A frame of a delivery that takes several, or that ends early."""
        if transfer.resume:
            self.fault(NOT_IMPLEMENTED, "resuming deliveries is not supported")
            return
        if self._partial is not None and not self._partial.fits(transfer):
            unfinished = self._partial.delivery.id
            self.fault(INVALID_FIELD, f"delivery {transfer.delivery_id} began before {unfinished} was complete")
            return
        if transfer.aborted:
            self._drop_partial()
            self._count_delivery()
            return
        if self._partial is None:
            delivery = self._first_frame(transfer, b"")
            if delivery is None:
                return
            self._partial = Assembly(delivery)
        if self._keep(self._partial, transfer, payload) and not transfer.more:
            delivery = self._partial.finish()
            self._drop_partial()
            self._complete(delivery)

    def _keep(self, partial: Assembly, transfer: Transfer, payload: bytes) -> bool:
        connection = self.connection
        partial.add(transfer, payload)
        connection.partial_bytes += len(payload)
        if partial.size > connection.limits.max_message_size:
            self._fault_size()
            return False
        if connection.partial_bytes > connection.limits.max_partial_bytes:
            self.fault(RESOURCE_LIMIT_EXCEEDED, "too many octets of unfinished deliveries on this connection")
            return False
        return True

    def _fault_size(self) -> None:
        limit = self.connection.limits.max_message_size
        self.fault(MESSAGE_SIZE_EXCEEDED, f"the message is larger than {limit} octets")

    def _drop_partial(self) -> None:
        if self._partial is not None:
            self.connection.partial_bytes -= self._partial.size
            self._partial = None

    def _complete(self, delivery: Delivery) -> None:
        self.connection.emit(DeliveryReceived(self, delivery))
        self._count_delivery()

    def _count_delivery(self) -> None:
        self._delivery_count = serial_add(self._delivery_count, 1)
        self._credit -= 1
        if self._window:
            if self._credit <= self._window >> 1:
                self.grant_credit(self._window)
        elif self._credit < -self.connection.limits.credit_overrun:
            self.fault(TRANSFER_LIMIT_EXCEEDED, "far more deliveries than there was credit for")

    # ------------------------------------------------------------------------------------------ sending

    def send(self, payload: bytes, tag: bytes, settled: bool = False, message_format: int = 0) -> Delivery:
        """Send one message, in as many frames as the peer's frame size asks for. Needs credit."""
        if not self.is_sender:
            raise LocalProtocolError("the peer sends on this link")
        if self.credit <= 0:
            raise LocalProtocolError("no credit on this link")
        if len(tag) > MAX_TAG_SIZE:
            raise LocalProtocolError(f"a delivery-tag of {len(tag)} octets; {MAX_TAG_SIZE} is the limit")
        self._credit -= 1
        self._delivery_count = serial_add(self._delivery_count, 1)
        return self.session.transmit(self, payload, tag, settled, message_format)

    def drained(self) -> None:
        """Answer a drain: give back the credit there was nothing to send for."""
        if not self.is_sender:
            raise LocalProtocolError("the peer sends on this link")
        if not self.drain or self.state is not LinkState.ATTACHED:
            return
        if self.pending:
            self._drained_waiting = True  # the answer must not overtake transfers that wait for the session window
            return
        self._drained_waiting = False
        self._delivery_count = serial_add(self._delivery_count, max(self._credit, 0))
        self._credit = 0
        self.session.send_flow(self)
        self.drain = False

    def on_pending_sent(self) -> None:
        if self._drained_waiting:
            self.drained()

    def on_flow(self, flow: Flow) -> None:
        if self.is_gone:
            return
        if self.is_sender:
            self._on_receiver_flow(flow)
        elif flow.delivery_count is not None:
            self._on_sender_count(flow.delivery_count)
        if self.state is LinkState.ATTACHED:
            if self.is_sender:
                self.connection.emit(LinkFlow(self))
            if flow.echo:
                self.session.send_flow(self)

    def _on_receiver_flow(self, flow: Flow) -> None:
        """Credit as in part 2, section 2.6.7. The peer may not have seen our latest deliveries: it can be negative."""
        if flow.link_credit is not None:
            seen = flow.delivery_count if flow.delivery_count is not None else self._delivery_count
            self._credit = flow.link_credit - serial_difference(self._delivery_count, seen)
        self.drain = flow.drain

    def _on_sender_count(self, count: int) -> None:
        """The peer moved its delivery-count ahead: credit it will not use is gone."""
        ahead = serial_difference(count, self._delivery_count)
        if ahead > 0:
            self._delivery_count = count
            self._credit -= ahead
            if self._window and self._credit <= self._window >> 1 and self.state is LinkState.ATTACHED:
                self.grant_credit(self._window)

    def flow_fields(self) -> tuple[int, int, bool]:
        """delivery-count, link-credit and drain as a flow of ours states them."""
        return self._delivery_count, min(max(self._credit, 0), UINT_MAX), self.drain
