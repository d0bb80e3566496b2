"""The sockets: one port a namespace that speaks AMQP, TLS and HTTP (the first bytes decide), one for plain HTTP.

Network faults live here: refusing, black-holing and resetting are things done to sockets.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable

from .clock import Clock
from .faults import FaultPlan
from .http import Router
from .namespace import Namespace
from .peer import Peer, Wire
from .stages import FIRST_BYTES_S, HttpStage, Stage, TlsStage

#: Connections of one namespace (Service Bus quotas); further ones are closed at once.
CONNECTIONS_MAX = 5000
#: A closed connection whose last bytes are not taken within this time is cut off.
CLOSE_S = 10.0
#: A client that does not read what it asked for is cut off here.
WRITE_BUFFER_MAX = 256 * 1024 * 1024
#: How often idle time-outs are looked at; a client may announce one as short as twice this.
TICK_S = 0.2
#: After a black hole, what it held back is read before anybody's silence counts.
RESUME_S = 1.0
BACKLOG = 512

_TLS_HANDSHAKE = 0x16
_AMQP = b"AMQP"
_LINGER_ZERO = struct.pack("ii", 1, 0)


class Socket(asyncio.Protocol):
    """One client connection. Holds bytes back both ways while the namespace is black-holed."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._stage: Stage | None = None
        self._held: list[bytes] = []
        self._is_held = False
        self._bytes_seen = 0
        self._speak_by = listener.clock.now() + FIRST_BYTES_S
        self._cut_at: float | None = None
        self._ticks_from = 0.0

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
        self.hold(self._listener.is_black_holed)

    def data_received(self, data: bytes) -> None:
        if self._stage is None:
            self._stage = self._listener.stage_for(data, self)
        self._bytes_seen += len(data)
        if self._listener.resets_after(self._bytes_seen, self._stage):
            self.reset()
            return
        self._stage.receive(data)

    def pause_writing(self) -> None:
        """The client let `WRITE_BUFFER_MAX` bytes pile up."""
        self.reset()

    def connection_lost(self, error: Exception | None) -> None:
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
        if self._transport is not None and not self._is_held and not self._transport.is_closing():
            self._transport.close()
            self._cut_at = self._listener.clock.now() + CLOSE_S

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
        now = self._listener.clock.now()
        self._speak_by, self._ticks_from = now + FIRST_BYTES_S, now + RESUME_S
        held, self._held = self._held, []
        self._transport.resume_reading()
        self._transport.write(b"".join(held))

    def tick(self, now: float) -> None:
        if self._is_held or now < self._ticks_from:
            return
        if self._cut_at is not None:
            if now >= self._cut_at:
                self.reset()
        elif self._stage is not None:
            self._stage.tick(now)
        elif now >= self._speak_by:
            self.close()


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
        self.clock = clock
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
        now = self.clock.now()
        for client in list(self.sockets):
            client.tick(now)
        self._ticker = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    # -- stages

    def stage_for(self, data: bytes, wire: Socket) -> Stage:
        if data[0] == _TLS_HANDSHAKE and self._tls is not None:
            return TlsStage(wire, self._tls(), self._plain_stage, self.clock)
        return self._plain_stage(data, wire)

    def _plain_stage(self, data: bytes, wire: Wire) -> Stage:
        if data[: len(_AMQP)] == _AMQP[: len(data)]:
            soon = asyncio.get_running_loop().call_soon
            return Peer(self._namespace, wire, faults=self._faults, clock=self.clock, soon=soon)
        return HttpStage(wire, self._router, self._namespace.journal.when_durable, self.clock)

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
        for rule in self._faults.resets_after(self._namespace.name):
            due = (rule.spec.after_bytes and bytes_seen >= rule.spec.after_bytes) or (
                rule.spec.after_frames and stage.frames_received >= rule.spec.after_frames
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

