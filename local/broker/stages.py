"""What reads a connection's bytes: TLS with another stage inside, and HTTP. (AMQP is a stage too: `peer.Peer`.)

Whoever connects and then says nothing more, or half of something, is closed: time comes in with `tick`.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol

from .clock import Clock
from .http import BadRequest, HttpConnection, Request, Response, Router
from .peer import Wire

_log = logging.getLogger(__name__)

#: A client that does not say what it wants within this time is closed: first bytes, TLS handshake, a whole request.
FIRST_BYTES_S = 30.0
#: Between HTTP requests a client may be silent for this long.
HTTP_IDLE_S = 120.0
#: What a client may send ahead while its request is being answered; beyond that it is cut off.
HTTP_AHEAD_BYTES_MAX = 1024 * 1024

_READ_BYTES = 65536

WhenDurable = Callable[[Callable[[], None]], None]


class Stage(Protocol):
    """What currently reads a connection's bytes."""

    @property
    def frames_received(self) -> int:
        """AMQP frames so far."""
        ...

    def receive(self, data: bytes) -> None: ...

    def tick(self, now: float) -> None:
        """What time asks of it; called several times a second."""
        ...

    def gone(self) -> None: ...


class TlsStage:
    """TLS over a wire, with what is inside decided by its own first bytes."""

    def __init__(
        self, wire: Wire, context: ssl.SSLContext, stage_for: Callable[[bytes, TlsStage], Stage], clock: Clock
    ) -> None:
        self._wire = wire
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._stage_for = stage_for
        self._stage: Stage | None = None
        self._speak_by = clock.now() + FIRST_BYTES_S
        self._is_open = False

    @property
    def frames_received(self) -> int:
        return 0 if self._stage is None else self._stage.frames_received

    def receive(self, data: bytes) -> None:
        self._incoming.write(data)
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
            self._read_all()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            _log.debug("a TLS connection failed: %s", error)
            # The client does not trust the certificate, or does not speak TLS after all.
            self._flush()
            self._wire.close()

    def _read_all(self) -> None:
        while data := self._tls.read(_READ_BYTES):
            if self._stage is None:
                self._stage = self._stage_for(data, self)
            self._stage.receive(data)
        self._flush()
        self._wire.close()

    def tick(self, now: float) -> None:
        if self._stage is not None:
            self._stage.tick(now)
        elif now >= self._speak_by:
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

    #: No AMQP here.
    frames_received = 0

    def __init__(self, wire: Wire, router: Router, when_durable: WhenDurable, clock: Clock) -> None:
        self._wire = wire
        self._router = router
        self._when_durable = when_durable
        self._clock = clock
        self._http = HttpConnection()
        #: When the client began to speak, or to be silent.
        self._since = clock.now()
        self._is_serving = False
        self._is_answering = False

    def receive(self, data: bytes) -> None:
        if self._http.is_idle:
            self._since = self._clock.now()
        self._serve(lambda: self._http.receive_data(data))
        if self._is_answering and self._http.waiting_bytes > HTTP_AHEAD_BYTES_MAX:
            self._wire.reset()

    def _serve(self, read: Callable[[], list[Request]]) -> None:
        """Answer all that has come; a loop, since any number of requests may be waiting."""
        self._is_serving = True
        while self._answer_next(read):
            read = self._http.next_requests
        self._is_serving = False

    def _answer_next(self, read: Callable[[], list[Request]]) -> bool:
        """Whether an answer was given, so that the next request may be read."""
        try:
            requests = read()
        except BadRequest as error:
            self._wire.write(error.response)
            self._wire.close()
            return False
        self._wire.write(self._http.take_output())
        if requests:
            self._is_answering = True
            response = self._router.handle(requests[0])
            _log.debug("%s %r: %d", requests[0].method, requests[0].path, response.status)
            self._when_durable(partial(self._respond, response))
        elif self._http.should_close:
            self._wire.close()
        return bool(requests) and not self._is_answering and not self._http.should_close

    def _respond(self, response: Response) -> None:
        self._wire.write(self._http.send_response(response))
        self._is_answering = False
        self._since = self._clock.now()
        if self._http.should_close:
            self._wire.close()
        elif not self._is_serving:
            # What was changed became safe only later: those that came behind have waited for it.
            self._serve(self._http.next_requests)

    def tick(self, now: float) -> None:
        allowed = HTTP_IDLE_S if self._http.is_idle else FIRST_BYTES_S
        if not self._is_answering and now >= self._since + allowed:
            self._wire.close()

    def gone(self) -> None:
        """Nothing is held for an HTTP client."""
