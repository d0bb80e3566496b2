"""Silence in both directions, slow handshakes, closes nobody answers. Time is an argument."""

from __future__ import annotations

from local.broker.amqp import Connection, ConnectionFailed, Limits
from local.broker.amqp.frames import AMQP_HEADER, EMPTY_FRAME
from local.broker.amqp.performatives import Close, Open
from tests.unit.amqp.peer import Peer, frame_of


def opened(idle_timeout_ms: int | None = None, remote_idle_timeout_ms: int | None = None) -> Peer:
    peer = Peer(Connection(container_id="broker", idle_timeout_ms=idle_timeout_ms))
    peer.open(idle_time_out=remote_idle_timeout_ms)
    peer.connection.tick(0.0)
    peer.hear()
    peer.connection.tick(0.0)
    return peer


def test_the_idle_time_out_is_announced() -> None:
    peer = Peer(Connection(container_id="broker", idle_timeout_ms=30_000))
    peer.open()
    assert peer.bodies()[-1].idle_time_out == 30_000


def test_heartbeats_keep_an_idle_connection_alive_for_the_peer() -> None:
    peer = opened(remote_idle_timeout_ms=10_000)
    assert peer.connection.tick(4.9) == 5.0
    assert peer.connection.data_to_send() == b""
    assert peer.connection.tick(5.0) == 10.0
    assert peer.connection.data_to_send() == EMPTY_FRAME


def test_a_heartbeat_is_never_late_after_other_output() -> None:
    peer = opened(remote_idle_timeout_ms=10_000)
    peer.connection.tick(2.0)
    peer.begin()
    peer.hear()
    assert peer.connection.tick(3.0) == 7.0
    peer.connection.tick(7.0)
    assert peer.connection.data_to_send() == EMPTY_FRAME


def test_an_impatient_peer_cannot_make_us_spin() -> None:
    peer = opened(remote_idle_timeout_ms=1)
    assert peer.connection.tick(1.0) == 1.05


def test_a_silent_peer_is_closed_after_twice_the_announced_time() -> None:
    peer = opened(idle_timeout_ms=10_000)
    assert peer.connection.tick(19.9) == 20.0
    assert peer.connection.tick(20.0) is None
    close = peer.bodies()[-1]
    assert isinstance(close, Close)
    assert close.error is not None
    assert close.error.condition == "amqp:resource-limit-exceeded"
    assert peer.connection.closed
    assert [type(event) for event in peer.connection.receive_eof()] == [ConnectionFailed]


def test_a_heartbeat_of_the_peer_is_a_sign_of_life() -> None:
    peer = opened(idle_timeout_ms=10_000)
    assert peer.connection.receive_data(EMPTY_FRAME) == []
    assert peer.connection.tick(15.0) == 35.0
    assert not peer.connection.closed


def test_without_time_outs_there_is_nothing_to_wait_for() -> None:
    assert opened().connection.tick(1000.0) is None


def test_a_handshake_that_takes_too_long_is_ended() -> None:
    connection = Connection(container_id="broker", limits=Limits(open_seconds=5))
    assert connection.tick(100.0) == 105.0
    connection.receive_data(AMQP_HEADER[:3])
    assert connection.tick(104.0) == 105.0
    assert connection.tick(105.0) is None
    assert connection.closed


def test_an_open_that_never_comes_is_told_so() -> None:
    peer = Peer.limited(open_seconds=5)
    peer.connection.receive_data(AMQP_HEADER)
    peer.connection.tick(0.0)
    peer.connection.tick(5.0)
    assert [type(body) for body in peer.bodies()] == [Open, Close]
    assert peer.connection.closed


def test_a_close_nobody_answers_ends_in_time() -> None:
    peer = opened()
    peer.connection.close()
    assert peer.connection.tick(50.0) == 60.0
    peer.connection.tick(60.0)
    assert peer.connection.closed
    assert [type(event) for event in peer.connection.receive_eof()] == [ConnectionFailed]
    assert peer.connection.tick(70.0) is None


def test_an_answered_close_needs_no_more_ticks() -> None:
    peer = opened()
    peer.connection.receive_data(frame_of(Close()))
    assert peer.connection.tick(1.0) is None
