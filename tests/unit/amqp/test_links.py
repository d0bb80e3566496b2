"""Attach, refuse, detach, end: how links live and die."""

from __future__ import annotations

import pytest

from local.broker.amqp import LinkAttached, LinkDetached, LinkState, LocalProtocolError, SessionEnded
from local.broker.amqp.performatives import (
    RECEIVER,
    SENDER,
    AmqpError,
    Attach,
    Begin,
    Close,
    Coordinator,
    Detach,
    End,
    Flow,
    Source,
    Target,
    Transfer,
)
from local.broker.amqp.types import Described, Symbol, UInt
from tests.unit.amqp.peer import Peer, open_peer, sending_peer


def test_an_attach_is_reported_with_everything_the_peer_said() -> None:
    peer = open_peer()
    source = Source("q", filter={Symbol("com.microsoft:session-filter"): None})
    events = peer.say(
        Attach("name", 5, RECEIVER, 0, 1, source, Target("t"), properties={Symbol("com.microsoft:timeout"): UInt(100)})
    )
    assert len(events) == 1
    assert isinstance(events[0], LinkAttached)
    link = events[0].link
    assert link.name == "name"
    assert link.is_sender
    assert link.source == source
    assert link.target == Target("t")
    assert link.properties == {"com.microsoft:timeout": 100}
    assert (link.snd_settle_mode, link.rcv_settle_mode) == (0, 1)
    assert link.state is LinkState.ATTACHING
    assert link.connection is peer.connection
    assert peer.hear() == []


def test_accept_repeats_the_peers_source_and_target_unless_told_otherwise() -> None:
    peer = open_peer()
    source = Source(
        "amqps://host/q",
        durable=1,
        timeout=3,
        filter={Symbol("f"): Described(Symbol("a"), "x"), Symbol("n"): None},
        outcomes=("amqp:accepted:list",),
    )
    link = peer.attach(RECEIVER, source=source, target=Target("receiver-link"), snd_settle_mode=1)
    link.accept(properties={"com.microsoft:locked-until-utc": 7}, max_message_size=1000)
    answer = peer.bodies()[0]
    assert answer == Attach(
        "link-1",
        0,
        SENDER,
        1,
        0,
        source,
        Target("receiver-link"),
        initial_delivery_count=0,
        max_message_size=1000,
        properties={"com.microsoft:locked-until-utc": 7},
    )
    assert [type(key) for key in answer.properties] == [Symbol]


def test_accept_can_state_another_source() -> None:
    peer = open_peer()
    link = peer.attach(RECEIVER)
    link.accept(source=Source("other"), initial_delivery_count=9)
    answer = peer.bodies()[0]
    assert answer.source == Source("other")
    assert answer.initial_delivery_count == 9
    assert link.source == Source("other")


def test_a_held_attach_is_answered_later() -> None:
    peer = open_peer()
    held = peer.attach(RECEIVER, handle=1)
    other = peer.attach(RECEIVER, handle=2)
    other.accept()
    assert [body.name for body in peer.bodies()] == ["link-2"]
    held.accept()
    assert [body.name for body in peer.bodies()] == ["link-1"]
    assert held.state is LinkState.ATTACHED


def test_credit_given_before_the_answer_counts() -> None:
    peer = open_peer()
    link = peer.attach(RECEIVER)
    assert peer.credit(5) == []
    assert link.credit == 0
    link.accept()
    assert link.credit == 5


def test_a_refused_link_is_attached_with_null_termini_then_closed_with_the_error() -> None:
    peer = open_peer()
    link = peer.attach(SENDER)
    link.refuse(AmqpError("amqp:not-found", "no such queue"))
    attach, detach = peer.bodies()
    assert isinstance(attach, Attach)
    assert attach.source is None
    assert attach.target is None
    assert isinstance(detach, Detach)
    assert detach.closed
    assert detach.error is not None
    assert detach.error.condition == "amqp:not-found"
    assert detach.error.info
    assert peer.say(Detach(1, True)) == []
    assert peer.hear() == []


def test_the_handle_of_a_refused_link_may_be_used_again_without_a_detach() -> None:
    """The Python client never answers the detach of a refused link."""
    peer = open_peer()
    peer.attach(SENDER, handle=1, name="a").refuse(AmqpError("amqp:not-found"))
    second = peer.attach(SENDER, handle=1, name="b")
    second.accept()
    assert second.state is LinkState.ATTACHED


def test_misuse_of_a_link_is_our_own_error() -> None:
    peer = open_peer()
    link = peer.attach(RECEIVER)
    link.accept()
    with pytest.raises(LocalProtocolError):
        link.accept()
    with pytest.raises(LocalProtocolError):
        link.refuse(AmqpError("amqp:not-found"))
    with pytest.raises(LocalProtocolError):
        link.grant_credit(1)
    with pytest.raises(LocalProtocolError):
        link.set_credit_window(1)
    incoming = peer.attach(SENDER, handle=2)
    incoming.accept()
    with pytest.raises(LocalProtocolError):
        incoming.send(b"", b"t")
    with pytest.raises(LocalProtocolError):
        incoming.drained()
    with pytest.raises(LocalProtocolError):
        incoming.grant_credit(2**32)


def test_the_peers_detach_is_answered_in_kind_and_reported() -> None:
    peer, link = sending_peer()
    error = AmqpError("amqp:internal-error", "client gave up", {"a": 1})
    events = peer.say(Detach(1, True, error))
    assert events == [LinkDetached(link, error, True)]
    assert peer.bodies() == [Detach(0, True)]
    assert link.state is LinkState.DETACHED


def test_the_peers_detach_of_a_held_attach_is_answered_with_an_attach_first() -> None:
    """Clients drop the connection at a detach for a handle they never saw."""
    peer = open_peer()
    link = peer.attach(RECEIVER)
    events = peer.say(Detach(1, True))
    assert events == [LinkDetached(link, None, True)]
    attach, detach = peer.bodies()
    assert (attach.source, attach.target) == (None, None)
    assert detach == Detach(0, True)
    link.accept()  # the broker may not have seen the event yet
    assert peer.hear() == []


def test_our_detach_is_sent_once_and_its_answer_is_not_an_event() -> None:
    peer, link = sending_peer()
    link.detach(AmqpError("amqp:link:detach-forced", "idle"))
    link.detach()
    sent = peer.bodies()
    assert [type(body) for body in sent] == [Detach]
    assert sent[0].error.condition == "amqp:link:detach-forced"
    assert peer.transfer(b"late") == []
    assert peer.say(Detach(1, True)) == []
    assert link.state is LinkState.DETACHED


def test_our_handle_is_used_again_after_a_detach() -> None:
    peer, link = sending_peer()
    second = peer.attach(SENDER, handle=2)
    peer.say(Detach(1, True))
    third = peer.attach(SENDER, handle=3)
    assert (link.handle, second.handle, third.handle) == (0, 1, 0)


def test_a_handle_in_use_ends_the_session_and_only_the_session() -> None:
    peer, link = sending_peer()
    events = peer.say(Attach("other", 1, SENDER))
    assert len(events) == 1
    assert isinstance(events[0], SessionEnded)
    assert events[0].links == [link]
    sent = peer.bodies()
    assert [type(body) for body in sent] == [End]
    assert sent[0].error.condition == "amqp:session:handle-in-use"
    assert peer.connection.is_open
    assert peer.transfer(b"ignored") == []
    assert peer.say(End()) == []
    peer.begin()
    assert [type(body) for body in peer.bodies()] == [Begin]


@pytest.mark.parametrize("performative", [Transfer(9, 0, b"t"), Detach(9), Flow(0, 1, 0, 1, handle=9)])
def test_an_unattached_handle_ends_the_session(performative: object) -> None:
    peer, _ = sending_peer()
    events = peer.say(performative)
    assert isinstance(events[0], SessionEnded)
    assert peer.bodies()[0].error.condition == "amqp:session:unattached-handle"


def test_a_handle_above_handle_max_closes_the_connection() -> None:
    peer = open_peer(max_handles=4)
    peer.say(Attach("a", 4, SENDER))
    close = peer.bodies()[-1]
    assert isinstance(close, Close)
    assert close.error is not None
    assert close.error.condition == "amqp:connection:framing-error"


def test_a_peer_without_handles_for_our_answers_has_its_session_ended() -> None:
    peer = Peer()
    peer.open()
    peer.begin(handle_max=0)
    peer.attach(SENDER, handle=0)
    peer.say(Attach("b", 1, SENDER))
    end = peer.bodies()[-1]
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.condition == "amqp:resource-limit-exceeded"


def test_a_second_link_of_the_same_name_and_role_steals_the_first() -> None:
    peer = open_peer()
    first = peer.attach(SENDER, handle=1, name="same")
    first.accept()
    peer.hear()
    events = peer.say(Attach("same", 2, SENDER))
    assert [type(event) for event in events] == [LinkDetached, LinkAttached]
    assert isinstance(events[0], LinkDetached)
    assert events[0].error is not None
    assert events[0].error.condition == "amqp:link:stolen"
    assert first.is_gone


def test_the_same_name_in_the_other_direction_is_another_link() -> None:
    peer = open_peer()
    first = peer.attach(SENDER, handle=1, name="$cbs")
    second = peer.attach(RECEIVER, handle=2, name="$cbs")
    assert not first.is_gone
    assert not second.is_gone


def test_the_peers_end_reports_its_links_in_one_event() -> None:
    peer, link = sending_peer()
    held = peer.attach(RECEIVER, handle=2)
    events = peer.say(End(AmqpError("amqp:internal-error")))
    assert len(events) == 1
    assert isinstance(events[0], SessionEnded)
    assert events[0].links == [link, held]
    assert peer.bodies() == [End()]
    assert link.is_gone


def test_ending_a_session_ourselves_silences_its_links() -> None:
    peer, link = sending_peer()
    link.session.end(AmqpError("amqp:internal-error", "over"))
    assert link.credit == 0
    assert [type(body) for body in peer.bodies()] == [End]
    assert peer.transfer(b"late") == []
    events = peer.say(End())
    assert isinstance(events[0], SessionEnded)
    assert events[0].links == [link]


def test_a_coordinator_target_reaches_the_broker() -> None:
    peer = open_peer()
    link = peer.attach(SENDER, target=Coordinator(("amqp:local-transactions",)))
    assert link.target == Coordinator(("amqp:local-transactions",))


def test_an_unknown_kind_of_target_reaches_the_broker_as_it_is() -> None:
    peer = open_peer()
    unknown = Described(Symbol("example:target:list"), ["x"])
    link = peer.attach(SENDER, target=unknown)
    assert link.target == unknown
    link.accept()
    assert peer.bodies()[0].target == unknown
