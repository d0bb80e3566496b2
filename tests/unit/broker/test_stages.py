"""HTTP over a wire in memory: what a client may send ahead has a bound."""

from __future__ import annotations

from collections.abc import Callable

from local.broker.clock import ManualClock
from local.broker.http import Response, Router
from local.broker.stages import HTTP_AHEAD_BYTES_MAX, HttpStage

REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Wire:
    def __init__(self) -> None:
        self.written = b""
        self.is_closed = self.is_reset = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def reset(self) -> None:
        self.is_reset = True


def test_requests_sent_ahead_wait_for_the_answer_before_them_within_a_bound() -> None:
    wire, waiting = Wire(), list[Callable[[], None]]()
    stage = HttpStage(wire, Router(lambda request: Response.text(200, "fine")), waiting.append, ManualClock())
    stage.receive(REQUEST * 3)
    for answered in range(3):
        assert answered == wire.written.count(b"200 OK")
        waiting.pop()()
    assert [] == waiting
    stage.receive(REQUEST)
    stage.receive(REQUEST * (HTTP_AHEAD_BYTES_MAX // len(REQUEST)))
    assert not wire.is_reset
    stage.receive(REQUEST)
    assert wire.is_reset


def test_a_client_is_not_hurried_while_its_answer_is_on_the_way() -> None:
    wire, waiting, clock = Wire(), list[Callable[[], None]](), ManualClock()
    stage = HttpStage(wire, Router(lambda request: Response.text(200, "fine")), waiting.append, clock)
    stage.receive(REQUEST)
    clock.advance(3600.0)
    stage.tick(clock.now())
    assert not wire.is_closed
    waiting.pop()()
    stage.tick(clock.now())
    assert not wire.is_closed
