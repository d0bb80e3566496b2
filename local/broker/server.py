"""The sockets: one port a namespace that speaks AMQP, TLS and HTTP (the first bytes decide), one for plain HTTP.

Network faults live here: refusing, black-holing and resetting are things done to sockets.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Protocol

from .clock import Clock
from .faults import FaultPlan
from .http import BadRequest, HttpConnection, Request, Response, Router
from .namespace import Namespace
from .peer import Peer

#: Connections of one namespace (Service Bus quotas); further ones are closed at once.
CONNECTIONS_MAX = 5000
#: A connection whose first bytes do not come within this time is closed.
FIRST_BYTES_S = 30.0
#: A client that does not read what it asked for is cut off here.
WRITE_BUFFER_MAX = 256 * 1024 * 1024
#: How often idle time-outs are looked at; a client may announce one as short as twice this.
TICK_S = 0.2
BACKLOG = 512

_TLS_HANDSHAKE = 0x16
_AMQP = b"AMQP"
_LINGER_ZERO = struct.pack("ii", 1, 0)


WhenDurable = Callable[[Callable[[], None]], None]


class Stage(Protocol):
    """What currently reads a connection's bytes."""

    def receive(self, data: bytes) -> None: ...

    def gone(self) -> None: ...


class Socket(asyncio.Protocol):
    """One client connection. Holds bytes back both ways while the namespace is black-holed."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._stage: Stage | None = None
        self._held: list[bytes] = []
        self._is_held = False
        self._bytes_seen = 0
        self._timer: asyncio.TimerHandle | None = None

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_MAX)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self._listener.sockets) >= CONNECTIONS_MAX:
            transport.abort()
            return
        self._listener.sockets.add(self)
        self._timer = asyncio.get_running_loop().call_later(FIRST_BYTES_S, self._too_quiet)
        self.hold(self._listener.is_black_holed)

    def data_received(self, data: bytes) -> None:
        if self._stage is None:
            self._stage = self._listener.stage_for(data, self)
            self._stop_timer()
        self._bytes_seen += len(data)
        if self._listener.resets_after(self._bytes_seen, self._stage):
            self.reset()
            return
        self._stage.receive(data)

    def pause_writing(self) -> None:
        """The client let `WRITE_BUFFER_MAX` bytes pile up."""
        self.reset()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        self._listener.sockets.discard(self)
        if self._stage is not None:
            self._stage.gone()

    # -- the wire, as stages use it

    def write(self, data: bytes) -> None:
        if self._is_held:
            self._held.append(data)
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None and not self._is_held:
            self._transport.close()

    def reset(self) -> None:
        """Gone without a goodbye: the client sees a reset."""
        if self._transport is None:
            return
        raw = self._transport.get_extra_info("socket")
        if raw is not None and raw.fileno() != -1:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        self._transport.abort()

    # -- faults

    def hold(self, wanted: bool) -> None:
        """Black hole: nothing is read and nothing leaves until it ends; then all of it goes on."""
        if wanted == self._is_held or self._transport is None or self._transport.is_closing():
            return
        self._is_held = wanted
        if wanted:
            self._transport.pause_reading()
            return
        held, self._held = self._held, []
        self._transport.resume_reading()
        self._transport.write(b"".join(held))

    def tick(self, now: float) -> None:
        if isinstance(self._stage, Peer) and not self._is_held:
            self._stage.tick(now)

    def _too_quiet(self) -> None:
        if self._transport is not None and not self._is_held:
            self._transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class TlsStage:
    """TLS over a wire, with what is inside decided by its own first bytes."""

    def __init__(self, wire: Socket, context: ssl.SSLContext, stage_for: Callable[[bytes, TlsStage], Stage]) -> None:
        self._wire = wire
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._stage_for = stage_for
        self._stage: Stage | None = None
        self._is_open = False

    def receive(self, data: bytes) -> None:
        self._incoming.write(data)
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
            self._read_all()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError:
            # The client does not trust the certificate, or does not speak TLS after all.
            self._flush()
            self._wire.close()

    def _read_all(self) -> None:
        while data := self._tls.read(65536):
            if self._stage is None:
                self._stage = self._stage_for(data, self)
            self._stage.receive(data)
        self._flush()
        self._wire.close()

    def write(self, data: bytes) -> None:
        if data:
            self._tls.write(data)
            self._flush()

    def close(self) -> None:
        self._flush()
        self._wire.close()

    def reset(self) -> None:
        self._wire.reset()

    def gone(self) -> None:
        if self._stage is not None:
            self._stage.gone()

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data:
            self._wire.write(data)


class HttpStage:
    """HTTP requests of one connection, answered in order, each once what it changed is safe."""

    def __init__(self, wire: Socket | TlsStage, router: Router, when_durable: WhenDurable) -> None:
        self._wire = wire
        self._router = router
        self._when_durable = when_durable
        self._http = HttpConnection()

    def receive(self, data: bytes) -> None:
        self._answer(lambda: self._http.receive_data(data))

    def _answer(self, read: Callable[[], list[Request]]) -> None:
        try:
            requests = read()
        except BadRequest as error:
            self._wire.write(error.response)
            self._wire.close()
            return
        self._wire.write(self._http.take_output())
        if requests:
            response = self._router.handle(requests[0])
            self._when_durable(lambda: self._respond(response))
        elif self._http.should_close:
            self._wire.close()

    def _respond(self, response: Response) -> None:
        self._wire.write(self._http.send_response(response))
        if self._http.should_close:
            self._wire.close()
        else:
            self._answer(self._http.next_requests)

    def gone(self) -> None:
        """Nothing is held for an HTTP client."""


class Listener:
    """One listening port of a namespace."""

    def __init__(
        self,
        namespace: Namespace,
        router: Router,
        *,
        faults: FaultPlan,
        clock: Clock,
        tls: Callable[[], ssl.SSLContext] | None,
        takes_faults: bool,
    ) -> None:
        self.sockets: set[Socket] = set()
        self.port = 0
        self._namespace = namespace
        self._router = router
        self._faults = faults
        self._clock = clock
        self._tls = tls
        self._takes_faults = takes_faults
        self._server: asyncio.Server | None = None
        self._host = "127.0.0.1"
        self._ticker: asyncio.TimerHandle | None = None
        self._changing: asyncio.Task[None] | None = None

    async def open(self, host: str, port: int) -> None:
        self._host = host
        await self._listen(port)
        self._tick()
        self._faults.on_change(self._faults_changed)

    async def close(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        if self._changing is not None:
            await self._changing
        await self._stop_listening()
        for client in list(self.sockets):
            client.reset()
        # One turn of the loop lets the transports report that they are gone.
        await asyncio.sleep(0)

    async def _listen(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Socket(self), self._host, port, backlog=BACKLOG)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _tick(self) -> None:
        now = self._clock.now()
        for client in list(self.sockets):
            client.tick(now)
        self._ticker = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    # -- stages

    def stage_for(self, data: bytes, wire: Socket) -> Stage:
        if data[0] == _TLS_HANDSHAKE and self._tls is not None:
            return TlsStage(wire, self._tls(), self._plain_stage)
        return self._plain_stage(data, wire)

    def _plain_stage(self, data: bytes, wire: Socket | TlsStage) -> Stage:
        if data[: len(_AMQP)] == _AMQP[: len(data)]:
            soon = asyncio.get_running_loop().call_soon
            return Peer(self._namespace, wire, faults=self._faults, clock=self._clock, soon=soon)
        return HttpStage(wire, self._router, self._namespace.journal.when_durable)

    # -- network faults

    @property
    def is_black_holed(self) -> bool:
        return self._takes_faults and self._faults.network("black-hole", self._namespace.name) is not None

    @property
    def is_refusing(self) -> bool:
        return self._takes_faults and self._faults.network("refuse", self._namespace.name) is not None

    def resets_after(self, bytes_seen: int, stage: Stage) -> bool:
        if not self._faults.rules or not self._takes_faults:
            return False
        frames = stage.frames_received if isinstance(stage, Peer) else 0
        for rule in self._faults.resets_after(self._namespace.name):
            due = (rule.spec.after_bytes and bytes_seen >= rule.spec.after_bytes) or (
                rule.spec.after_frames and frames >= rule.spec.after_frames
            )
            if due and rule.strikes():
                return True
        return False

    def _faults_changed(self) -> None:
        for client in list(self.sockets):
            client.hold(self.is_black_holed)
        previous = self._changing

        async def change() -> None:
            if previous is not None:
                await previous
            await self._refuse_or_listen()

        self._changing = asyncio.get_running_loop().create_task(change())

    async def _refuse_or_listen(self) -> None:
        if self.is_refusing and self._server is not None:
            await self._stop_listening()
            for client in list(self.sockets):
                client.reset()
        elif not self.is_refusing and self._server is None:
            await self._listen(self.port)

    async def settled(self) -> None:
        """Until a change of network faults has taken effect."""
        while self._changing is not None and not self._changing.done():
            await self._changing

