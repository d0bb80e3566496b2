"""Transfers to the peer: frames, credit, drain, session windows, dispositions."""

from __future__ import annotations

import pytest

from local.broker.amqp import DeliveryReceived, DeliveryUpdated, LinkDetached, LinkFlow, LocalProtocolError
from local.broker.amqp.performatives import (
    RECEIVER,
    SENDER,
    Accepted,
    AmqpError,
    Attach,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
    Transfer,
)
from tests.unit.amqp.peer import Peer, frame_of, open_peer, receiving_peer

_TAG = bytes(range(16))


def transfers(peer: Peer) -> list[tuple[Transfer, bytes]]:
    return [(sent.body, sent.payload) for sent in peer.hear() if isinstance(sent.body, Transfer)]


def test_a_small_message_goes_in_one_frame() -> None:
    peer, link = receiving_peer()
    delivery = link.send(b"payload", _TAG, message_format=5)
    assert transfers(peer) == [(Transfer(0, 0, _TAG, 5, settled=False), b"payload")]
    assert (delivery.id, delivery.tag, delivery.settled) == (0, _TAG, False)
    assert link.credit == 99


def test_delivery_ids_count_up_over_all_links_of_the_session() -> None:
    peer, link = receiving_peer()
    second = peer.attach(RECEIVER, handle=2)
    second.accept()
    peer.credit(5, handle=2)
    assert [link.send(b"", b"a").id, second.send(b"", b"b").id, link.send(b"", b"c").id] == [0, 1, 2]


def test_a_settled_message_may_have_an_empty_tag() -> None:
    peer, link = receiving_peer()
    delivery = link.send(b"x", b"", settled=True)
    assert transfers(peer)[0][0] == Transfer(0, 0, b"", 0, settled=True)
    delivery.settle(Accepted())
    assert peer.hear() == []


def test_a_large_message_is_split_to_the_peers_frame_size() -> None:
    peer, link = receiving_peer(max_frame_size=512)
    payload = bytes(range(256)) * 8
    link.send(payload, _TAG)
    data = peer.connection.data_to_send()
    sizes = []
    pos = 0
    while pos < len(data):
        sizes.append(int.from_bytes(data[pos : pos + 4], "big"))
        pos += sizes[-1]
    assert max(sizes) == 512
    assert len(sizes) > 4


def test_the_frames_of_a_large_message_join_to_its_payload() -> None:
    peer, link = receiving_peer(max_frame_size=600)
    payload = bytes(range(256)) * 8
    link.send(payload, _TAG)
    frames = transfers(peer)
    assert b"".join(part for _, part in frames) == payload
    assert [transfer.more for transfer, _ in frames] == [True] * (len(frames) - 1) + [False]
    assert {transfer.delivery_id for transfer, _ in frames} == {0}


@pytest.mark.parametrize("delta", [-1, 0, 1])
def test_a_message_at_the_edge_of_a_frame_is_whole(delta: int) -> None:
    peer, link = receiving_peer(max_frame_size=512)
    link.send(b"", _TAG)
    peer.hear()
    link.send(b"", _TAG)
    overhead = len(peer.connection.data_to_send())
    payload = b"x" * (512 - overhead + delta)
    link.send(payload, _TAG)
    frames = transfers(peer)
    assert len(frames) == (2 if delta > 0 else 1)
    assert b"".join(part for _, part in frames) == payload


def test_sending_needs_credit() -> None:
    peer, link = receiving_peer(credit=1)
    link.send(b"x", _TAG)
    with pytest.raises(LocalProtocolError):
        link.send(b"x", _TAG)
    peer.credit(1, delivery_count=1)
    link.send(b"x", _TAG)


def test_a_tag_above_32_octets_is_our_own_error() -> None:
    _, link = receiving_peer()
    with pytest.raises(LocalProtocolError):
        link.send(b"x", b"t" * 33)


def test_credit_counts_from_what_the_peer_has_seen() -> None:
    peer, link = receiving_peer(credit=10)
    for _ in range(4):
        link.send(b"x", _TAG)
    peer.credit(10, delivery_count=1)
    assert link.credit == 7


def test_credit_the_peer_took_back_never_shows_as_negative() -> None:
    """A client that closes sends credit 0 with a delivery-count that lags behind ours."""
    peer, link = receiving_peer(credit=10)
    for _ in range(4):
        link.send(b"x", _TAG)
    peer.credit(0, delivery_count=0)
    assert link.credit == 0
    with pytest.raises(LocalProtocolError):
        link.send(b"x", _TAG)
    peer.credit(1, delivery_count=4)
    assert link.credit == 1


def test_the_largest_credit_is_taken_as_it_is() -> None:
    peer, link = receiving_peer(credit=1)
    peer.credit(4_294_967_295)
    assert link.credit == 4_294_967_295


def test_credit_survives_the_wrap_of_the_delivery_count() -> None:
    peer = open_peer()
    link = peer.attach(RECEIVER)
    link.accept(initial_delivery_count=4_294_967_295)
    peer.credit(5, delivery_count=4_294_967_295)
    link.send(b"x", _TAG)
    link.send(b"x", _TAG)
    assert link.credit == 3
    peer.credit(5, delivery_count=1)
    assert link.credit == 5


def test_a_flow_of_the_peer_is_an_event() -> None:
    peer, link = receiving_peer()
    assert peer.credit(5) == [LinkFlow(link)]
    assert not link.drain


def test_a_drain_is_answered_with_the_credit_given_back() -> None:
    peer, link = receiving_peer(credit=10)
    link.send(b"x", _TAG)
    peer.hear()
    peer.credit(9, delivery_count=1, drain=True)
    assert (link.credit, link.drain) == (9, True)
    link.send(b"x", _TAG)
    link.drained()
    sent = peer.bodies()
    assert isinstance(sent[0], Transfer)
    assert (sent[1].delivery_count, sent[1].link_credit, sent[1].drain) == (10, 0, True)
    assert (link.credit, link.drain) == (0, False)
    link.drained()
    assert peer.hear() == []


def test_a_drain_with_no_or_negative_credit_is_answered_too() -> None:
    peer, link = receiving_peer(credit=10)
    for _ in range(4):
        link.send(b"x", _TAG)
    peer.hear()
    peer.credit(0, delivery_count=0, drain=True)
    link.drained()
    answer = peer.bodies()[0]
    assert (answer.delivery_count, answer.link_credit, answer.drain) == (4, 0, True)


def test_an_echo_on_a_link_we_send_on_is_answered_and_reported() -> None:
    peer, link = receiving_peer(credit=10)
    assert peer.credit(7, echo=True) == [LinkFlow(link)]
    answer = peer.bodies()[0]
    assert (answer.handle, answer.delivery_count, answer.link_credit) == (0, 0, 7)


def test_transfers_wait_for_the_session_window_and_then_go_out() -> None:
    peer, link = receiving_peer(window=2)
    for body in (b"a", b"b", b"c", b"d"):
        link.send(body, _TAG)
    assert [part for _, part in transfers(peer)] == [b"a", b"b"]
    peer.say(Flow(2, 1, 0, 100))
    assert [part for _, part in transfers(peer)] == [b"c"]
    peer.say(Flow(3, 10, 0, 100))
    assert [part for _, part in transfers(peer)] == [b"d"]
    assert link.session._backlog_bytes == 0


def test_frames_of_one_message_wait_for_the_window_in_order() -> None:
    peer, link = receiving_peer(window=1, max_frame_size=512)
    payload = bytes(range(256)) * 4
    link.send(payload, _TAG)
    got = [part for _, part in transfers(peer)]
    for seen in range(1, 5):
        peer.say(Flow(seen, 1, 0, 100))
        got += [part for _, part in transfers(peer)]
    assert b"".join(got) == payload


def test_a_flow_that_lags_behind_does_not_open_the_window_twice() -> None:
    peer, link = receiving_peer(window=2)
    for body in (b"a", b"b", b"c"):
        link.send(body, _TAG)
    peer.hear()
    peer.say(Flow(0, 2, 0, 100))
    assert transfers(peer) == []


def test_a_flow_without_next_incoming_id_counts_from_the_first_transfer() -> None:
    peer, link = receiving_peer(window=0)
    link.send(b"a", _TAG)
    assert transfers(peer) == []
    peer.say(Flow(None, 1, 0, 100))
    assert [part for _, part in transfers(peer)] == [b"a"]


def test_waiting_links_take_turns() -> None:
    peer, link = receiving_peer(window=0, max_frame_size=512)
    second = peer.attach(RECEIVER, handle=2)
    second.accept()
    peer.credit(5, handle=2, incoming_window=0)
    peer.hear()
    link.send(b"x" * 2000, b"long")
    second.send(b"short", b"short")
    peer.say(Flow(0, 3, 0, 100))
    assert [transfer.delivery_tag for transfer, _ in transfers(peer)] == [b"long", b"short", b"long"]


def test_a_full_backlog_shows_no_credit_until_it_drains() -> None:
    peer, link = receiving_peer(window=0, max_backlog_bytes=1000)
    link.send(b"x" * 1000, _TAG)
    assert link.credit == 0
    with pytest.raises(LocalProtocolError):
        link.send(b"x", _TAG)
    assert peer.say(Flow(0, 10, 0, 100)) == [LinkFlow(link)]
    assert link.credit == 99


def test_the_answer_to_a_drain_does_not_overtake_waiting_transfers() -> None:
    peer, link = receiving_peer(window=0)
    peer.credit(5, drain=True, incoming_window=0)
    link.send(b"a", _TAG)
    link.drained()
    assert peer.hear() == []
    peer.say(Flow(0, 5, 0, 100))
    assert [type(body) for body in peer.bodies()] == [Transfer, Flow]


def test_detaching_drops_waiting_transfers() -> None:
    peer, link = receiving_peer(window=0)
    link.send(b"a", _TAG)
    peer.say(Detach(1, True))
    peer.hear()
    peer.say(Flow(0, 5, 0, 100))
    assert peer.hear() == []
    assert link.session._backlog_bytes == 0


def test_a_disposition_is_one_event_per_delivery() -> None:
    peer, link = receiving_peer()
    deliveries = [link.send(b"x", _TAG) for _ in range(4)]
    events = peer.say(Disposition(RECEIVER, 1, 2, False, Accepted()))
    assert events == [
        DeliveryUpdated(link, deliveries[1], Accepted(), False),
        DeliveryUpdated(link, deliveries[2], Accepted(), False),
    ]


def test_an_unsettled_outcome_is_answered_with_a_settled_one() -> None:
    peer, link = receiving_peer()
    delivery = link.send(b"x", _TAG)
    peer.hear()
    outcome = Modified(True, False)
    events = peer.say(Disposition(RECEIVER, 0, None, False, outcome))
    assert isinstance(events[0], DeliveryUpdated)
    delivery.settle(events[0].state)
    assert peer.bodies() == [Disposition(SENDER, 0, 0, True, outcome)]
    assert peer.say(Disposition(RECEIVER, 0, 0, True, outcome)) == []


def test_a_settled_outcome_needs_no_answer() -> None:
    peer, link = receiving_peer()
    delivery = link.send(b"x", _TAG)
    peer.hear()
    assert peer.say(Disposition(RECEIVER, 0, 0, True, Released())) == [
        DeliveryUpdated(link, delivery, Released(), True)
    ]
    assert delivery.settled
    delivery.settle(Accepted())
    assert peer.hear() == []


def test_a_dead_letter_with_reason_and_description_arrives_whole() -> None:
    peer, link = receiving_peer()
    link.send(b"x", _TAG)
    error = AmqpError("com.microsoft:dead-letter", None, {"DeadLetterReason": "r", "DeadLetterErrorDescription": None})
    events = peer.say(Disposition(RECEIVER, 0, 0, False, Rejected(error)))
    assert isinstance(events[0], DeliveryUpdated)
    assert isinstance(events[0].state, Rejected)
    assert events[0].state.error is not None
    assert events[0].state.error.info == {"DeadLetterReason": "r", "DeadLetterErrorDescription": None}


def test_dispositions_for_unknown_deliveries_are_ignored() -> None:
    peer, link = receiving_peer()
    link.send(b"x", _TAG)
    assert peer.say(Disposition(RECEIVER, 50, 60, True, Accepted())) == []
    assert peer.connection.is_open


def test_a_disposition_over_the_whole_id_space_costs_only_what_is_unsettled() -> None:
    peer, link = receiving_peer()
    delivery = link.send(b"x", _TAG)
    events = peer.say(Disposition(RECEIVER, 0, 2**31 - 1, True, Accepted()))
    assert events == [DeliveryUpdated(link, delivery, Accepted(), True)]


def test_a_range_that_runs_backwards_ends_the_session() -> None:
    peer, _ = receiving_peer()
    peer.say(Disposition(RECEIVER, 5, 3, True, Accepted()))
    end = peer.bodies()[-1]
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.condition == "amqp:invalid-field"


def test_the_deliveries_of_a_detached_link_are_forgotten() -> None:
    peer, link = receiving_peer()
    delivery = link.send(b"x", _TAG)
    link.detach()
    peer.hear()
    assert peer.say(Disposition(RECEIVER, 0, 0, False, Accepted())) == []
    delivery.settle(Accepted())
    assert peer.hear() == []


def test_a_forgotten_delivery_is_no_longer_reported() -> None:
    peer, link = receiving_peer()
    link.send(b"x", _TAG).forget()
    assert peer.say(Disposition(RECEIVER, 0, 0, False, Accepted())) == []


def test_the_oldest_unsettled_delivery_makes_room_for_the_newest() -> None:
    peer, link = receiving_peer(max_unsettled=2)
    deliveries = [link.send(b"x", _TAG) for _ in range(3)]
    events = peer.say(Disposition(RECEIVER, 0, 2, False, Accepted()))
    assert [event.delivery for event in events if isinstance(event, DeliveryUpdated)] == deliveries[1:]


def test_a_link_that_is_gone_by_the_time_of_its_event_has_no_credit() -> None:
    peer = open_peer()
    link = peer.attach(RECEIVER)
    link.accept()
    flow, detach = Flow(0, 100, 0, 100, 1, 0, 5), Detach(1, True)
    events = peer.connection.receive_data(frame_of(flow) + frame_of(detach))
    assert [type(event) for event in events] == [LinkFlow, LinkDetached]
    assert link.credit == 0


def test_attach_and_detach_in_one_read_leave_nothing_to_answer() -> None:
    peer = open_peer()
    attach = Attach("a", 1, RECEIVER, source=Source("q"), target=Target("t"))
    events = peer.connection.receive_data(frame_of(attach) + frame_of(Detach(1, True)))
    peer.hear()
    link = events[0].link  # type: ignore[union-attr]
    link.accept()
    link.detach()
    assert peer.hear() == []


def test_the_peers_word_as_a_sender_does_not_touch_our_delivery_of_the_same_id() -> None:
    peer, link = receiving_peer()
    delivery = link.send(b"x", _TAG)
    assert peer.say(Disposition(SENDER, 0, 0, True, Accepted())) == []
    assert not delivery.settled


def test_forgetting_a_received_delivery_does_not_touch_ours_of_the_same_id() -> None:
    peer, link = receiving_peer()
    ours = link.send(b"x", _TAG)
    incoming = peer.attach(SENDER, handle=2)
    incoming.accept()
    events = peer.transfer(b"y", ours.id, handle=2)
    assert isinstance(events[0], DeliveryReceived)
    events[0].delivery.forget()
    assert peer.say(Disposition(RECEIVER, 0, 0, False, Accepted())) == [DeliveryUpdated(link, ours, Accepted(), False)]


def test_a_delivery_that_made_room_can_no_longer_be_settled() -> None:
    peer, link = receiving_peer(max_unsettled=1)
    oldest = link.send(b"x", _TAG)
    link.send(b"x", _TAG)
    peer.hear()
    oldest.settle(Accepted())
    assert peer.hear() == []
