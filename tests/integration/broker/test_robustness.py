"""Many clients, bad clients, vanishing clients: the broker serves the others and keeps nothing of them."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import socket
import ssl
import struct
from collections.abc import Callable

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusConnectionError

from local.broker.amqp.frames import AMQP_FRAME, AMQP_HEADER, SASL_HEADER, encode_frame
from local.broker.amqp.performatives import RECEIVER, SENDER, Attach, Begin, Open, Source, Target, encode_composite
from local.broker.content import Content
from local.broker.entities import Queue
from local.broker.peer import Peer
from local.broker.stages import HttpStage, TlsStage
from tests.integration.broker.conftest import Connect, until
from tests.support.broker_thread import BrokerThread
from tests.support.sdk_leftovers import SDK_LEFTOVERS

#: At once; each costs two files of this process.
WAVE = 60


@pytest.fixture
def queue(make_queue: Callable[..., Queue]) -> Queue:
    return make_queue("orders")


def port_of(broker: BrokerThread) -> int:
    return broker.broker["primary"].amqp_port


def connection(broker: BrokerThread) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port_of(broker)), timeout=10)


def over_tls(broker: BrokerThread) -> ssl.SSLSocket:
    trust = ssl.create_default_context(cafile=str(broker.broker.authority_file))
    return trust.wrap_socket(connection(broker), server_hostname="localhost")


def handshake(broker: BrokerThread, client: socket.socket | None = None) -> socket.socket:
    """A connection with links that were never allowed."""
    client = client or connection(broker)
    frames = [Open("quick", max_frame_size=65536), Begin(None, 0, 100, 100, 100)]
    for handle, role in enumerate((SENDER, RECEIVER)):
        frames.append(Attach(f"l{handle}", handle, role, source=Source("orders"), target=Target("orders")))  # type: ignore[arg-type]
    client.sendall(AMQP_HEADER + b"".join(encode_frame(AMQP_FRAME, 0, encode_composite(f)) for f in frames))
    return client


def sockets_of(broker: BrokerThread) -> int:
    return broker.call(lambda _: len(broker.broker["primary"]._amqp.sockets))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def asking(client: socket.socket, request: bytes) -> socket.socket:
    client.sendall(request)
    return client


def drop(client: socket.socket, rng: random.Random) -> None:
    """Half of them go without a goodbye."""
    if rng.random() < 0.5:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLIENTS: list[Callable[[BrokerThread], socket.socket]] = [
    handshake,
    lambda broker: handshake(broker, over_tls(broker)),
    lambda broker: asking(connection(broker), HEALTH),
    lambda broker: asking(over_tls(broker), HEALTH),
    lambda broker: asking(connection(broker), b"\x16\x03\x01"),
    lambda broker: asking(over_tls(broker), b"GET / HT"),
]


@pytest.mark.parametrize("count", [300, pytest.param(3000, marks=pytest.mark.soak)])
async def test_connections_of_every_kind_opened_and_dropped_leave_nothing_behind(
    broker: BrokerThread, queue: Queue, count: int
) -> None:
    rng = random.Random(7)
    for make in CLIENTS:
        make(broker).close()
    await until(lambda: sockets_of(broker) == 0)
    files = open_files()
    for _ in range(count // WAVE):
        clients = [make(broker) for make in CLIENTS * (WAVE // len(CLIENTS))]
        rng.shuffle(clients)
        for client in clients:
            drop(client, rng)
    await until(lambda: sockets_of(broker) == 0)
    gc.collect()
    assert files + 5 > open_files()
    assert set() == queue.links
    assert [] == [item for item in gc.get_objects() if isinstance(item, Peer | TlsStage | HttpStage)]


async def test_clients_that_say_nothing_or_nonsense_do_not_disturb_others(broker: BrokerThread, queue: Queue) -> None:
    rng = random.Random(8)
    clients = []
    for index in range(60):
        client = socket.create_connection(("127.0.0.1", port_of(broker)), timeout=10)
        nonsense = (b"", AMQP_HEADER, SASL_HEADER, AMQP_HEADER + rng.randbytes(100), rng.randbytes(50))[index % 5]
        client.sendall(nonsense)
        clients.append(client)
    sdk = ServiceBusClient.from_connection_string(broker.connection_string(), retry_total=0)
    async with sdk, sdk.get_queue_sender("orders") as sender:
        await sender.send_messages(ServiceBusMessage("x"))
    for client in clients:
        client.close()
    await until(lambda: sockets_of(broker) == 0)
    assert 1 == queue.main.message_count


@pytest.mark.filterwarnings(SDK_LEFTOVERS)
async def test_a_mistake_of_the_broker_ends_one_clients_connection_only(
    connect: Connect,
    broker: BrokerThread,
    queue: Queue,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    parse = Content.parse

    def fail_for_some(payload: bytes) -> Content:
        if b"trigger" in payload:
            raise RuntimeError("a bug")
        return parse(payload)

    monkeypatch.setattr(Content, "parse", fail_for_some)
    retries = {"retry_total": 1, "retry_backoff_factor": 0.01}
    async with connect() as one, connect(**retries) as two, one.get_queue_sender("orders") as healthy:
        await healthy.send_messages(ServiceBusMessage("before"))
        with pytest.raises(ServiceBusConnectionError):
            await two.get_queue_sender("orders").send_messages(ServiceBusMessage("trigger"))
        await healthy.send_messages(ServiceBusMessage("after"))
    assert 2 == queue.main.message_count
    assert "RuntimeError: a bug" in caplog.text


async def test_clients_that_never_read_do_not_hold_up_the_others(broker: BrokerThread, queue: Queue) -> None:
    stuck = [handshake(broker) for _ in range(20)]
    sdk = ServiceBusClient.from_connection_string(broker.connection_string(), retry_total=0)
    async with sdk, sdk.get_queue_sender("orders") as sender:
        for _ in range(20):
            await asyncio.wait_for(sender.send_messages(ServiceBusMessage("x" * 1000)), 10)
    for client in stuck:
        client.close()
    assert 20 == queue.main.message_count
