"""One session: its links by handle, its windows, and transfers that wait for the peer's (part 2, section 2.5)."""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING

from local.broker.amqp.delivery import Delivery
from local.broker.amqp.errors import (
    FRAMING_ERROR,
    HANDLE_IN_USE,
    INVALID_FIELD,
    LINK_STOLEN,
    RESOURCE_LIMIT_EXCEEDED,
    UNATTACHED_HANDLE,
    RemoteProtocolError,
    SessionFault,
)
from local.broker.amqp.events import DeliveryUpdated, LinkAttached, LinkFlow, SessionEnded
from local.broker.amqp.frames import encode_disposition, encode_transfers, transfer_head
from local.broker.amqp.link import Link
from local.broker.amqp.performatives import (
    RECEIVER,
    SENDER,
    AmqpError,
    Attach,
    Begin,
    DeliveryState,
    Detach,
    Disposition,
    End,
    Flow,
    Performative,
    Transfer,
)
from local.broker.amqp.serial import serial_add, serial_difference
from local.broker.amqp.states import SESSION_MOVES, LinkState, SessionMove, SessionState, move

if TYPE_CHECKING:
    from local.broker.amqp.connection import Connection

#: What we announce as our outgoing-window: how much we send is decided by the peer's incoming-window alone.
_OUTGOING_WINDOW = 2_147_483_647


class Session:
    """A session the peer began. `channel` is the one we send on."""

    __slots__ = (
        "_backlog_bytes",
        "_blocked",
        "_by_handle",
        "_by_name",
        "_flow_due",
        "_free_handles",
        "_handles_used",
        "_incoming_left",
        "_next_delivery_id",
        "_next_incoming_id",
        "_next_outgoing_id",
        "_remote_handle_max",
        "_remote_window",
        "channel",
        "connection",
        "state",
        "unsettled",
    )

    def __init__(self, connection: Connection, channel: int, begin: Begin) -> None:
        self.connection = connection
        self.channel = channel
        self.state = SessionState.MAPPED
        #: Deliveries we sent and the peer has not settled, by delivery-id, oldest first.
        self.unsettled: dict[int, Delivery] = {}
        self._by_handle: dict[int, Link] = {}
        self._by_name: dict[tuple[str, bool], Link] = {}
        self._free_handles: list[int] = []
        self._handles_used = 0
        self._remote_handle_max = begin.handle_max
        self._next_incoming_id = begin.next_outgoing_id
        self._incoming_left = connection.limits.incoming_window
        self._flow_due = connection.limits.incoming_window >> 1
        self._next_outgoing_id = 0
        self._next_delivery_id = 0
        self._remote_window = begin.incoming_window
        #: Links with transfers that wait for the peer's window, in turn; the transfers are in link.pending.
        self._blocked: deque[Link] = deque()
        self._backlog_bytes = 0

    @property
    def links(self) -> list[Link]:
        """The links that are attached or about to be."""
        return [link for link in self._by_handle.values() if not link.is_gone]

    @property
    def is_usable(self) -> bool:
        return self.state is SessionState.MAPPED and self.connection.is_open

    @property
    def is_backlog_full(self) -> bool:
        return self._backlog_bytes >= self.connection.limits.max_backlog_bytes

    def send(self, performative: Performative) -> None:
        if self.state is SessionState.MAPPED:
            self.connection.send(self.channel, performative)

    def begin(self, remote_channel: int) -> None:
        limits = self.connection.limits
        self.send(
            Begin(
                remote_channel, self._next_outgoing_id, limits.incoming_window, _OUTGOING_WINDOW, limits.max_handles - 1
            )
        )

    # ------------------------------------------------------------------------------------------ ending

    def end(self, error: AmqpError | None = None) -> None:
        """End the session from our side. What the peer still sends on it is dropped until its end arrives."""
        if self.state is not SessionState.MAPPED:
            return
        self.state = move(SESSION_MOVES, self.state, SessionMove.END_SENT)
        self.connection.send(self.channel, End(error))

    def fail(self, error: AmqpError) -> None:
        """The peer broke a rule of this session: end it and report."""
        links = self.links
        self.end(error)
        self.release_links()
        self.connection.emit(SessionEnded(self, links, error))

    def on_end(self, end: End) -> None:
        links = self.links
        reported = self.state is SessionState.END_SENT and not links
        if self.state is SessionState.MAPPED:
            self.send(End())
        self.state = move(SESSION_MOVES, self.state, SessionMove.END_RECEIVED)
        self.release_links()
        if not reported:
            self.connection.emit(SessionEnded(self, links, end.error))

    def on_connection_gone(self) -> None:
        self.state = move(SESSION_MOVES, self.state, SessionMove.CONNECTION_GONE)
        self.release_links()

    def release_links(self) -> None:
        for link in self._by_handle.values():
            link.on_session_gone()
        self._by_handle.clear()
        self._by_name.clear()
        self.unsettled.clear()
        self._blocked.clear()
        self._backlog_bytes = 0

    # ------------------------------------------------------------------------------------------ links

    def on_attach(self, attach: Attach) -> None:
        limits = self.connection.limits
        if attach.handle >= limits.max_handles:
            raise RemoteProtocolError(f"handle {attach.handle} is above handle-max", FRAMING_ERROR)
        old = self._by_handle.get(attach.handle)
        if old is not None:
            if not (old.refused and old.is_gone):
                raise SessionFault(f"handle {attach.handle} is in use", HANDLE_IN_USE)
            self._unmap(attach.handle, old)  # the Python client never answers the detach of a refused link
        key = (attach.name, attach.role)
        stolen = self._by_name.get(key)
        if stolen is not None and not stolen.is_gone:
            stolen.fault(LINK_STOLEN, "a link of the same name was attached")
        link = Link(self, self._take_handle(), attach)
        self._by_handle[attach.handle] = self._by_name[key] = link
        self.connection.emit(LinkAttached(link))

    def on_detach(self, detach: Detach) -> None:
        link = self._link(detach.handle)
        link.on_detach(detach)
        if self.state is SessionState.MAPPED:
            self._unmap(detach.handle, link)

    def _link(self, handle: int) -> Link:
        link = self._by_handle.get(handle)
        if link is None:
            raise SessionFault(f"no link is attached to handle {handle}", UNATTACHED_HANDLE)
        return link

    def _take_handle(self) -> int:
        if self._free_handles:
            return heapq.heappop(self._free_handles)
        if self._handles_used > self._remote_handle_max:
            raise SessionFault("no handle is left within the peer's handle-max", RESOURCE_LIMIT_EXCEEDED)
        self._handles_used += 1
        return self._handles_used - 1

    def _unmap(self, remote_handle: int, link: Link) -> None:
        del self._by_handle[remote_handle]
        key = (link.name, link.remote.role)
        if self._by_name.get(key) is link:
            del self._by_name[key]
        heapq.heappush(self._free_handles, link.handle)

    def forget_link(self, link: Link) -> None:
        """A link is going: its unsent transfers and its unsettled deliveries go with it."""
        if link.pending:
            self._backlog_bytes -= sum(len(frame) + len(part) for frame, part in link.pending)
            link.pending.clear()
            self._blocked.remove(link)
        if link.unsettled_count:
            self.unsettled = {key: item for key, item in self.unsettled.items() if item.link is not link}
            link.unsettled_count = 0

    # ------------------------------------------------------------------------------------------ flow

    def on_flow(self, flow: Flow) -> None:
        self._next_incoming_id = flow.next_outgoing_id
        seen = flow.next_incoming_id if flow.next_incoming_id is not None else 0
        self._remote_window = max(flow.incoming_window - serial_difference(self._next_outgoing_id, seen), 0)
        if self._blocked:
            self._pump()
        if flow.handle is not None:
            self._link(flow.handle).on_flow(flow)
        elif flow.echo:
            self.send_flow()

    def send_flow(self, link: Link | None = None) -> None:
        """State our window and, with a link, its credit. Every flow reopens the incoming window."""
        window = self.connection.limits.incoming_window
        flow = Flow(self._next_incoming_id, window, self._next_outgoing_id, _OUTGOING_WINDOW)
        if link is not None:
            flow.handle = link.handle
            flow.delivery_count, flow.link_credit, flow.drain = link.flow_fields()
        self.send(flow)
        self._incoming_left = window

    # ------------------------------------------------------------------------------------------ receiving

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        # The Python client counts deliveries, not frames, against the window: it is a hint to it, never enforced.
        self._next_incoming_id = serial_add(self._next_incoming_id, 1)
        self._incoming_left -= 1
        self._link(transfer.handle).on_transfer(transfer, payload)
        if self._incoming_left <= self._flow_due:
            self.send_flow()

    def on_disposition(self, disposition: Disposition) -> None:
        """The peer's word on deliveries we sent. Its word on its own deliveries changes nothing: we settle at once."""
        if disposition.role is not RECEIVER:
            return
        first = disposition.first
        span = serial_difference(first if disposition.last is None else disposition.last, first)
        if span < 0:
            raise SessionFault("a disposition whose last delivery comes before its first", INVALID_FIELD)
        unsettled = self.unsettled
        if span < len(unsettled):
            ids = [serial_add(first, step) for step in range(span + 1)]
        else:
            ids = [key for key in unsettled if 0 <= serial_difference(key, first) <= span]
        for delivery_id in ids:
            delivery = unsettled.get(delivery_id)
            if delivery is not None:
                self._update(delivery, disposition)

    def _update(self, delivery: Delivery, disposition: Disposition) -> None:
        if disposition.settled:
            delivery.settled = True
            delivery.state = disposition.state
            self.drop_unsettled(delivery)
        self.connection.emit(DeliveryUpdated(delivery.link, delivery, disposition.state, disposition.settled))

    # ------------------------------------------------------------------------------------------ sending

    def transmit(self, link: Link, payload: bytes, tag: bytes, settled: bool, message_format: int) -> Delivery:
        """Send a delivery, or let it wait behind others and for the peer's window."""
        delivery_id = self._next_delivery_id
        self._next_delivery_id = serial_add(delivery_id, 1)
        delivery = Delivery(link, delivery_id, tag, b"", message_format, settled)
        if not settled:
            self._remember(delivery)
        head = transfer_head(link.encoded_handle, delivery_id, tag, message_format)
        frames = encode_transfers(self.channel, head, payload, self.connection.remote_max_frame_size, settled)
        if len(frames) <= self._remote_window and not self._blocked:
            for frame, part in frames:
                self._write_transfer(frame, part)
            return delivery
        if not link.pending:
            self._blocked.append(link)
        link.pending.extend(frames)
        self._backlog_bytes += sum(len(frame) + len(part) for frame, part in frames)
        self._pump()
        return delivery

    def _write_transfer(self, frame: bytes, part: bytes) -> None:
        self._remote_window -= 1
        self._next_outgoing_id = serial_add(self._next_outgoing_id, 1)
        self.connection.write(frame)
        self.connection.write(part)

    def _pump(self) -> None:
        """Send waiting transfers while the window lasts, one frame per link in turn, so that none starves."""
        was_full = self.is_backlog_full
        while self._blocked and self._remote_window > 0:
            link = self._blocked.popleft()
            frame, part = link.pending.popleft()
            self._backlog_bytes -= len(frame) + len(part)
            self._write_transfer(frame, part)
            if link.pending:
                self._blocked.append(link)
            else:
                link.on_pending_sent()
        if was_full and not self.is_backlog_full:
            for link in self.links:
                if link.is_sender and link.credit:
                    self.connection.emit(LinkFlow(link))

    def _remember(self, delivery: Delivery) -> None:
        if len(self.unsettled) >= self.connection.limits.max_unsettled:
            oldest = self.unsettled.pop(next(iter(self.unsettled)))
            oldest.settled = True
            oldest.link.unsettled_count -= 1
        self.unsettled[delivery.id] = delivery
        delivery.link.unsettled_count += 1

    def drop_unsettled(self, delivery: Delivery) -> None:
        if self.unsettled.get(delivery.id) is delivery:
            del self.unsettled[delivery.id]
            delivery.link.unsettled_count -= 1

    def settle(self, delivery: Delivery, state: DeliveryState | None) -> None:
        """One disposition for one delivery, in the role that its direction gives us."""
        link = delivery.link
        if link.is_sender:
            self.drop_unsettled(delivery)
        if link.state is LinkState.ATTACHED and self.state is SessionState.MAPPED:
            role = SENDER if link.is_sender else RECEIVER
            self.connection.write_frame(encode_disposition(self.channel, role, delivery.id, state))
