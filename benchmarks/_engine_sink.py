"""The yardstick where Proton cannot be installed: our own AMQP engine answering `accepted`, with no broker behind it.

`python -m benchmarks._engine_sink` prints its port and serves until it is stopped.
"""

from __future__ import annotations

import asyncio

from local.broker.amqp.connection import Connection
from local.broker.amqp.encoding import encode
from local.broker.amqp.events import DeliveryReceived, Event, LinkAttached
from local.broker.amqp.link import Link
from local.broker.amqp.message import Properties, RawMessage, encode_properties, encode_section_map
from local.broker.amqp.performatives import Accepted, Source, Target
from local.broker.amqp.types import Described, Int, ULong

CREDIT = 1000
LARGEST_MESSAGE_BYTES = 1024 * 1024
APPLICATION_PROPERTIES, AMQP_VALUE = 0x74, 0x77
CBS = "$cbs"


class Sink(asyncio.Protocol):
    """One client's connection."""

    def __init__(self) -> None:
        self._engine = Connection(container_id="sink")
        self._token_answers: Link | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for event in self._engine.receive_data(data):
            self._handle(event)
        if out := self._engine.data_to_send():
            self._transport.write(out)
        if self._engine.closed:
            self._transport.close()

    def _handle(self, event: Event) -> None:
        if isinstance(event, DeliveryReceived):
            event.delivery.settle(Accepted())
            target = event.link.target
            if isinstance(target, Target) and target.address == CBS:
                self._accept_token(event.delivery.payload)
        elif isinstance(event, LinkAttached):
            self._accept_link(event.link)

    def _accept_link(self, link: Link) -> None:
        link.accept(max_message_size=LARGEST_MESSAGE_BYTES)
        if not link.is_sender:
            link.set_credit_window(CREDIT)
        elif isinstance(link.source, Source) and link.source.address == CBS:
            self._token_answers = link

    def _accept_token(self, payload: bytes) -> None:
        assert self._token_answers is not None
        asked = RawMessage.parse(payload).decode_properties()
        answer = encode_properties(Properties(correlation_id=asked.message_id))
        status = {"status-code": Int(202), "status-description": "Accepted"}
        answer += encode_section_map(APPLICATION_PROPERTIES, status)
        answer += encode(Described(ULong(AMQP_VALUE), None))
        self._token_answers.send(answer, b"token", settled=True)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
