"""Protocol headers, SASL, open, close: how a connection starts and ends."""

from __future__ import annotations

import pytest

from local.broker.amqp import Connection, ConnectionClosed, ConnectionFailed, ConnectionOpened, ConnectionState
from local.broker.amqp.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, encode_frame
from local.broker.amqp.performatives import (
    RECEIVER,
    AmqpError,
    Attach,
    Begin,
    Close,
    End,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    encode_composite,
)
from tests.unit.amqp.peer import Peer, frame_of, open_peer


def test_sasl_offers_its_mechanisms_as_soon_as_the_client_asks_for_sasl() -> None:
    peer = Peer()
    peer.connection.receive_data(SASL_HEADER)
    output = peer.connection.data_to_send()
    assert output.startswith(SASL_HEADER)
    offered = encode_frame(SASL_FRAME, 0, encode_composite(SaslMechanisms(("ANONYMOUS", "MSSBCBS", "EXTERNAL"))))
    assert output[8:] == offered


@pytest.mark.parametrize("mechanism", ["ANONYMOUS", "MSSBCBS", "EXTERNAL"])
def test_an_offered_mechanism_is_accepted_without_a_challenge(mechanism: str) -> None:
    peer = Peer()
    peer.authenticate(mechanism)
    assert peer.bodies()[-1] == SaslOutcome(0)
    assert mechanism == peer.connection.sasl_mechanism


def test_another_mechanism_ends_in_an_authentication_failure() -> None:
    peer = Peer()
    events = peer.authenticate("PLAIN")
    assert peer.bodies()[-1] == SaslOutcome(1)
    assert peer.connection.closed
    assert [type(event) for event in events] == [ConnectionFailed]


def test_a_sasl_response_nobody_asked_for_ends_the_connection() -> None:
    peer = Peer()
    response = encode_frame(SASL_FRAME, 0, encode_composite(SaslResponse(b"x")))
    events = peer.connection.receive_data(SASL_HEADER + response)
    assert isinstance(events[0], ConnectionFailed)
    assert peer.connection.closed


def test_open_is_answered_and_reported_with_who_the_peer_is() -> None:
    peer = Peer()
    events = peer.open(hostname="contoso", properties={"product": "test"})
    assert events == [ConnectionOpened(peer.connection)]
    answer = peer.bodies()[-1]
    assert answer == Open("broker", max_frame_size=65_536, channel_max=255)
    assert peer.connection.hostname == "contoso"
    assert peer.connection.remote_container_id == "client"
    assert peer.connection.remote_properties == {"product": "test"}


def test_amqp_without_sasl_opens_too() -> None:
    peer = Peer()
    events = peer.connection.receive_data(AMQP_HEADER + frame_of(Open("client")))
    assert events == [ConnectionOpened(peer.connection)]
    assert peer.connection.sasl_mechanism is None


def test_a_conversation_arriving_octet_by_octet_is_the_same_conversation() -> None:
    init = encode_frame(SASL_FRAME, 0, encode_composite(SaslInit("ANONYMOUS")))
    script = SASL_HEADER + init + AMQP_HEADER + frame_of(Open("client")) + frame_of(Begin(None, 0, 1, 1))
    whole, slow = Connection(container_id="broker"), Connection(container_id="broker")
    whole_events = whole.receive_data(script)
    slow_events = [event for octet in script for event in slow.receive_data(bytes((octet,)))]
    assert [type(event) for event in slow_events] == [type(event) for event in whole_events]
    assert slow.data_to_send() == whole.data_to_send()


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        (b"AMQP\x00\x00\x09\x01", AMQP_HEADER),
        (b"AMQP\x02\x01\x00\x00", SASL_HEADER),
        (b"GET / HTTP/1.1\r\n", SASL_HEADER),
        (b"\x16\x03\x01", SASL_HEADER),
    ],
)
def test_another_protocol_is_answered_with_a_supported_header_and_closed(header: bytes, answer: bytes) -> None:
    connection = Connection(container_id="broker")
    events = connection.receive_data(header)
    assert connection.data_to_send() == answer
    assert connection.closed
    assert [type(event) for event in events] == [ConnectionFailed]


def test_a_second_sasl_header_after_authentication_is_refused() -> None:
    peer = Peer()
    peer.authenticate()
    peer.hear()
    peer.connection.receive_data(SASL_HEADER)
    assert peer.connection.data_to_send() == AMQP_HEADER
    assert peer.connection.closed


def refusal(peer: Peer) -> AmqpError:
    """The error of the close the engine sent."""
    closes = [body for body in peer.bodies() if isinstance(body, Close)]
    assert len(closes) == 1
    assert closes[0].error is not None
    return closes[0].error


def test_a_frame_before_open_is_answered_with_open_and_close() -> None:
    peer = Peer()
    peer.connection.receive_data(AMQP_HEADER)
    peer.say(Begin(None, 0, 1, 1))
    sent = peer.bodies()
    assert [type(body) for body in sent] == [Open, Close]
    assert sent[1].error.condition == "amqp:illegal-state"


@pytest.mark.parametrize(
    ("script", "condition"),
    [
        (frame_of(Open("c", max_frame_size=511)), "amqp:invalid-field"),
        (frame_of(Open("c"), channel=1), "amqp:not-allowed"),
        (frame_of(Open("c")) + frame_of(Open("c")), "amqp:illegal-state"),
        (frame_of(Open("c")) + frame_of(Begin(3, 0, 1, 1)), "amqp:not-allowed"),
        (frame_of(Open("c")) + frame_of(Begin(None, 0, 1, 1)) * 2, "amqp:not-allowed"),
        (frame_of(Open("c")) + frame_of(Begin(None, 0, 1, 1), channel=256), "amqp:connection:framing-error"),
        (frame_of(Open("c")) + frame_of(End()), "amqp:not-allowed"),
        (frame_of(Open("c")) + frame_of(Attach("a", 0, RECEIVER)), "amqp:not-allowed"),
        (frame_of(Open("c"), b"trailing"), "amqp:decode-error"),
        (frame_of(SaslInit("x")), "amqp:illegal-state"),
        (frame_of(Open("c")) + frame_of(SaslInit("x")), "amqp:decode-error"),
        (frame_of(Open("c")) + b"\x00\x01\x00\x01\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (frame_of(Open("c")) + b"\x00\x00\x00\x07\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (frame_of(Open("c")) + b"\x00\x00\x00\x08\x01\x00\x00\x00", "amqp:connection:framing-error"),
        (frame_of(Open("c")) + b"\x00\x00\x00\x08\x03\x00\x00\x00", "amqp:connection:framing-error"),
        (frame_of(Open("c")) + b"\x00\x00\x00\x0a\x02\x01\x00\x00\x00\x00", "amqp:connection:framing-error"),
        (frame_of(Open("c")) + b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x10\x45", "amqp:invalid-field"),
    ],
)
def test_each_mistake_closes_the_connection_with_its_condition(script: bytes, condition: str) -> None:
    peer = Peer()
    events = peer.connection.receive_data(AMQP_HEADER + script)
    failures = [event for event in events if isinstance(event, ConnectionFailed)]
    assert len(failures) == 1
    error = refusal(peer)
    assert error.condition == condition
    assert failures[0].error is not None
    assert failures[0].error.condition == condition


def test_a_failed_connection_waits_for_the_peers_close_and_ignores_the_rest() -> None:
    peer = open_peer()
    peer.say(End(), channel=9)
    assert peer.connection.state is ConnectionState.CLOSE_SENT
    peer.hear()
    assert peer.say(Begin(None, 0, 1, 1), channel=3) == []
    assert peer.hear() == []
    assert not peer.connection.closed
    assert peer.say(Close()) == []
    assert peer.connection.closed


def test_unreadable_frames_close_at_once() -> None:
    peer = open_peer()
    peer.connection.receive_data(b"\xff\xff\xff\xff\x02\x00\x00\x00")
    assert peer.connection.closed
    assert refusal(peer).condition == "amqp:connection:framing-error"


def test_the_peers_close_is_answered_and_reports_all_links_in_one_event() -> None:
    peer = open_peer()
    links = [peer.attach(RECEIVER, handle=1), peer.attach(RECEIVER, handle=2)]
    links[0].accept()
    peer.hear()
    events = peer.say(Close(AmqpError("amqp:connection:forced", "bye")))
    assert len(events) == 1
    closed = events[0]
    assert type(closed) is ConnectionClosed
    assert closed.links == links
    assert closed.error is not None
    assert closed.error.condition == "amqp:connection:forced"
    assert peer.bodies() == [Close()]
    assert peer.connection.closed
    assert all(link.is_gone for link in links)


def test_our_close_is_sent_once_and_the_event_follows_the_answer() -> None:
    peer = open_peer()
    link = peer.attach(RECEIVER)
    link.accept()
    peer.credit(5)
    peer.hear()
    peer.connection.close(AmqpError("amqp:connection:forced", "maintenance"))
    peer.connection.close()
    assert [type(body) for body in peer.bodies()] == [Close]
    assert link.credit == 0
    events = peer.say(Close())
    assert events == [ConnectionClosed(None, [link])]
    assert peer.connection.closed


def test_the_end_of_the_socket_gives_the_final_event_once() -> None:
    peer = open_peer()
    link = peer.attach(RECEIVER)
    assert peer.connection.receive_eof() == [ConnectionClosed(None, [link])]
    assert peer.connection.receive_eof() == []
    assert peer.connection.receive_data(frame_of(Close())) == []


def test_the_channel_of_an_ended_session_can_be_used_again() -> None:
    peer = open_peer()
    peer.say(End())
    assert peer.bodies() == [End()]
    peer.begin()
    assert [(sent.channel, type(sent.body)) for sent in peer.hear()] == [(0, Begin)]


def test_sessions_get_channels_of_ours_and_name_the_peers() -> None:
    peer = open_peer()
    peer.begin(channel=7)
    answers = peer.hear()
    assert [(sent.channel, sent.body.remote_channel) for sent in answers] == [(1, 7)]


def test_a_peer_without_channels_for_our_answers_is_refused() -> None:
    peer = Peer()
    peer.open(channel_max=0)
    peer.begin()
    peer.begin(channel=1)
    assert refusal(peer).condition == "amqp:resource-limit-exceeded"


def test_a_frame_the_peer_cannot_take_closes_the_connection() -> None:
    peer = Peer()
    peer.open(max_frame_size=512)
    peer.begin()
    link = peer.attach(RECEIVER, name="n" * 600)
    link.accept()
    assert refusal(peer).condition == "amqp:frame-size-too-small"
    events = peer.connection.receive_eof()
    assert [type(event) for event in events] == [ConnectionFailed]
    assert link.is_gone


def test_refusing_what_the_peer_cannot_take_closes_the_connection() -> None:
    peer = Peer()
    peer.open(max_frame_size=512)
    peer.begin()
    peer.attach(RECEIVER, name="n" * 600).refuse(AmqpError("amqp:not-found", "no such queue"))
    assert refusal(peer).condition == "amqp:frame-size-too-small"


def test_a_close_error_is_shortened_to_the_peers_frame_size() -> None:
    peer = Peer()
    peer.open(max_frame_size=512)
    peer.connection.close(AmqpError("amqp:internal-error", "d" * 2000))
    error = refusal(peer)
    assert error.condition == "amqp:internal-error"
    assert error.description == "d" * 100


def test_closing_before_the_peer_spoke_needs_no_frames() -> None:
    connection = Connection(container_id="broker")
    connection.close()
    assert connection.closed
    assert connection.data_to_send() == b""
    assert [type(event) for event in connection.receive_eof()] == [ConnectionClosed]
