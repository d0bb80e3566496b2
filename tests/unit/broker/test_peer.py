"""One connection: tokens, links, faults, and mistakes of the broker that end it alone."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from local.broker.amqp.performatives import (
    RECEIVER,
    SENDER,
    Accepted,
    Attach,
    Detach,
    Disposition,
    Flow,
    Modified,
    Rejected,
    Target,
    Transfer,
)
from local.broker.auth import Right, SharedAccessKey
from local.broker.clock import ManualClock
from local.broker.content import Content
from local.broker.descriptions import QueueDescription, TopicDescription
from local.broker.faults import FaultPlan, FaultSpec
from local.broker.namespace import Namespace
from local.broker.peer import KEEP_ALIVE_S, TOKEN_WAIT_S
from local.broker.store import StoredMessage
from tests.support.broker import message, namespace, payload, subscribe
from tests.support.broker_models import RecordingJournal
from tests.support.broker_wire import WireClient, session_source


@pytest.fixture
def faults() -> FaultPlan:
    return FaultPlan()


@pytest.fixture
def client(space: Namespace, clock: ManualClock, faults: FaultPlan) -> WireClient:
    space.create_queue("orders", QueueDescription())
    space.create_queue("sessions", QueueDescription(requires_session=True))
    space.create_topic("events", TopicDescription())
    subscribe(space, "events", "s")
    client = WireClient(space, clock, faults).connect()
    assert 202 == client.put_token()
    client.frames.clear()
    return client


def refusal(client: WireClient) -> tuple[Any, str]:
    """How a link was refused: no source and no target, then a detach with this condition."""
    attach, detach = client.last(Attach), client.last(Detach)
    assert attach.source is None
    assert attach.target is None
    return detach.closed, detach.error.condition


# -- tokens


def test_without_a_token_no_link_is_opened(space: Namespace, clock: ManualClock) -> None:
    space.create_queue("orders", QueueDescription())
    client = WireClient(space, clock).connect()
    client.attach("orders", SENDER)
    assert (True, "amqp:unauthorized-access") == refusal(client)


def test_a_token_for_another_entity_does_not_help(space: Namespace, clock: ManualClock) -> None:
    for name in ("orders", "order"):
        space.create_queue(name, QueueDescription())
    client = WireClient(space, clock).connect()
    assert 202 == client.put_token("order")
    client.attach("orders", SENDER)
    assert (True, "amqp:unauthorized-access") == refusal(client)
    client.attach("order", SENDER)
    assert client.last(Attach).target is not None


@pytest.mark.parametrize(
    ("token", "status"),
    [
        ({"key": "wrong"}, 401),
        ({"key_name": "nobody"}, 401),
        ({"lifetime_s": -1}, 401),
        ({"path": "nowhere"}, 404),
        ({"path": "events/$DeadLetterQueue"}, 400),
    ],
)
def test_a_wrong_token_is_answered_with_its_fault(client: WireClient, token: dict[str, Any], status: int) -> None:
    assert status == client.put_token(**token)


@pytest.mark.parametrize(
    ("application", "token", "status"),
    [
        ({"operation": "drop-token", "name": "sb://localhost/"}, "x", 501),
        ({"operation": "put-token", "name": 7}, "x", 400),
        ({"operation": "put-token", "name": "sb://localhost/"}, None, 400),
        ({}, None, 501),
    ],
)
def test_a_malformed_token_request_is_answered(
    client: WireClient, application: dict[str, object], token: object, status: int
) -> None:
    answer = client.request("$cbs", application, token)
    assert answer is not None
    assert status == answer.decode_application_properties()["status-code"]


def test_rights_are_for_one_way(space: Namespace, clock: ManualClock) -> None:
    space.create_queue("orders", QueueDescription())
    for right in (Right.SEND, Right.LISTEN):
        space.keys.put(SharedAccessKey(name=right.value, primary="k", rights=frozenset({right})))
    for right, role in ((Right.SEND, RECEIVER), (Right.LISTEN, SENDER)):
        client = WireClient(space, clock).connect()
        assert 202 == client.put_token("orders", key_name=right.value, key="k")
        client.attach("orders", role)
        assert (True, "amqp:unauthorized-access") == refusal(client)
        client.attach("orders", not role)
        assert client.last(Attach).source is not None


def test_management_asks_for_the_right_of_the_operation(space: Namespace, clock: ManualClock) -> None:
    space.create_queue("orders", QueueDescription())
    space.keys.put(SharedAccessKey(name="sender", primary="k", rights=frozenset({Right.SEND})))
    client = WireClient(space, clock).connect()
    client.put_token("orders", key_name="sender", key="k")
    answer = client.manage("orders", "com.microsoft:peek-message", {"from-sequence-number": 1, "message-count": 1})
    assert answer is not None
    assert (401, "amqp:unauthorized-access") == (answer.status, answer.condition)
    answer = client.manage("orders", "com.microsoft:schedule-message", {"messages": []})
    assert answer is not None
    assert 200 == answer.status


def test_links_are_closed_when_their_token_runs_out_unless_it_is_renewed(space: Namespace, clock: ManualClock) -> None:
    space.create_queue("orders", QueueDescription())
    client = WireClient(space, clock).connect()
    client.put_token("orders", lifetime_s=30)
    client.attach("orders", SENDER)
    client.tick(20)
    client.put_token("orders", lifetime_s=60)
    client.tick(50)
    assert [] == client.heard(Detach)
    client.tick(20)
    assert ["amqp:unauthorized-access"] == [d.error.condition for d in client.heard(Detach)]
    assert set() == space.queue("orders").links
    assert None is client.error, "the connection stays: its $cbs can take a new token"


def test_a_connection_that_shows_no_token_is_closed(space: Namespace, clock: ManualClock) -> None:
    client = WireClient(space, clock).connect()
    client.put_token(key="wrong")
    client.tick(TOKEN_WAIT_S - 1)
    assert None is client.error
    client.tick(10)
    assert "amqp:connection:forced" == client.error.condition


# -- links


@pytest.mark.parametrize(
    ("path", "role", "condition"),
    [
        ("nowhere", SENDER, "amqp:not-found"),
        ("nowhere", RECEIVER, "amqp:not-found"),
        ("nowhere/$management", SENDER, "amqp:not-found"),
        ("events", RECEIVER, "amqp:not-allowed"),
        ("events/Subscriptions/s", SENDER, "amqp:not-allowed"),
        ("orders/$DeadLetterQueue", SENDER, "amqp:not-allowed"),
        ("sessions", RECEIVER, "amqp:not-allowed"),
        ("", SENDER, "amqp:not-allowed"),
    ],
)
def test_links_that_make_no_sense_are_refused(client: WireClient, path: str, role: bool, condition: str) -> None:
    client.attach(path, role)
    assert (True, condition) == refusal(client)
    assert None is client.error


@pytest.mark.parametrize("session_id", [1, b"bytes", ["list"]])
def test_a_session_filter_must_be_text(client: WireClient, session_id: object) -> None:
    client.attach("sessions", RECEIVER, source=session_source("sessions", session_id))
    assert (True, "amqp:invalid-field") == refusal(client)


def test_a_session_is_told_with_its_lock_and_released_with_its_link(space: Namespace, client: WireClient) -> None:
    space.queue("sessions").send(message(session_id="a"))
    handle = client.attach("sessions", RECEIVER, source=session_source("sessions", None))
    answer = client.last(Attach)
    assert "a" == answer.source.filter["com.microsoft:session-filter"]
    ticks = 621_355_968_000_000_000 + int((client.clock.now() + 60) * 10_000_000)
    assert ticks == answer.properties["com.microsoft:locked-until-utc"]
    client.say(Detach(handle, True))
    assert [None] == [s.holder for s in space.queue("sessions").main.book.sessions.values()]


def test_an_attach_for_the_next_session_is_held_until_there_is_one_or_time_is_up(
    space: Namespace, client: WireClient
) -> None:
    source = session_source("sessions", None)
    client.attach("sessions", RECEIVER, source=source, properties={"com.microsoft:timeout": 5000})
    client.attach("sessions", RECEIVER, source=source)
    assert [] == client.heard(Attach)
    client.tick(5)
    assert (True, "com.microsoft:timeout") == refusal(client)
    client.frames.clear()
    space.queue("sessions").send(message(session_id="a"))
    client.settle_down()
    assert "a" == client.last(Attach).source.filter["com.microsoft:session-filter"]


def test_a_client_that_stops_waiting_for_a_session_leaves_it_to_others(space: Namespace, client: WireClient) -> None:
    handle = client.attach("sessions", RECEIVER, source=session_source("sessions", None))
    client.say(Detach(handle, True))
    space.queue("sessions").send(message(session_id="a"))
    assert [None] == [s.holder for s in space.queue("sessions").main.book.sessions.values()]


def test_a_lost_session_lock_is_told_after_a_moment(space: Namespace, client: WireClient) -> None:
    client.attach("sessions", RECEIVER, source=session_source("sessions", "a"))
    client.tick(61)
    assert [] == client.heard(Detach)
    client.tick(3)
    assert "com.microsoft:session-lock-lost" == client.last(Detach).error.condition


def test_an_oversized_message_is_rejected_and_the_link_lives(client: WireClient) -> None:
    handle = client.attach("orders", SENDER)
    assert 256 * 1024 == client.last(Attach).max_message_size
    rejected = client.outcome(client.send(handle, payload(b"x" * 256 * 1024)))
    assert isinstance(rejected, Rejected)
    assert "amqp:link:message-size-exceeded" == rejected.error.condition  # type: ignore[union-attr]
    assert isinstance(client.outcome(client.send(handle, payload())), Accepted)


@pytest.mark.parametrize(("message_format", "wrong"), [(0, b"\xff\xff"), (0x80013700, b"\x00\x53\x77\x40")])
def test_a_message_that_cannot_be_read_is_rejected(client: WireClient, message_format: int, wrong: bytes) -> None:
    handle = client.attach("orders", SENDER)
    rejected = client.outcome(client.send(handle, wrong, message_format=message_format))
    assert isinstance(rejected, Rejected)
    assert "amqp:decode-error" == rejected.error.condition  # type: ignore[union-attr]


def test_a_batch_is_taken_whole_or_not_at_all(space: Namespace, client: WireClient) -> None:
    def batch(*parts: bytes) -> bytes:
        return b"".join(b"\x00\x53\x75\xb0" + len(part).to_bytes(4, "big") + part for part in parts)

    handle = client.attach("sessions", SENDER)
    good, bad = payload(group_id="a"), payload()
    assert isinstance(client.outcome(client.send(handle, batch(good, bad), message_format=0x80013700)), Rejected)
    assert 0 == space.queue("sessions").main.message_count
    assert isinstance(client.outcome(client.send(handle, batch(good, good), message_format=0x80013700)), Accepted)
    assert 2 == space.queue("sessions").main.message_count


def test_a_settled_send_is_stored_and_not_answered(space: Namespace, client: WireClient) -> None:
    handle = client.attach("orders", SENDER)
    assert None is client.outcome(client.send(handle, payload(), settled=True))
    assert 1 == space.queue("orders").main.message_count
    client.send(handle, b"\xff", settled=True)
    assert [] == client.heard(Disposition)


def test_what_arrives_after_the_entity_is_gone_is_dropped(space: Namespace, client: WireClient) -> None:
    handle = client.attach("orders", SENDER)
    queue = space.queue("orders")
    space.delete_queue("orders")
    client.settle_down()
    assert "amqp:resource-deleted" == client.last(Detach).error.condition
    client.send(handle, payload())
    assert 0 == queue.main.message_count


def test_drain_gives_unused_credit_back(space: Namespace, client: WireClient) -> None:
    handle = client.attach("orders", RECEIVER)
    space.queue("orders").send(message())
    client.flow(handle, 10, drain=True)
    flow = client.last(Flow)
    assert (1, 0, 10) == (len(client.transfers()), flow.link_credit, flow.delivery_count)


# -- keeping alive


def test_a_quiet_connection_with_links_hears_something_now_and_then(client: WireClient) -> None:
    client.attach("orders", RECEIVER)
    client.frames.clear()
    client.tick(3 * KEEP_ALIVE_S)
    assert [None, None, None] == [sent.body for sent in client.frames]


def test_a_connection_without_links_is_left_alone(space: Namespace, clock: ManualClock) -> None:
    client = WireClient(space, clock).connect()
    client.frames.clear()
    client.tick(2 * KEEP_ALIVE_S)
    assert [] == client.frames


# -- safety


def test_a_send_is_acknowledged_when_it_is_safe_and_not_before(clock: ManualClock) -> None:
    journal = RecordingJournal(is_instant=False)
    space = namespace(clock, journal)
    space.create_queue("orders", QueueDescription())
    client = WireClient(space, clock).connect()
    client.put_token()
    handle = client.attach("orders", SENDER)
    delivery = client.send(handle, payload())
    assert None is client.outcome(delivery)
    journal.make_durable()
    client.settle_down()
    assert isinstance(client.outcome(delivery), Accepted)


def test_a_deletion_is_safe_before_the_message_leaves(clock: ManualClock) -> None:
    journal = RecordingJournal(is_instant=False)
    space = namespace(clock, journal)
    queue = space.create_queue("orders", QueueDescription())
    for _ in range(5):
        queue.send(message())
    client = WireClient(space, clock).connect()
    client.put_token()
    handle = client.attach("orders", RECEIVER, snd_settle_mode=1, rcv_settle_mode=0)
    client.flow(handle, 2)
    assert (3, 0) == (queue.main.message_count, len(client.transfers()))
    journal.make_durable()
    client.settle_down()
    assert (3, 2) == (queue.main.message_count, len(client.transfers())), "never more than the credit"


def test_a_broken_journal_refuses_sends_and_settlements(space: Namespace, clock: ManualClock) -> None:
    journal = RecordingJournal()
    space = namespace(clock, journal)
    queue = space.create_queue("orders", QueueDescription(requires_duplicate_detection=True))
    queue.send(message(message_id="1"))
    client = WireClient(space, clock).connect()
    client.put_token()
    sender, receiver = client.attach("orders", SENDER), client.attach("orders", RECEIVER)
    client.flow(receiver, 1)
    journal.is_broken = True
    for message_id in ("1", "2"):
        rejected = client.outcome(client.send(sender, payload(message_id=message_id)))
        assert isinstance(rejected, Rejected)
        assert "amqp:internal-error" == rejected.error.condition  # type: ignore[union-attr]
    client.settle(Accepted())
    assert isinstance(client.last(Disposition).state, Rejected)
    answer = client.manage("orders", "com.microsoft:schedule-message", {"messages": []})
    assert answer is not None
    assert "amqp:internal-error" == answer.condition
    assert 1 == queue.main.message_count


# -- mistakes of the broker


def test_a_mistake_of_the_broker_ends_one_connection_and_is_logged(
    space: Namespace,
    client: WireClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = WireClient(space, client.clock).connect()
    other.put_token()
    sending, receiving = client.attach("orders", SENDER), other.attach("orders", RECEIVER)
    other.flow(receiving, 5)
    with monkeypatch.context() as patch:
        patch.setattr(Content, "parse", lambda payload: {}["bug"])
        client.send(sending, payload())
    assert "amqp:internal-error" == client.error.condition
    assert "KeyError: 'bug'" in caplog.text
    assert None is other.error
    space.queue("orders").send(message())
    other.settle_down()
    assert 1 == len(other.transfers())
    assert 1 == len(space.queue("orders").links)


def test_a_mistake_on_the_receivers_side_does_not_reach_the_sender(
    space: Namespace, client: WireClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = WireClient(space, client.clock).connect()
    other.put_token()
    other.flow(other.attach("orders", RECEIVER), 5)
    sending = client.attach("orders", SENDER)

    def fail(message: StoredMessage) -> bytes:
        raise RuntimeError("bug in encoding")

    monkeypatch.setattr("local.broker.outlet.encode_delivery", fail)
    assert isinstance(client.outcome(client.send(sending, payload())), Accepted)
    other.settle_down()
    assert "amqp:internal-error" == other.error.condition
    assert logging.ERROR == max(record.levelno for record in caplog.records)
    client.tick(61)
    assert [1] == [m.delivery_count for m in space.queue("orders").main.messages()], "its lock ran out"


def test_a_link_that_cannot_be_given_back_does_not_keep_the_others(
    space: Namespace, client: WireClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client.attach("orders", SENDER)
    client.attach("orders", RECEIVER)

    def fail(self: object) -> None:
        raise RuntimeError("bug in closing")

    monkeypatch.setattr("local.broker.intake.Intake._let_go", fail)
    client.peer.gone()
    assert "bug in closing" in caplog.text
    assert [False] == [link.is_receiver for link in space.queue("orders").links]


def test_bytes_that_are_no_protocol_close_the_connection(space: Namespace, clock: ManualClock) -> None:
    client = WireClient(space, clock)
    client.peer.receive(b"AMQP\x09\x09\x09\x09")
    assert client.is_closed
    client = WireClient(space, clock).connect()
    client.peer.receive(b"\x00\x00\x00\x03\x02\x00\x00\x00")
    assert client.is_closed


def test_nothing_is_left_of_a_connection_that_is_gone(space: Namespace, client: WireClient) -> None:
    client.attach("orders", SENDER)
    client.attach("orders", RECEIVER)
    client.attach("sessions", RECEIVER, source=session_source("sessions", "a"))
    client.attach("sessions", RECEIVER, source=session_source("sessions", None))
    client.manage("orders", "com.microsoft:peek-message", {"from-sequence-number": 1, "message-count": 1})
    client.peer.gone()
    assert [] == [link for entity in space.all_entities() for link in entity.links]
    assert {} == space.queue("sessions").main.book.sessions
    assert ([], 0) == (client.peer.reply_links, len(client.peer._users))


def test_replies_nobody_takes_have_a_limit(client: WireClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.broker.nodes.REPLIES_MAX", 3)
    node = "orders/$management"
    client.attach(node, RECEIVER)
    client._nodes[node] = client.attach(node, SENDER)
    for _ in range(4):
        assert None is client.manage("orders", "anything", {})
    assert "amqp:resource-limit-exceeded" == client.last(Detach).error.condition
    assert None is client.manage("orders", "anything", {}), "and a request without a reply link is just not answered"
    assert None is client.error


def test_a_reply_finds_the_link_with_the_address_it_was_asked_for(client: WireClient) -> None:
    node = "orders/$management"
    one = client.attach(node, RECEIVER, target=Target("reply one"))
    client.flow(one, 10)
    two = client.attach(node, RECEIVER, target=Target("reply two"))
    client.flow(two, 10)
    peer = client.peer
    first, second = peer.reply_links[-2:]
    client.attach(node, SENDER)
    request = list(peer._users)[-1]
    assert second is peer.reply_link_for(request, "reply two")
    assert first is peer.reply_link_for(request, "reply one")
    assert first is peer.reply_link_for(request, node), "without an address of its own, the first of the node"


# -- faults


def inject(faults: FaultPlan, **fault: object) -> int:
    return faults.add(FaultSpec.from_json(fault)).id


def test_delayed_operations_keep_their_order(space: Namespace, client: WireClient, faults: FaultPlan) -> None:
    handle = client.attach("orders", SENDER)
    fault = inject(faults, kind="delay", delay_s=1.0, jitter_s=5.0, points=["send"], seed=3)
    for index in range(20):
        client.send(handle, payload(b"%d" % index))
    assert 0 == space.queue("orders").main.message_count
    faults.clear(fault)
    client.send(handle, payload(b"20"))
    client.tick(10)
    stored = [m.content.sections().body[8:] for m in space.queue("orders").main.messages()]
    assert [b"%d" % index for index in range(21)] == stored


def test_delayed_deliveries_never_exceed_the_credit(space: Namespace, client: WireClient, faults: FaultPlan) -> None:
    inject(faults, kind="delay", delay_s=2.0, points=["deliver"])
    for _ in range(10):
        space.queue("orders").send(message())
    handle = client.attach("orders", RECEIVER)
    client.flow(handle, 3)
    assert ([], 3) == (client.transfers(), space.queue("orders").main.lock_count)
    client.tick(3)
    assert (3, 3) == (len(client.transfers()), space.queue("orders").main.lock_count)


def test_credit_taken_back_during_a_delay_is_respected(space: Namespace, client: WireClient, faults: FaultPlan) -> None:
    inject(faults, kind="delay", delay_s=2.0, points=["deliver"])
    for _ in range(3):
        space.queue("orders").send(message())
    handle = client.attach("orders", RECEIVER)
    client.flow(handle, 3)
    client.flow(handle, 0, drain=True)
    client.tick(3)
    assert [] == client.transfers()
    client.flow(handle, 1)
    client.tick(1)
    assert 1 == len(client.transfers())
    client.say(Detach(handle, True))
    assert 1 == space.queue("orders").main.lock_count, "what never left is free at once"


def test_what_a_black_hole_held_goes_on_after_it(space: Namespace, client: WireClient, faults: FaultPlan) -> None:
    handle = client.attach("orders", SENDER)
    fault = inject(faults, kind="black-hole", entity="orders")
    delivery = client.send(handle, payload())
    client.attach("orders", RECEIVER)
    client.tick(30)
    assert (None, 1) == (client.outcome(delivery), len(client.heard(Attach)))
    faults.clear(fault)
    client.settle_down()
    assert isinstance(client.outcome(delivery), Accepted)
    assert 2 == len(client.heard(Attach))


def test_what_a_black_hole_held_for_a_dead_connection_is_gone(
    space: Namespace, client: WireClient, faults: FaultPlan
) -> None:
    handle = client.attach("orders", SENDER)
    fault = inject(faults, kind="black-hole", entity="orders")
    client.send(handle, payload())
    client.peer.gone()
    faults.clear(fault)
    assert 0 == space.queue("orders").main.message_count


def test_a_delayed_attach_whose_client_left_is_dropped(client: WireClient, faults: FaultPlan, space: Namespace) -> None:
    inject(faults, kind="delay", delay_s=2.0, points=["attach"])
    handle = client.attach("orders", RECEIVER)
    client.say(Detach(handle, True))
    client.tick(3)
    assert set() == space.queue("orders").links


@pytest.mark.parametrize(
    ("fault", "point"),
    [
        ({"kind": "reset"}, "send"),
        ({"kind": "reset"}, "attach"),
        ({"kind": "reset"}, "settle"),
        ({"kind": "reset"}, "cbs"),
    ],
)
def test_a_reset_can_strike_at_any_point(
    client: WireClient, space: Namespace, faults: FaultPlan, fault: dict[str, Any], point: str
) -> None:
    space.queue("orders").send(message())
    sender, receiver = client.attach("orders", SENDER), client.attach("orders", RECEIVER)
    client.flow(receiver, 1)
    inject(faults, **fault, points=[point])
    assert not client.is_reset
    {
        "send": lambda: client.send(sender, payload()),
        "attach": lambda: client.attach("orders", SENDER),
        "settle": lambda: client.settle(Accepted()),
        "cbs": lambda: client.put_token(),
    }[point]()
    assert client.is_reset
    assert set() == space.queue("orders").links


@pytest.mark.parametrize(
    ("condition", "state"), [("amqp:not-found", Accepted()), ("com.microsoft:timeout", Modified(True, False))]
)
def test_an_error_can_answer_a_settlement(
    client: WireClient, space: Namespace, faults: FaultPlan, condition: str, state: object
) -> None:
    space.queue("orders").send(message())
    client.flow(client.attach("orders", RECEIVER), 1)
    inject(faults, kind="error", condition=condition, points=["settle"])
    client.settle(state)
    assert condition == client.last(Disposition).state.error.condition
    assert 1 == space.queue("orders").main.lock_count


def test_a_settlement_may_be_done_and_never_told(client: WireClient, space: Namespace, faults: FaultPlan) -> None:
    space.queue("orders").send(message())
    client.flow(client.attach("orders", RECEIVER), 1)
    inject(faults, kind="lose-acknowledgement", points=["settle"])
    client.settle(Accepted())
    assert (0, []) == (space.queue("orders").main.message_count, client.heard(Disposition))


def test_a_fault_aims_at_a_sub_queue_by_its_path(client: WireClient, space: Namespace, faults: FaultPlan) -> None:
    inject(faults, kind="disable", entity="orders/$deadletterqueue")
    client.attach("orders/$DeadLetterQueue", RECEIVER)
    assert (True, "com.microsoft:entity-disabled") == refusal(client)
    client.attach("orders", RECEIVER)
    assert client.last(Attach).source is not None


def test_frames_are_counted(client: WireClient) -> None:
    before = client.peer.frames_received
    client.say(Flow(0, 100, 0, 100), Flow(0, 100, 0, 100))
    assert before + 2 == client.peer.frames_received
    assert [] == client.heard(Transfer)
