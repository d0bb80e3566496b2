"""Whatever a peer sends, in whatever pieces: no exception, bounded memory, and a proper close."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from local.broker.amqp import (
    Connection,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    DeliveryReceived,
    DeliveryUpdated,
    Event,
    Limits,
    LinkAttached,
    LinkFlow,
)
from local.broker.amqp.codec import encode
from local.broker.amqp.frames import AMQP_FRAME, AMQP_HEADER, SASL_FRAME, SASL_HEADER, encode_frame
from local.broker.amqp.performatives import (
    Accepted,
    AmqpError,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Received,
    Rejected,
    SaslInit,
    Source,
    Target,
    Transfer,
    encode_composite,
)
from local.broker.amqp.types import Described, ULong
from tests.property.amqp.strategies import values
from tests.unit.amqp.peer import frame_of, read_frames

_LIMITS = Limits(
    max_message_size=2_000,
    max_partial_bytes=5_000,
    max_handles=8,
    max_sessions=4,
    max_unsettled=50,
    max_backlog_bytes=4_000,
    incoming_window=20,
    credit_overrun=30,
)
_CONDITIONS = frozenset(
    (
        "amqp:decode-error",
        "amqp:connection:framing-error",
        "amqp:illegal-state",
        "amqp:invalid-field",
        "amqp:not-allowed",
        "amqp:resource-limit-exceeded",
        "amqp:unauthorized-access",
        "amqp:frame-size-too-small",
    )
)


class Shell:
    """A broker that answers everything the engine reports, and watches what it holds."""

    def __init__(self) -> None:
        self.connection = Connection(container_id="broker", max_frame_size=4_096, idle_timeout_ms=1_000, limits=_LIMITS)
        self.events: list[Event] = []
        self.output = b""

    def receive(self, data: bytes) -> None:
        for event in self.connection.receive_data(data):
            self.events.append(event)
            self._answer(event)
        self.output += self.connection.data_to_send()
        self._check_bounds()

    def _answer(self, event: Event) -> None:
        if isinstance(event, LinkAttached):
            number = len(self.events) % 4
            if number == 3:
                event.link.refuse(AmqpError("amqp:not-found", "no"))
            elif number:
                event.link.accept()
                if not event.link.is_sender:
                    event.link.set_credit_window(10)
        elif isinstance(event, LinkFlow):
            for _ in range(min(event.link.credit, 20)):
                if event.link.credit:
                    event.link.send(b"m" * 700, b"tag")
            if event.link.drain:
                event.link.drained()
        elif isinstance(event, DeliveryReceived):
            event.delivery.settle(Accepted())
        elif isinstance(event, DeliveryUpdated):
            event.delivery.settle(event.state)

    def _check_bounds(self) -> None:
        connection = self.connection
        assert 0 <= connection.partial_bytes <= _LIMITS.max_partial_bytes
        assert len(connection.links) <= _LIMITS.max_handles * _LIMITS.max_sessions
        for session in connection._sessions.values():
            assert len(session.unsettled) <= _LIMITS.max_unsettled
            assert 0 <= session._backlog_bytes <= _LIMITS.max_backlog_bytes + 2_000
            counted = sum(link.unsettled_count for link in session.links)
            assert counted == len(session.unsettled)

    def check_ending(self) -> None:
        """The final event comes once, last, and what the peer was told fits it."""
        self.connection.tick(0.0)
        self.connection.tick(1_000.0)
        self.events += self.connection.receive_eof()
        self.output += self.connection.data_to_send()
        endings = [event for event in self.events if isinstance(event, ConnectionClosed)]
        assert endings == self.events[-1:]
        assert self.connection.closed
        assert self.connection.links == []
        assert self.connection.partial_bytes == 0
        frames = read_frames(self.output)
        closes = [frame.body for frame in frames if isinstance(frame.body, Close)]
        assert len(closes) <= 1
        assert not closes or frames[-1].body is closes[0]
        failed = endings[0]
        if isinstance(failed, ConnectionFailed):
            assert failed.error is not None
            assert failed.error.condition in _CONDITIONS
        if any(isinstance(event, ConnectionOpened) for event in self.events):
            assert len(closes) == 1


_small = st.integers(0, 9)
_number = _small | st.sampled_from([2**31 - 1, 2**31, 2**32 - 1])
_maybe = st.none() | _number
_flag = st.booleans()
_name = st.sampled_from(["a", "b", "c", "n" * 300])
_state = st.sampled_from([None, Accepted(), Rejected(AmqpError("amqp:x")), Received(1, 2), Described(ULong(99), [])])

#: Well-formed performatives that make more or less sense.
performatives: st.SearchStrategy[Any] = st.one_of(
    st.builds(Open, _name, max_frame_size=st.sampled_from([100, 512, 2**32 - 1]), channel_max=st.sampled_from([0, 9])),
    st.builds(Begin, st.sampled_from([None, None, 1]), _number, _number, _number, handle_max=_number),
    st.builds(Attach, _name, _small, _flag, source=st.just(Source("q")), target=st.just(Target("q"))),
    st.builds(Flow, _maybe, _number, _number, _number, _maybe, _maybe, _maybe, _maybe, _flag, _flag),
    st.builds(
        Transfer,
        _small,
        _maybe,
        st.none() | st.binary(max_size=4),
        _maybe,
        _flag,
        _flag,
        st.none(),
        _state,
        st.sampled_from([False, False, False, True]),
        st.sampled_from([False, False, False, True]),
    ),
    st.builds(Disposition, _flag, _number, _maybe, _flag, _state),
    st.builds(Detach, _small, _flag),
    st.builds(End),
    st.builds(Close),
)
_channels = st.sampled_from([0, 0, 0, 1, 2, 65_535])
sensible_frames = st.builds(frame_of, performatives, st.binary(max_size=1_500), _channels)
strange_frames = st.builds(
    lambda kind, channel, body: encode_frame(kind, channel, body),
    st.sampled_from([AMQP_FRAME, AMQP_FRAME, SASL_FRAME, 7]),
    _channels,
    st.binary(max_size=60)
    | st.builds(lambda code, value: b"\x00\x53" + bytes((code,)) + encode(value), st.integers(0x10, 0x44), values),
)
prefix = (
    AMQP_HEADER
    + frame_of(Open("client", max_frame_size=2_048))
    + frame_of(Begin(None, 0, 8, 100))
    + frame_of(Attach("in", 0, False, source=Source("q"), target=Target("q")))
    + frame_of(Attach("out", 1, True, source=Source("q"), target=Target("q")))
    + frame_of(Flow(0, 8, 0, 100, 1, 0, 50))
)


def in_pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(edges)]


def run(script: bytes, cuts: Sequence[int]) -> Shell:
    shell = Shell()
    for piece in in_pieces(script, cuts):
        shell.receive(piece)
    shell.check_ending()
    return shell


_cuts = st.lists(st.integers(0, 10_000), max_size=6)


@given(st.binary(max_size=200), _cuts)
def test_random_octets(data: bytes, cuts: list[int]) -> None:
    run(data, cuts)


@given(st.binary(max_size=100), _cuts, st.sampled_from([SASL_HEADER, AMQP_HEADER, prefix]))
def test_random_octets_after_a_good_start(data: bytes, cuts: list[int], start: bytes) -> None:
    run(start + data, cuts)


@given(st.lists(sensible_frames, max_size=25), _cuts)
@settings(max_examples=400, deadline=None)
def test_performatives_in_any_order(frames: list[bytes], cuts: list[int]) -> None:
    run(prefix + b"".join(frames), cuts)


@given(st.lists(sensible_frames | strange_frames, max_size=12), _cuts)
@settings(max_examples=300, deadline=None)
def test_frames_with_wrong_types_and_unknown_bodies(frames: list[bytes], cuts: list[int]) -> None:
    run(prefix + b"".join(frames), cuts)


_mutations = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=5)
_SASL_START = SASL_HEADER + encode_frame(SASL_FRAME, 0, encode_composite(SaslInit("ANONYMOUS")))


@given(st.lists(sensible_frames, max_size=6), _mutations, _cuts, st.booleans())
@settings(max_examples=400, deadline=None)
def test_valid_conversations_with_some_octets_changed(
    frames: list[bytes], mutations: list[tuple[int, int]], cuts: list[int], with_sasl: bool
) -> None:
    script = bytearray((_SASL_START if with_sasl else b"") + prefix + b"".join(frames))
    for position, octet in mutations:
        script[position % len(script)] = octet
    run(bytes(script), cuts)


@given(st.lists(sensible_frames, max_size=6), st.integers(0, 10_000))
@settings(deadline=None)
def test_a_conversation_that_stops_anywhere(frames: list[bytes], cut: int) -> None:
    script = prefix + b"".join(frames)
    run(script[: cut % (len(script) + 1)], [])


@given(st.lists(sensible_frames, max_size=10), _cuts)
@settings(deadline=None)
def test_how_the_octets_are_cut_makes_no_difference(frames: list[bytes], cuts: list[int]) -> None:
    """Also the safety of reading past a frame's end: later octets may not matter to earlier frames."""
    script = prefix + b"".join(frames)
    whole, pieces = Connection(container_id="b", limits=_LIMITS), Connection(container_id="b", limits=_LIMITS)
    one = [type(event) for event in whole.receive_data(script)]
    other = [type(event) for piece in in_pieces(script, cuts) for event in pieces.receive_data(piece)]
    assert one == other
    assert whole.data_to_send() == pieces.data_to_send()
