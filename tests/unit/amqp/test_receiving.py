"""Transfers from the peer: assembly, settlement, credit, limits."""

from __future__ import annotations

from typing import Any

from local.broker.amqp import Delivery, DeliveryReceived, Event, LinkDetached
from local.broker.amqp.performatives import (
    RECEIVER,
    SENDER,
    Accepted,
    AmqpError,
    Close,
    Declared,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Rejected,
    Released,
    TransactionalState,
    Transfer,
)
from tests.unit.amqp.peer import frame_of, open_peer, receiving_peer, sending_peer


def received(events: list[Event]) -> list[Delivery]:
    return [event.delivery for event in events if isinstance(event, DeliveryReceived)]


def condition(events: list[Event]) -> str:
    """The error of the one detach the engine made."""
    detached = [event for event in events if isinstance(event, LinkDetached)]
    assert len(detached) == 1
    assert detached[0].error is not None
    return detached[0].error.condition


def test_a_single_frame_is_one_delivery() -> None:
    peer, link = sending_peer()
    delivery = received(peer.transfer(b"payload", 7, delivery_tag=b"\x00\x01", message_format=0x80013700))[0]
    assert delivery.payload == b"payload"
    assert delivery.tag == b"\x00\x01"
    assert delivery.id == 7
    assert delivery.message_format == 0x80013700
    assert delivery.link is link
    assert not delivery.settled


def test_settling_answers_with_one_settled_disposition_and_only_once() -> None:
    peer, _ = sending_peer()
    delivery = received(peer.transfer(b"x", 7))[0]
    delivery.settle(Accepted())
    delivery.settle(Released())
    assert peer.bodies() == [Disposition(RECEIVER, 7, 7, True, Accepted())]


def test_every_outcome_reaches_the_peer() -> None:
    peer, _ = sending_peer()
    error = AmqpError("amqp:link:message-size-exceeded", "d" * 400, {"a": "b"})
    outcomes: list[Any] = [
        Accepted(),
        Released(),
        Rejected(error),
        Rejected(),
        Modified(True, False, {"x": 1}),
        Declared(b"txn"),
        TransactionalState(b"txn", Accepted()),
        None,
    ]
    for delivery_id, outcome in enumerate(outcomes):
        received(peer.transfer(b"x", delivery_id))[0].settle(outcome)
    assert [body.state for body in peer.bodies()] == outcomes


def test_a_settled_transfer_needs_no_answer() -> None:
    peer, _ = sending_peer()
    delivery = received(peer.transfer(b"x", settled=True))[0]
    assert delivery.settled
    delivery.settle(Accepted())
    assert peer.hear() == []


def test_several_frames_make_one_delivery() -> None:
    peer, _ = sending_peer()
    assert peer.transfer(b"one ", 3, more=True) == []
    assert peer.transfer(b"two ", None, delivery_tag=None, message_format=None, more=True) == []
    events = peer.transfer(b"three", None, delivery_tag=None, message_format=None)
    assert [delivery.payload for delivery in received(events)] == [b"one two three"]
    assert received(events)[0].id == 3
    assert peer.connection.partial_bytes == 0


def test_frames_may_repeat_id_tag_and_format() -> None:
    peer, _ = sending_peer()
    peer.transfer(b"one ", 3, more=True)
    assert [delivery.payload for delivery in received(peer.transfer(b"two", 3))] == [b"one two"]


def test_settled_on_any_frame_settles_the_delivery() -> None:
    peer, _ = sending_peer()
    peer.transfer(b"a", 3, more=True, settled=True)
    assert received(peer.transfer(b"b", None))[0].settled


def test_deliveries_of_two_links_may_interleave() -> None:
    peer, _ = sending_peer()
    second = peer.attach(SENDER, handle=2)
    second.accept()
    second.grant_credit(5)
    peer.transfer(b"a1", 0, handle=1, more=True)
    peer.transfer(b"b1", 1, handle=2, more=True)
    assert received(peer.transfer(b"a2", 0, handle=1))[0].payload == b"a1a2"
    assert received(peer.transfer(b"b2", 1, handle=2))[0].payload == b"b1b2"


def test_an_aborted_delivery_is_dropped() -> None:
    peer, _ = sending_peer()
    peer.transfer(b"one", 3, more=True)
    assert peer.transfer(b"ignored", None, aborted=True) == []
    assert peer.connection.partial_bytes == 0
    assert [delivery.payload for delivery in received(peer.transfer(b"next", 4))] == [b"next"]


def test_an_aborted_single_frame_is_dropped() -> None:
    peer, link = sending_peer(credit=10)
    assert peer.transfer(b"ignored", 3, aborted=True) == []
    assert link.credit == 9


def test_duplicate_delivery_ids_are_separate_deliveries_answered_with_the_id_given() -> None:
    """Threads of the Python client that share a management link reuse ids and tags."""
    peer, _ = sending_peer()
    deliveries = [received(peer.transfer(body, 1))[0] for body in (b"a", b"b", b"c")]
    assert [delivery.payload for delivery in deliveries] == [b"a", b"b", b"c"]
    for delivery in deliveries:
        delivery.settle(Accepted())
    assert peer.bodies() == [Disposition(RECEIVER, 1, 1, True, Accepted())] * 3


def test_another_delivery_inside_an_unfinished_one_detaches_the_link() -> None:
    peer, _ = sending_peer()
    peer.transfer(b"a", 1, more=True)
    assert condition(peer.transfer(b"b", 2)) == "amqp:invalid-field"


def test_a_first_frame_without_a_delivery_id_detaches_the_link() -> None:
    peer, _ = sending_peer()
    assert condition(peer.transfer(b"a", None)) == "amqp:invalid-field"


def test_a_missing_tag_and_format_are_read_as_empty_and_zero() -> None:
    peer, _ = sending_peer()
    delivery = received(peer.transfer(b"a", 0, delivery_tag=None, message_format=None))[0]
    assert (delivery.tag, delivery.message_format) == (b"", 0)


def test_resuming_a_delivery_is_refused_by_name() -> None:
    peer, _ = sending_peer()
    assert condition(peer.transfer(b"a", 0, resume=True)) == "amqp:not-implemented"


def test_a_delivery_above_the_limit_detaches_the_link() -> None:
    peer, link = sending_peer(max_message_size=100)
    assert received(peer.transfer(b"x" * 100, 0))[0].payload == b"x" * 100
    peer.transfer(b"x" * 60, 1, more=True)
    assert condition(peer.transfer(b"x" * 60, 1, more=True)) == "amqp:link:message-size-exceeded"
    detach = peer.bodies()[-1]
    assert isinstance(detach, Detach)
    assert detach.closed
    assert peer.connection.partial_bytes == 0
    assert link.is_gone
    assert peer.transfer(b"x" * 60, 1) == []


def test_a_single_frame_above_the_limit_detaches_the_link() -> None:
    peer, _ = sending_peer(max_message_size=100)
    assert condition(peer.transfer(b"x" * 101)) == "amqp:link:message-size-exceeded"


def test_unfinished_deliveries_of_all_links_together_are_bounded() -> None:
    peer, _ = sending_peer(max_message_size=100, max_partial_bytes=150)
    second = peer.attach(SENDER, handle=2)
    second.accept()
    peer.transfer(b"x" * 90, 0, handle=1, more=True)
    assert condition(peer.transfer(b"x" * 90, 1, handle=2, more=True)) == "amqp:resource-limit-exceeded"
    assert peer.connection.partial_bytes == 90
    peer.say(End())
    assert peer.connection.partial_bytes == 0


def test_a_credit_window_is_topped_up_at_half() -> None:
    peer, link = sending_peer(credit=0)
    link.set_credit_window(10)
    assert [body.link_credit for body in peer.bodies()] == [10]
    for delivery_id in range(4):
        peer.transfer(b"x", delivery_id)
    assert peer.hear() == []
    peer.transfer(b"x", 4)
    flow = peer.bodies()[-1]
    assert isinstance(flow, Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit) == (0, 5, 10)


def test_a_credit_window_set_before_accept_is_granted_with_it() -> None:
    peer = open_peer()
    link = peer.attach(SENDER, initial_delivery_count=40)
    link.set_credit_window(10)
    assert peer.hear() == []
    link.accept()
    flow = peer.bodies()[-1]
    assert (flow.delivery_count, flow.link_credit) == (40, 10)


def test_the_senders_advanced_delivery_count_takes_credit_away() -> None:
    peer, link = sending_peer(credit=10)
    peer.credit(0, delivery_count=4)
    assert link.credit == 6
    peer.credit(0, delivery_count=2)
    assert link.credit == 6


def test_sending_somewhat_beyond_the_credit_is_tolerated_and_far_beyond_is_not() -> None:
    peer, link = sending_peer(credit=1, credit_overrun=3)
    for delivery_id in range(4):
        assert len(received(peer.transfer(b"x", delivery_id))) == 1
    assert link.credit == 0
    assert condition(peer.transfer(b"x", 4)) == "amqp:link:transfer-limit-exceeded"


def test_a_transfer_on_a_held_link_refuses_it() -> None:
    peer = open_peer()
    peer.attach(SENDER)
    assert condition(peer.transfer(b"x")) == "amqp:link:transfer-limit-exceeded"
    attach, detach = peer.bodies()
    assert (attach.source, attach.target) == (None, None)
    assert detach.error.condition == "amqp:link:transfer-limit-exceeded"


def test_a_transfer_on_a_link_we_send_on_ends_the_session() -> None:
    peer, _ = receiving_peer()
    peer.transfer(b"x")
    end = peer.bodies()[-1]
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.condition == "amqp:not-allowed"


def test_the_session_window_is_reopened_before_it_is_used_up() -> None:
    peer, _ = sending_peer(credit=1000, incoming_window=10)
    for delivery_id in range(5):
        peer.transfer(b"x", delivery_id)
    flow = peer.bodies()[-1]
    assert isinstance(flow, Flow)
    assert (flow.handle, flow.incoming_window, flow.next_incoming_id) == (None, 10, 5)


def test_an_echo_is_answered_for_a_link_and_for_a_session() -> None:
    peer, _ = sending_peer(credit=10)
    peer.credit(0, echo=True)
    answer = peer.bodies()[-1]
    assert (answer.handle, answer.link_credit, answer.echo) == (0, 10, False)
    peer.say(Flow(0, 10, 0, 10, echo=True))
    answer = peer.bodies()[-1]
    assert (answer.handle, answer.next_incoming_id) == (None, 0)


def test_settling_after_the_link_is_gone_says_nothing() -> None:
    peer, _ = sending_peer()
    delivery = received(peer.transfer(b"x"))[0]
    peer.say(Detach(1, True))
    peer.hear()
    delivery.settle(Accepted())
    assert peer.hear() == []


def test_the_peers_word_on_its_own_deliveries_changes_nothing() -> None:
    peer, _ = sending_peer()
    delivery = received(peer.transfer(b"x"))[0]
    assert peer.say(Disposition(SENDER, 0, 0, True, Accepted())) == []
    assert not delivery.settled


def test_a_transfer_may_not_reach_into_the_next_frame() -> None:
    peer, _ = sending_peer()
    frame = bytearray(frame_of(Transfer(1, 0, b"tag")))
    frame[3] -= 4  # the frame now ends inside its own field list, and the next one supplies the rest
    peer.connection.receive_data(bytes(frame) + frame_of(Transfer(1, 1, b"tag")))
    close = peer.bodies()[-1]
    assert isinstance(close, Close)
    assert close.error is not None
    assert close.error.condition == "amqp:decode-error"


def test_only_a_transfer_may_carry_a_payload() -> None:
    peer, _ = sending_peer()
    peer.say(Detach(1, True), payload=b"junk")
    close = peer.bodies()[-1]
    assert isinstance(close, Close)
    assert close.error is not None
    assert close.error.condition == "amqp:decode-error"
