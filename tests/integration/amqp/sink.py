"""The smallest server on the engine: accepts every attach, every token and every message, keeps what it was sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from local.broker.amqp import (
    BATCH_MESSAGE_FORMAT,
    AmqpError,
    Connection,
    Delivery,
    DeliveryReceived,
    DeliveryUpdated,
    Event,
    Link,
    LinkAttached,
    LinkFlow,
    RawMessage,
    split_batch,
)
from local.broker.amqp.codec import encode
from local.broker.amqp.message import (
    APPLICATION_PROPERTIES,
    Header,
    Properties,
    encode_header,
    encode_properties,
    encode_section_map,
)
from local.broker.amqp.performatives import Accepted, Rejected
from local.broker.amqp.types import Int

_CREDIT = 1000
_READ_SIZE = 65_536


class Sink:
    """State shared by all connections of one server."""

    def __init__(self) -> None:
        self.received: list[RawMessage] = []
        self.formats: list[int] = []
        self.settled: list[object] = []
        #: (delivery-tag, payload) handed, in order, to whoever attaches a receiver and gives credit.
        self.outgoing: deque[tuple[bytes, bytes]] = deque()
        self.keep = True
        self.send_settled = False
        #: Conditions with which data links are refused and messages rejected, when set.
        self.refuse_with = ""
        self.reject_with = ""
        self.connections: list[Connection] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(container_id="sink", idle_timeout_ms=30_000)
        self.connections.append(connection)
        replies: dict[int, Link] = {}
        try:
            while not connection.closed and (data := await reader.read(_READ_SIZE)):
                for event in connection.receive_data(data):
                    self.handle(event, replies)
                writer.write(connection.data_to_send())
                await writer.drain()
        except ConnectionError:
            pass  # the client may drop the socket without a close
        finally:
            connection.receive_eof()
            writer.close()

    def handle(self, event: Event, replies: dict[int, Link]) -> None:
        if isinstance(event, LinkAttached):
            self._on_attach(event.link, replies)
        elif isinstance(event, DeliveryReceived):
            self._on_message(event.link, event.delivery, replies)
        elif isinstance(event, LinkFlow):
            while self.outgoing and event.link.credit and not _is_cbs(event.link.source):
                tag, payload = self.outgoing.popleft()
                event.link.send(payload, tag, settled=self.send_settled)
            if event.link.drain:
                event.link.drained()
        elif isinstance(event, DeliveryUpdated) and not event.settled:
            self.settled.append(event.state)
            echo = Rejected() if isinstance(event.state, Rejected) else event.state
            event.delivery.settle(echo)

    def _on_attach(self, link: Link, replies: dict[int, Link]) -> None:
        if self.refuse_with and not _is_cbs(link.source):
            link.refuse(AmqpError(self.refuse_with, "refused by the test"))
            return
        link.accept(max_message_size=1024 * 1024)
        if not link.is_sender:
            link.set_credit_window(_CREDIT)
        elif _is_cbs(link.source):
            replies[id(link.session)] = link

    def _on_message(self, link: Link, delivery: Delivery, replies: dict[int, Link]) -> None:
        if _is_cbs(link.target):
            delivery.settle(Accepted())
            self._answer_token(RawMessage.parse(delivery.payload), replies[id(link.session)])
        elif self.reject_with:
            delivery.settle(Rejected(AmqpError(self.reject_with, "rejected by the test")))
        else:
            delivery.settle(Accepted())
            if self.keep:
                self._keep(delivery.payload, delivery.message_format)

    def _keep(self, payload: bytes, message_format: int) -> None:
        self.formats.append(message_format)
        parts = split_batch(payload) if message_format == BATCH_MESSAGE_FORMAT else [payload]
        self.received.extend(RawMessage.parse(part) for part in parts)

    def _answer_token(self, request: RawMessage, link: Link) -> None:
        reply = (
            encode_header(Header())
            + encode_properties(Properties(correlation_id=request.decode_properties().message_id))
            + encode_section_map(APPLICATION_PROPERTIES, {"status-code": Int(202), "status-description": "Accepted"})
            + b"\x00\x53\x77"
            + encode(None)
        )
        link.send(reply, b"\x01", settled=True)


def _is_cbs(terminus: object) -> bool:
    return getattr(terminus, "address", None) == "$cbs"


@asynccontextmanager
async def running_sink() -> AsyncIterator[tuple[Sink, str]]:
    """A sink on a free port and the connection string that reaches it."""
    sink = Sink()
    server = await asyncio.start_server(sink.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    key = "SharedAccessKeyName=x;SharedAccessKey=y"
    async with server:
        yield sink, f"Endpoint=sb://127.0.0.1:{port};{key};UseDevelopmentEmulator=true"
