"""`$management`: every operation through the wire, and every wrong request answered."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from local.broker.amqp.message import RawMessage
from local.broker.amqp.types import Described, Int, Timestamp, UInt
from local.broker.clock import ManualClock
from local.broker.descriptions import QueueDescription, TopicDescription
from local.broker.management import OPERATIONS, PEEK_MAX
from local.broker.namespace import Namespace
from tests.support.broker import accept, application_of, body_of, message, payload, receive, subscribe, take
from tests.support.broker_wire import Answer, WireClient

ALL_SESSIONS = Timestamp(253_402_300_800_000)


@pytest.fixture
def client(space: Namespace, clock: ManualClock) -> WireClient:
    space.create_queue("orders", QueueDescription())
    space.create_queue("sessions", QueueDescription(requires_session=True))
    space.create_topic("events", TopicDescription())
    subscribe(space, "events", "s")
    client = WireClient(space, clock).connect()
    client.put_token()
    return client


def ask(client: WireClient, operation: str, body: object, entity: str = "orders") -> Answer:
    answer = client.manage(entity, f"com.microsoft:{operation}", body)
    assert answer is not None
    assert None is client.error
    return answer


def ok(client: WireClient, operation: str, body: dict[str, Any], entity: str = "orders") -> Any:
    answer = ask(client, operation, body, entity)
    assert (200, None) == (answer.status, answer.condition), answer.description
    return answer.body


# -- what is wrong


@pytest.mark.parametrize("operation", ["com.microsoft:fly", "fly", "", None, 7])
def test_an_unknown_operation_is_refused_by_name(client: WireClient, operation: object) -> None:
    answer = client.manage("orders", operation, {})  # type: ignore[arg-type]
    assert answer is not None
    assert (501, "amqp:not-implemented") == (answer.status, answer.condition)
    assert f"'{operation}'" in answer.description


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("body", [None, "text", 7, [1]])
def test_a_body_that_is_no_map_is_refused(client: WireClient, operation: str, body: object) -> None:
    assert "com.microsoft:argument-error" == ask(client, operation, body).condition


WRONG: list[object] = [None, "text", -1.5, b"bytes", [None], ["x"], {"x": 1}, True, [True], [{}]]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_field_of_the_wrong_type_is_refused_and_never_ends_the_connection(
    space: Namespace, client: WireClient, operation: str, wrong: object
) -> None:
    """Every field of every operation, one wrong at a time, the others as they should be."""
    space.queue("orders").send(message())
    token = take(space.queue("orders").main)
    right: dict[str, Any] = {
        "messages": [{"message": payload(scheduled_at=client.clock.now() + 60)}],
        "sequence-numbers": [1],
        "lock-tokens": [uuid.UUID(bytes_le=token)],
        "session-id": "a",
        "session-state": b"x",
        "from-sequence-number": 1,
        "message-count": 1,
        "receiver-settle-mode": UInt(1),
        "disposition-status": "completed",
        "deadletter-reason": "r",
        "deadletter-description": "d",
        "properties-to-modify": {"x": 1},
        "last-updated-time": ALL_SESSIONS,
        "skip": 0,
        "top": 10,
        "enqueued-time-utc": Timestamp(0),
        "rule-name": "r",
        "rule-description": {"sql-filter": {"expression": "1=1"}},
    }
    for entity in ("orders", "sessions", "events/Subscriptions/s"):
        for name in right:
            ask(client, operation, {**right, name: wrong}, entity)
        ask(client, operation, {}, entity)


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("renew-lock", {"lock-tokens": ["x"]}),
        ("renew-lock", {"lock-tokens": uuid.uuid4()}),
        ("cancel-scheduled-message", {"sequence-numbers": [1.5]}),
        ("peek-message", {"from-sequence-number": "1", "message-count": 1}),
        ("peek-message", {"from-sequence-number": 1, "message-count": 1, "session-id": 7}),
        ("update-disposition", {"disposition-status": "eaten", "lock-tokens": []}),
        ("update-disposition", {"disposition-status": "suspended", "lock-tokens": [], "deadletter-reason": 7}),
        ("update-disposition", {"disposition-status": "abandoned", "lock-tokens": [], "properties-to-modify": "x"}),
        ("schedule-message", {"messages": [{"message": "text"}]}),
        ("schedule-message", {"messages": [{"message": payload()}]}),
        ("batch-delete-messages", {"message-count": 1, "enqueued-time-utc": "now"}),
    ],
)
def test_wrong_requests_say_what_is_wrong(client: WireClient, operation: str, body: dict[str, Any]) -> None:
    answer = ask(client, operation, body)
    assert (400, "com.microsoft:argument-error") == (answer.status, answer.condition)


@pytest.mark.parametrize(
    ("operation", "body", "condition"),
    [
        ("schedule-message", {"messages": [{"message": b"\xff"}]}, "amqp:decode-error"),
        ("renew-lock", {"lock-tokens": [uuid.uuid4()]}, "com.microsoft:message-lock-lost"),
        ("cancel-scheduled-message", {"sequence-numbers": [99]}, "com.microsoft:message-not-found"),
        (
            "receive-by-sequence-number",
            {"sequence-numbers": [99], "receiver-settle-mode": UInt(1)},
            "com.microsoft:message-not-found",
        ),
        ("renew-session-lock", {"session-id": "a"}, "com.microsoft:session-lock-lost"),
        ("get-message-sessions", {"last-updated-time": ALL_SESSIONS, "skip": 0, "top": 9}, "amqp:not-allowed"),
        ("add-rule", {"rule-name": "r", "rule-description": {}}, "amqp:not-allowed"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_reason(
    client: WireClient, operation: str, body: dict[str, Any], condition: str
) -> None:
    assert condition == ask(client, operation, body).condition


@pytest.mark.parametrize("operation", ["peek-message", "renew-lock", "batch-delete-messages"])
def test_a_topic_itself_has_nothing_to_receive(client: WireClient, operation: str) -> None:
    body = {"from-sequence-number": 1, "message-count": 1, "lock-tokens": []}
    assert "amqp:not-allowed" == ask(client, operation, body, "events").condition
    assert "amqp:not-allowed" == ask(client, "schedule-message", {"messages": []}, "events/Subscriptions/s").condition


def test_an_oversized_scheduled_message_is_refused(client: WireClient) -> None:
    large = payload(b"x" * 256 * 1024, scheduled_at=client.clock.now() + 60)
    answer = ask(client, "schedule-message", {"messages": [{"message": large}]})
    assert (413, "amqp:link:message-size-exceeded") == (answer.status, answer.condition)


# -- what works


def test_schedule_and_cancel(space: Namespace, client: WireClient) -> None:
    item = {"message": payload(scheduled_at=client.clock.now() + 60)}
    assert [1, 2] == ok(client, "schedule-message", {"messages": [item, item]})["sequence-numbers"]
    ok(client, "cancel-scheduled-message", {"sequence-numbers": [1]})
    assert 1 == space.queue("orders").main.scheduled_count
    ok(client, "schedule-message", {"messages": [item]}, "events")
    assert 1 == space.topic("events").scheduled_count


def test_peek_is_bounded_and_empty_is_no_content(space: Namespace, client: WireClient) -> None:
    body = {"from-sequence-number": 1, "message-count": Int(1000)}
    assert 204 == ask(client, "peek-message", body).status
    for _ in range(PEEK_MAX + 1):
        space.queue("orders").send(message())
    assert PEEK_MAX == len(ok(client, "peek-message", body)["messages"])
    assert 0 == space.queue("orders").main.lock_count


def test_an_answer_has_a_largest_size(space: Namespace, client: WireClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.broker.management.ANSWER_BYTES_MAX", 3000)
    for _ in range(5):
        space.queue("orders").send(message(b"x" * 1000))
    body = {"from-sequence-number": 1, "message-count": 5}
    assert 2 == len(ok(client, "peek-message", body)["messages"])


def test_deferred_messages_come_with_their_lock(space: Namespace, client: WireClient) -> None:
    queue = space.queue("orders").main
    for _ in range(2):
        queue.put(message(b"x"))
        queue.defer(take(queue))
    body = {"sequence-numbers": [1], "receiver-settle-mode": UInt(1)}
    (item,) = ok(client, "receive-by-sequence-number", body)["messages"]
    assert 1 == RawMessage.parse(item["message"]).decode_header().delivery_count
    ok(client, "update-disposition", {"disposition-status": "completed", "lock-tokens": [item["lock-token"]]})
    body = {"sequence-numbers": [2], "receiver-settle-mode": UInt(0)}
    (item,) = ok(client, "receive-by-sequence-number", body)["messages"]
    assert "lock-token" not in item
    assert 0 == queue.message_count


@pytest.mark.parametrize("status", ["completed", "abandoned", "defered", "suspended"])
def test_every_disposition_works_without_the_link(space: Namespace, client: WireClient, status: str) -> None:
    entity = space.queue("orders")
    entity.send(message())
    token = uuid.UUID(bytes_le=take(entity.main))
    body = {
        "disposition-status": status,
        "lock-tokens": [token, token],
        "deadletter-reason": "Reason",
        "deadletter-description": "text",
        "properties-to-modify": {"changed": True},
    }
    ok(client, "update-disposition", body)
    if status == "abandoned":
        assert [(1, {"changed": True})] == [(m.delivery_count, application_of(m)) for m in receive(entity.main)]
    if status == "defered":
        assert [1] == [int(m.state) for m in entity.main.messages()]
    if status == "suspended":
        (dead,) = receive(entity.dead_letters)
        expected = {"changed": True, "DeadLetterReason": "Reason", "DeadLetterErrorDescription": "text"}
        assert expected == application_of(dead)
    if status == "completed":
        assert 0 == entity.main.message_count


def test_dispositions_settle_all_or_none(space: Namespace, client: WireClient) -> None:
    space.queue("orders").send(message())
    token = uuid.UUID(bytes_le=take(space.queue("orders").main))
    body = {"disposition-status": "completed", "lock-tokens": [token, uuid.uuid4()]}
    answer = ask(client, "update-disposition", body)
    assert (410, "com.microsoft:message-lock-lost") == (answer.status, answer.condition)
    assert 1 == space.queue("orders").main.lock_count


def test_locks_are_renewed(space: Namespace, client: WireClient, clock: ManualClock) -> None:
    space.queue("orders").send(message())
    token = uuid.UUID(bytes_le=take(space.queue("orders").main))
    clock.advance(30)
    expected = [Timestamp(int((clock.now() + 60) * 1000))]
    assert expected == ok(client, "renew-lock", {"lock-tokens": [token]})["expirations"]


def test_sessions_have_state_locks_and_pages(space: Namespace, client: WireClient, clock: ManualClock) -> None:
    queue = space.queue("sessions").main
    for name in ("a", "b", "c"):
        queue.put(message(session_id=name))
    accept(queue, "a", credit=1)
    assert None is ok(client, "get-session-state", {"session-id": "a"}, "sessions")["session-state"]
    ok(client, "set-session-state", {"session-id": "a", "session-state": b"page 3"}, "sessions")
    assert b"page 3" == ok(client, "get-session-state", {"session-id": "a"}, "sessions")["session-state"]
    expiration = ok(client, "renew-session-lock", {"session-id": "a"}, "sessions")["expiration"]
    assert Timestamp(int((clock.now() + 60) * 1000)) == expiration
    page = {"last-updated-time": ALL_SESSIONS, "skip": 1, "top": 1}
    assert {"skip": 2, "sessions-ids": ["b"]} == ok(client, "get-message-sessions", page, "sessions")
    changed = {**page, "last-updated-time": Timestamp(0), "skip": 0}
    assert ["a"] == ok(client, "get-message-sessions", changed, "sessions")["sessions-ids"]
    assert 204 == ask(client, "get-message-sessions", {**page, "skip": 3}, "sessions").status


def test_a_session_state_has_a_largest_size(space: Namespace, client: WireClient) -> None:
    accept(space.queue("sessions").main, "a")
    body = {"session-id": "a", "session-state": b"x" * (256 * 1024 + 1)}
    assert "amqp:resource-limit-exceeded" == ask(client, "set-session-state", body, "sessions").condition


def test_batch_delete_removes_the_oldest(space: Namespace, client: WireClient, clock: ManualClock) -> None:
    for index in range(3):
        space.queue("orders").send(message(b"%d" % index))
        clock.advance(1)
    body = {"message-count": 2, "enqueued-time-utc": Timestamp(int(clock.now() * 1000))}
    assert {"message-count": 2} == ok(client, "batch-delete-messages", body)
    assert [b"2"] == [body_of(m) for m in space.queue("orders").main.messages()]
    assert 204 == ask(client, "batch-delete-messages", {**body, "enqueued-time-utc": Timestamp(0)}).status


def test_rules_are_added_listed_and_removed(space: Namespace, client: WireClient) -> None:
    where = "events/Subscriptions/s"
    correlation = {"correlation-id": "c", "label": "l", "properties": {"n": 1}}
    action = {"expression": "SET x = 1"}
    described = {"correlation-filter": correlation, "sql-rule-action": action}
    ok(client, "add-rule", {"rule-name": "by-id", "rule-description": described}, where)
    sql = {"sql-filter": {"expression": "n > 5"}}
    ok(client, "add-rule", {"rule-name": "by-n", "rule-description": sql}, where)
    rules = [item["rule-description"] for item in ok(client, "enumerate-rules", {"skip": 0, "top": 9}, where)["rules"]]
    assert ["$Default", "by-id", "by-n"] == [rule.value[2] for rule in rules]
    assert [0x13700000007, 0x13700000009, 0x13700000006] == [rule.value[0].descriptor for rule in rules]
    assert ["c", None, None, None, "l", None, None, None, {"n": 1}] == rules[1].value[0].value
    assert Described(0x13700000006, ["SET x = 1", None]) == rules[1].value[1]
    ok(client, "remove-rule", {"rule-name": "$Default"}, where)
    space.topic("events").send(message(application={"n": 6}))
    space.topic("events").send(message(application={"n": 5}))
    assert 1 == space.subscription("events", "s").main.message_count
    assert "amqp:not-found" == ask(client, "remove-rule", {"rule-name": "$Default"}, where).condition
    wrong = {"sql-filter": {"expression": "n >"}}
    refused = ask(client, "add-rule", {"rule-name": "wrong", "rule-description": wrong}, where)
    assert "com.microsoft:argument-error" == refused.condition
    again = ask(client, "add-rule", {"rule-name": "BY-N", "rule-description": sql}, where)
    assert (409, "com.microsoft:entity-already-exists") == (again.status, again.condition)
