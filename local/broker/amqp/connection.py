"""The connection: headers, SASL, open and close, sessions by channel, time-outs (part 2, sections 2.2 and 2.4).

Bytes in (receive_data), events out; bytes to send pile up until data_to_send takes them. Nothing here reads a clock
or a socket. A peer's mistake never raises: it becomes the AMQP error it deserves, and an event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from local.broker.amqp import sasl
from local.broker.amqp.errors import (
    FRAME_SIZE_TOO_SMALL,
    FRAMING_ERROR,
    ILLEGAL_STATE,
    INVALID_FIELD,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
    DecodeError,
    RemoteProtocolError,
    SessionFault,
)
from local.broker.amqp.events import ConnectionClosed, ConnectionFailed, ConnectionOpened, Event
from local.broker.amqp.frames import (
    AMQP_FRAME,
    AMQP_HEADER,
    EMPTY_FRAME,
    MIN_MAX_FRAME_SIZE,
    SASL_FRAME,
    SASL_HEADER,
    Frame,
    FramingError,
    ReceiveBuffer,
    encode_frame,
)
from local.broker.amqp.limits import Limits
from local.broker.amqp.link import Link
from local.broker.amqp.performatives import (
    AmqpError,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
    decode_composite,
    encode_composite,
)
from local.broker.amqp.session import Session
from local.broker.amqp.states import CONNECTION_MOVES, ConnectionMove, ConnectionState, SessionState, move
from local.broker.amqp.timeouts import Timeouts

#: Largest frame we send, whatever the peer allows: large messages of several links then interleave.
_MAX_OUTGOING_FRAME = 1024 * 1024
#: What is kept of an error's description when the whole does not fit the peer's frame size.
_SHORT_DESCRIPTION = 100

_HEADER_STATES = frozenset((ConnectionState.START, ConnectionState.AUTHENTICATED))
_BEFORE_AMQP = frozenset((ConnectionState.START, ConnectionState.SASL, ConnectionState.AUTHENTICATED))

_SESSION_HANDLERS: dict[type, Callable[[Session, Any], None]] = {
    Attach: Session.on_attach,
    Flow: Session.on_flow,
    Disposition: Session.on_disposition,
    Detach: Session.on_detach,
}


class Connection:
    """The server side of one AMQP connection."""

    def __init__(
        self,
        *,
        container_id: str,
        max_frame_size: int = 65_536,
        channel_max: int = 255,
        idle_timeout_ms: int | None = None,
        sasl_mechanisms: Sequence[str] = ("ANONYMOUS", "MSSBCBS", "EXTERNAL"),
        limits: Limits | None = None,
    ) -> None:
        self.container_id = container_id
        self.limits = limits or Limits()
        self.max_frame_size = max_frame_size
        self.channel_max = min(channel_max, self.limits.max_sessions - 1)
        self.idle_timeout_ms = idle_timeout_ms
        self.sasl_mechanisms = tuple(sasl_mechanisms)
        #: The mechanism the peer chose; None when it came without SASL.
        self.sasl_mechanism: str | None = None
        self.hostname: str | None = None
        self.remote_container_id = ""
        self.remote_properties: dict[Any, Any] = {}
        self.remote_max_frame_size = MIN_MAX_FRAME_SIZE
        #: Octets of unfinished multi-frame deliveries on all links.
        self.partial_bytes = 0
        self.user: Any = None
        self._remote_channel_max = 0
        self._state = ConnectionState.START
        self._buffer = ReceiveBuffer(max_frame_size)
        self._output: list[bytes] = []
        self._events: list[Event] = []
        self._end_reported = False
        self._sessions: dict[int, Session] = {}
        self._channels_in_use: set[int] = set()
        self._timeouts = Timeouts(
            open_seconds=self.limits.open_seconds,
            close_seconds=self.limits.close_seconds,
            idle_timeout_ms=idle_timeout_ms,
        )

    # ------------------------------------------------------------------------------------------ for the shell

    @property
    def state(self) -> ConnectionState:
        return self._state

    @property
    def is_open(self) -> bool:
        return self._state is ConnectionState.OPENED

    @property
    def closed(self) -> bool:
        """Nothing more will be said or heard: close the socket once data_to_send is flushed."""
        return self._state is ConnectionState.CLOSED

    @property
    def links(self) -> list[Link]:
        return [link for session in self._sessions.values() for link in session.links]

    def receive_data(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Take what arrived on the socket. Never raises for what the peer did."""
        if self.closed:
            return self._take_events()
        self._timeouts.on_received()
        self._buffer.feed(data)
        while not self.closed:
            try:
                if not self._step():
                    break
            except FramingError as fault:
                self._fail(fault.condition, fault.description, readable=False)
            except RemoteProtocolError as fault:
                self._fail(fault.condition, fault.description, readable=True)
        return self._take_events()

    def receive_eof(self) -> list[Event]:
        """The socket ended or broke. Gives the final event, unless it was given before."""
        self._lose()
        self._report_end(ConnectionClosed(None, []))
        return self._take_events()

    def data_to_send(self) -> bytes:
        output = self._output
        if not output:
            return b""
        self._output = []
        self._timeouts.on_sent()
        return output[0] if len(output) == 1 else b"".join(output)

    def tick(self, now: float) -> float | None:
        """Act on time: heartbeats, silence, a handshake or a close that takes too long. Gives the next time to call.

        After a time-out `closed` is True; receive_eof then gives the final event.
        """
        verdict = self._timeouts.tick(now, self._state)
        if verdict.expired is not None:
            self._fail(RESOURCE_LIMIT_EXCEEDED, verdict.expired, readable=False)
            return None
        if verdict.heartbeat_due:
            self.write(EMPTY_FRAME)
        return None if self.closed else verdict.next_call

    def close(self, error: AmqpError | None = None) -> None:
        """Close from our side. The final event follows when the peer answers, the socket ends or time runs out."""
        if self._state in (ConnectionState.CLOSE_SENT, ConnectionState.CLOSED):
            return
        if self._state in _BEFORE_AMQP:
            self._lose()
            return
        self._send_close(error)

    # ------------------------------------------------------------------------------------------ for sessions, links

    def emit(self, event: Event) -> None:
        self._events.append(event)

    def write(self, octets: bytes) -> None:
        if self._state is ConnectionState.OPENED:
            self._output.append(octets)

    def write_frame(self, frame: bytes) -> None:
        """Send a frame made by the caller, unless the peer cannot take one so large."""
        if len(frame) > self.remote_max_frame_size:
            self._fail(FRAME_SIZE_TOO_SMALL, f"a frame of {len(frame)} octets was due", readable=True)
            return
        self.write(frame)

    def send(self, channel: int, performative: Performative) -> None:
        self.write_frame(encode_frame(AMQP_FRAME, channel, encode_composite(performative)))

    # ------------------------------------------------------------------------------------------ input

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _step(self) -> bool:
        """Handle one header or frame; False when more input is needed."""
        if self._state in _HEADER_STATES:
            header = self._buffer.take_header()
            if header is None:
                return False
            self._on_header(header)
            return True
        frame = self._buffer.next_frame()
        if frame is None:
            return False
        if self._state is ConnectionState.OPENED and frame.kind == AMQP_FRAME:
            self._on_amqp_frame(frame)
        elif self._state is ConnectionState.SASL:
            self._on_sasl_frame(frame)
        elif frame.kind != AMQP_FRAME:
            raise FramingError(f"a frame of type {frame.kind} where AMQP frames are due")
        elif self._state is ConnectionState.HEADERS_EXCHANGED:
            self._on_first_frame(frame)
        else:
            self._on_frame_after_close(frame)
        return True

    def _on_header(self, header: bytes) -> None:
        if header == SASL_HEADER and self._state is ConnectionState.START:
            self._state = move(CONNECTION_MOVES, self._state, ConnectionMove.SASL_HEADER)
            self._output += (SASL_HEADER, sasl.mechanisms_frame(self.sasl_mechanisms))
        elif header == AMQP_HEADER:
            self._state = move(CONNECTION_MOVES, self._state, ConnectionMove.AMQP_HEADER)
            self._output.append(AMQP_HEADER)
        else:
            # Part 2, section 2.2: answer with a header we do support, then close.
            is_amqp = header[:5] == AMQP_HEADER[:5] or self._state is ConnectionState.AUTHENTICATED
            self._output.append(AMQP_HEADER if is_amqp else SASL_HEADER)
            raise FramingError(f"unsupported protocol header {header.hex()}")

    def _on_sasl_frame(self, frame: Frame) -> None:
        if frame.kind != SASL_FRAME:
            raise FramingError(f"a frame of type {frame.kind} where SASL frames are due")
        init = sasl.read_init(frame.buffer, frame.start, frame.end)
        self.sasl_mechanism = init.mechanism
        if init.mechanism not in self.sasl_mechanisms:
            self._output.append(sasl.outcome_frame(sasl.OUTCOME_AUTH))
            raise RemoteProtocolError(f"SASL mechanism {init.mechanism!r} is not offered", UNAUTHORIZED_ACCESS)
        self._state = move(CONNECTION_MOVES, self._state, ConnectionMove.SASL_ACCEPTED)
        self._output.append(sasl.outcome_frame(sasl.OUTCOME_OK))

    def _on_first_frame(self, frame: Frame) -> None:
        if frame.start == frame.end:
            return
        opened = self._read(frame)
        if not isinstance(opened, Open):
            raise RemoteProtocolError("open must be the first frame", ILLEGAL_STATE)
        if frame.channel != 0:
            raise RemoteProtocolError("open belongs on channel 0", NOT_ALLOWED)
        if opened.max_frame_size < MIN_MAX_FRAME_SIZE:
            raise RemoteProtocolError(f"max-frame-size is below {MIN_MAX_FRAME_SIZE}", INVALID_FIELD)
        self.hostname = opened.hostname
        self.remote_container_id = opened.container_id
        self.remote_properties = opened.properties or {}
        self.remote_max_frame_size = min(opened.max_frame_size, _MAX_OUTGOING_FRAME)
        self._remote_channel_max = opened.channel_max
        self._timeouts.on_open(opened.idle_time_out)
        self._state = move(CONNECTION_MOVES, self._state, ConnectionMove.OPEN_RECEIVED)
        self._send_open()
        self.emit(ConnectionOpened(self))

    def _on_amqp_frame(self, frame: Frame) -> None:
        if frame.start == frame.end:
            return  # a heartbeat
        performative, end = decode_composite(frame.buffer, frame.start)
        kind = type(performative)
        if kind is Transfer:
            if end > frame.end:
                raise DecodeError("a transfer reaches beyond its frame")
            self._on_session_frame(frame.channel, Session.on_transfer, performative, frame.buffer[end : frame.end])
            return
        if end != frame.end:
            raise DecodeError("a performative does not end where its frame does")
        handler = _SESSION_HANDLERS.get(kind)
        if handler is not None:
            self._on_session_frame(frame.channel, handler, performative)
        elif kind is Begin:
            self._on_begin(frame.channel, performative)
        elif kind is End:
            self._on_end(frame.channel, performative)
        elif kind is Close:
            self._on_close(performative)
        elif kind is Open:
            move(CONNECTION_MOVES, self._state, ConnectionMove.OPEN_RECEIVED)
        else:
            raise DecodeError(f"{kind.__name__.lower()} is not a frame body")

    def _read(self, frame: Frame) -> Any:
        performative, end = decode_composite(frame.buffer, frame.start)
        if end != frame.end:
            raise DecodeError("a performative does not end where its frame does")
        return performative

    def _on_session_frame(self, channel: int, handler: Callable[..., None], *arguments: Any) -> None:
        session = self._sessions.get(channel)
        if session is None:
            raise RemoteProtocolError(f"no session on channel {channel}", NOT_ALLOWED)
        if session.state is not SessionState.MAPPED:
            return  # we ended it; the peer does not know yet
        try:
            handler(session, *arguments)
        except SessionFault as fault:
            session.fail(AmqpError(fault.condition, fault.description))

    def _on_begin(self, channel: int, begin: Begin) -> None:
        if channel > self.channel_max:
            raise RemoteProtocolError(f"channel {channel} is above channel-max", FRAMING_ERROR)
        if channel in self._sessions:
            raise RemoteProtocolError(f"channel {channel} has a session already", NOT_ALLOWED)
        if begin.remote_channel is not None:
            raise RemoteProtocolError("begin answers a session that was never begun here", NOT_ALLOWED)
        local = next(number for number in range(len(self._channels_in_use) + 1) if number not in self._channels_in_use)
        if local > self._remote_channel_max:
            raise RemoteProtocolError("no channel is left within the peer's channel-max", RESOURCE_LIMIT_EXCEEDED)
        session = self._sessions[channel] = Session(self, local, begin)
        self._channels_in_use.add(local)
        session.begin(channel)

    def _on_end(self, channel: int, end: End) -> None:
        session = self._sessions.pop(channel, None)
        if session is None:
            raise RemoteProtocolError(f"no session on channel {channel}", NOT_ALLOWED)
        session.on_end(end)
        self._channels_in_use.discard(session.channel)

    # ------------------------------------------------------------------------------------------ closing

    def _on_close(self, close: Close) -> None:
        self.send(0, Close())
        self._state = move(CONNECTION_MOVES, self._state, ConnectionMove.CLOSE_RECEIVED)
        self._report_end(ConnectionClosed(close.error, []))

    def _on_frame_after_close(self, frame: Frame) -> None:
        """We sent close: all that matters now is the peer's own."""
        if frame.start == frame.end:
            return
        try:
            performative = self._read(frame)
        except DecodeError:
            return  # transfers end before their frame does, and nothing here will be used anyway
        if isinstance(performative, Close):
            self._state = move(CONNECTION_MOVES, self._state, ConnectionMove.CLOSE_RECEIVED)
            self._report_end(ConnectionClosed(performative.error, []))

    def _fail(self, condition: str, description: str, *, readable: bool) -> None:
        """The peer broke the protocol: tell it, and report. Unless its frames can still be read, that is the end."""
        error = AmqpError(condition, description)
        if self._state in _BEFORE_AMQP:
            readable = False
        elif self._state is not ConnectionState.CLOSE_SENT:
            self._send_close(error)
        if not readable:
            self._lose()
        self._report_end(ConnectionFailed(error, []))

    def _send_open(self) -> None:
        opened = Open(
            container_id=self.container_id,
            max_frame_size=self.max_frame_size,
            channel_max=self.channel_max,
            idle_time_out=self.idle_timeout_ms,
        )
        self._output.append(encode_frame(AMQP_FRAME, 0, encode_composite(opened)))

    def _send_close(self, error: AmqpError | None) -> None:
        if self._state is ConnectionState.HEADERS_EXCHANGED:
            self._send_open()
            self._state = move(CONNECTION_MOVES, self._state, ConnectionMove.OPEN_RECEIVED)
        body = encode_composite(Close(error))
        if error is not None and len(body) + len(EMPTY_FRAME) > self.remote_max_frame_size:
            body = encode_composite(Close(AmqpError(error.condition, (error.description or "")[:_SHORT_DESCRIPTION])))
        self._output.append(encode_frame(AMQP_FRAME, 0, body))
        self._state = move(CONNECTION_MOVES, self._state, ConnectionMove.CLOSE_SENT)

    def _lose(self) -> None:
        self._state = move(CONNECTION_MOVES, self._state, ConnectionMove.LOST)
        self._buffer.clear()

    def _report_end(self, event: ConnectionClosed) -> None:
        if self._end_reported:
            return
        self._end_reported = True
        event.links = self.links
        for session in self._sessions.values():
            session.on_connection_gone()
        self._sessions.clear()
        self._channels_in_use.clear()
        self.emit(event)
