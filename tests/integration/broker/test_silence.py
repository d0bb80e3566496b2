"""Time on real sockets, plain and over TLS: heartbeats are kept, and whoever says nothing more is closed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

import pytest

from local.broker.amqp.frames import AMQP_FRAME, AMQP_HEADER, EMPTY_FRAME, encode_frame
from local.broker.amqp.performatives import Open, encode_composite
from local.broker.broker import Broker
from local.broker.clock import ManualClock
from local.broker.peer import TOKEN_CHECK_S, TOKEN_WAIT_S
from local.broker.server import Listener
from local.broker.stages import FIRST_BYTES_S, HTTP_IDLE_S
from tests.integration.broker.conftest import until
from tests.support.broker import running_broker

DEADLINE_S = 10.0
TICK_S = 0.02
TICKS = 3
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def read_until(self, wanted: bytes) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(wanted), DEADLINE_S)

    async def rest(self) -> bytes:
        """All that comes until the broker closes."""
        return await asyncio.wait_for(self.reader.read(), DEADLINE_S)


class Scene:
    def __init__(self, broker: Broker, clock: ManualClock) -> None:
        self.broker = broker
        self.clock = clock
        self._clients: list[Client] = []

    async def connect(self, *, tls: bool) -> Client:
        trust = ssl.create_default_context(cafile=str(self.broker.authority_file)) if tls else None
        port = self.broker["primary"].amqp_port
        client = Client(*await asyncio.open_connection("127.0.0.1", port, ssl=trust))
        self._clients.append(client)
        return client

    async def ticks(self) -> None:
        """Until what was said so far has been looked at, with the time as it is now."""
        listener = self.broker["primary"]._amqp
        for _ in range(TICKS):
            ticker = listener._ticker
            await until(partial(_is_another, listener, ticker))

    async def close(self) -> None:
        for client in self._clients:
            client.writer.close()


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr("local.broker.server.TICK_S", TICK_S)
    clock = ManualClock()
    async with running_broker(clock=clock) as broker:
        scene = Scene(broker, clock)
        yield scene
        await scene.close()


def _is_another(listener: Listener, ticker: object) -> bool:
    return listener._ticker is not ticker


def _open(idle_time_out_ms: int | None = None) -> bytes:
    performative = Open("client", idle_time_out=idle_time_out_ms, max_frame_size=65_536)  # type: ignore[arg-type]
    return AMQP_HEADER + encode_frame(AMQP_FRAME, 0, encode_composite(performative))


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_a_heartbeat_comes_before_the_client_takes_the_broker_for_dead(scene: Scene, tls: bool) -> None:
    client = await scene.connect(tls=tls)
    await client.say(_open(idle_time_out_ms=10_000))
    await client.read_until(b"AMQP")
    await scene.ticks()
    scene.clock.advance(6.0)
    assert EMPTY_FRAME == (await client.read_until(EMPTY_FRAME))[-len(EMPTY_FRAME) :]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_a_connection_that_shows_no_token_is_closed(scene: Scene, tls: bool) -> None:
    client = await scene.connect(tls=tls)
    await client.say(_open())
    await client.read_until(b"AMQP")
    scene.clock.advance(TOKEN_WAIT_S + TOKEN_CHECK_S)
    assert b"No token was put within 20 seconds." in await client.read_until(b"seconds.")


@pytest.mark.parametrize(
    ("tls", "said"),
    [
        (False, b""), (False, b"AM"), (False, b"GET / HT"), (False, b"\x16\x03\x01"),
        (False, b"PUT /orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf"),
        (True, b""), (True, b"AM"), (True, b"GET / HT"),
    ],
    ids=["nothing", "half an AMQP header", "half a request", "half a TLS handshake", "half a body",
         "nothing over TLS", "half an AMQP header over TLS", "half a request over TLS"],
)  # fmt: skip
async def test_half_of_something_is_closed(scene: Scene, tls: bool, said: bytes) -> None:
    client = await scene.connect(tls=tls)
    await client.say(said)
    await scene.ticks()
    scene.clock.advance(2 * FIRST_BYTES_S)
    await client.rest()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_between_requests_a_client_may_take_its_time_but_not_for_ever(scene: Scene, tls: bool) -> None:
    client = await scene.connect(tls=tls)
    for _ in range(2):
        await client.say(HEALTH)
        await client.read_until(b'"healthy"}')
        scene.clock.advance(HTTP_IDLE_S - 1)
        await scene.ticks()
    scene.clock.advance(1.0)
    assert b"" == await client.rest()


async def test_any_number_of_requests_may_come_at_once(scene: Scene) -> None:
    client = await scene.connect(tls=False)
    count = 2000
    await client.say(HEALTH * count)
    for _ in range(count):
        await client.read_until(b'"healthy"}')


@pytest.mark.parametrize("began", [False, True], ids=["before the first bytes", "in mid-request"])
async def test_what_a_long_black_hole_held_back_is_read_before_silence_counts(scene: Scene, began: bool) -> None:
    client = await scene.connect(tls=False)
    if began:
        await client.say(HEALTH[:9])
        await scene.ticks()
    await scene.broker.inject(kind="black-hole", namespace="primary")
    await client.say(HEALTH[9:] if began else HEALTH)
    scene.clock.advance(20 * FIRST_BYTES_S)
    scene.broker.faults.clear()
    for socket in list(scene.broker["primary"]._amqp.sockets):
        socket.tick(scene.clock.now())
    await client.read_until(b'"healthy"}')


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_a_reset_after_so_many_frames_strikes(scene: Scene, tls: bool) -> None:
    await scene.broker.inject(kind="reset", after_frames=1)
    client = await scene.connect(tls=tls)
    await client.say(_open())
    await client.read_until(b"AMQP")
    await client.say(EMPTY_FRAME)
    with pytest.raises(ConnectionError):
        await client.rest()
