"""A bare AMQP sink made of Qpid Proton, a C library: it takes every token and every message and stores nothing.

`python -m benchmarks._proton_sink` prints its port and serves until it is stopped. It is the yardstick for the
broker: the same client over the same kind of socket, with nothing behind it. Proton's engine is driven by a
plain loop over sockets, which costs less than its own reactor.
"""

from __future__ import annotations

import selectors
import socket
from typing import Any

from proton import Collector, Connection, Delivery, Event, Message, Transport

CREDIT = 1000
READ_BYTES = 65536
LARGEST_MESSAGE_BYTES = 1024 * 1024
CBS = "$cbs"


class Peer:
    """One client's connection: bytes in, events handled, bytes out."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._connection, self._collector = Connection(), Collector()
        self._connection.collect(self._collector)
        self._transport = Transport(Transport.SERVER)
        sasl: Any = self._transport.sasl()
        sasl.allowed_mechs("ANONYMOUS")
        sasl.done(0)
        self._transport.bind(self._connection)
        self._token_answers: Any = None

    def serve_once(self) -> bool:
        """Handle what has arrived; False when the client is gone."""
        try:
            data = self._stream.recv(READ_BYTES)
        except OSError:
            return False
        while data:
            taken = min(len(data), max(self._transport.capacity(), 0))
            if not taken:
                return False
            self._transport.push(data[:taken])
            data = data[taken:]
            self._handle_events()
            if not self._flush():
                return False
        return self._transport.capacity() >= 0 and not self._transport.closed

    def _flush(self) -> bool:
        while (waiting := self._transport.pending()) > 0:
            out: Any = self._transport.peek(waiting)
            try:
                self._stream.sendall(out)
            except OSError:
                return False
            self._transport.pop(len(out))
        return True

    def _handle_events(self) -> None:
        while (event := self._collector.peek()) is not None:
            self._handle(event)
            self._collector.pop()

    def _handle(self, event: Any) -> None:
        kind = event.type
        if kind == Event.DELIVERY:
            self._take(event.delivery, event.link)
        elif kind == Event.LINK_REMOTE_OPEN:
            self._open_link(event.link)
        elif kind in (Event.CONNECTION_REMOTE_OPEN, Event.SESSION_REMOTE_OPEN):
            event.context.open()
        elif kind in (Event.CONNECTION_REMOTE_CLOSE, Event.SESSION_REMOTE_CLOSE, Event.LINK_REMOTE_CLOSE):
            event.context.close()

    def _open_link(self, link: Any) -> None:
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        if link.is_receiver:
            link.max_message_size = LARGEST_MESSAGE_BYTES
            link.flow(CREDIT)
        elif link.remote_source.address == CBS:
            self._token_answers = link
        link.open()

    def _take(self, delivery: Any, link: Any) -> None:
        if not link.is_receiver or not delivery.readable or delivery.partial:
            return
        payload = link.recv(delivery.pending)
        link.advance()
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        link.flow(1)
        if link.remote_target.address == CBS:
            self._accept_token(payload)

    def _accept_token(self, payload: bytes) -> None:
        request = Message()
        request.decode(payload)
        answer = {"status-code": 202, "status-description": "Accepted"}
        self._token_answers.send(Message(correlation_id=request.id, properties=answer))


def serve() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ, None)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    stream, _address = listener.accept()
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(stream, selectors.EVENT_READ, Peer(stream))
                elif not key.data.serve_once():
                    selector.unregister(key.fileobj)
                    assert isinstance(key.fileobj, socket.socket)
                    key.fileobj.close()


if __name__ == "__main__":
    serve()
