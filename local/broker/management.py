"""`$management` of an entity: requests as AMQP maps, answered from the queue engine.

One function for each operation, found by its name in `OPERATIONS`, which also says what right it needs. It takes
(node, body) and returns the body of a 200 answer; None answers 204 (nothing found). Refusals are BrokerErrors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from .amqp.types import Array, Int, Timestamp
from .auth import Right
from .content import Content
from .delivery import encode_delivery, encode_peek
from .entities import Queue, Receivable, Subscription, Topic
from .errors import (
    ARGUMENT_ERROR,
    ENTITY_EXISTS,
    INTERNAL_ERROR,
    MESSAGE_LOCK_LOST,
    MESSAGE_NOT_FOUND,
    MESSAGE_SIZE_EXCEEDED,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    QUOTA_EXCEEDED,
    SERVER_BUSY,
    SESSION_CANNOT_BE_LOCKED,
    SESSION_LOCK_LOST,
    TIMEOUT,
    UNAUTHORIZED,
    BrokerError,
)
from .message_queue import MessageQueue
from .namespace import Address, Namespace
from .request_fields import (
    BATCH_ITEMS_MAX,
    Body,
    instants,
    optional,
    read_count,
    read_numbers,
    read_tokens,
    required,
)
from .rules_over_amqp import describe_rule, read_rule
from .store import StoredMessage
from .validation import validate_rule

_ARRAY_LONG = 0x81

#: Messages in one answer (Service Bus: peek returns at most 250).
PEEK_MAX = 250
#: Bytes of messages in one answer; the rest comes with the next request.
ANSWER_BYTES_MAX = 4 * 1024 * 1024
SESSIONS_PAGE_MAX = 1000
SESSION_STATE_BYTES_MAX = 256 * 1024
#: "All sessions" is asked for with the last instant .NET knows, or beyond.
_ALL_SESSIONS_FROM_MS = 253_402_300_799_000

_STATUS = {
    NOT_FOUND: 404,
    MESSAGE_NOT_FOUND: 404,
    UNAUTHORIZED: 401,
    MESSAGE_LOCK_LOST: 410,
    SESSION_LOCK_LOST: 410,
    SESSION_CANNOT_BE_LOCKED: 409,
    ENTITY_EXISTS: 409,
    QUOTA_EXCEEDED: 403,
    MESSAGE_SIZE_EXCEEDED: 413,
    NOT_IMPLEMENTED: 501,
    SERVER_BUSY: 503,
    TIMEOUT: 408,
    INTERNAL_ERROR: 500,
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    description: str
    condition: str | None = None
    body: Body | None = None


@dataclass(frozen=True, kw_only=True)
class Node:
    """The entity whose `$management` was asked."""

    namespace: Namespace
    address: Address

    @property
    def key(self) -> str:
        """Names the queue, or the topic, that is managed."""
        return self.address.entity.path if self.address.queue is None else self.address.queue.key

    @property
    def queue(self) -> MessageQueue:
        if self.address.queue is None:
            raise BrokerError(NOT_ALLOWED, f"'{self.address.entity.path}' is a topic: receive from its subscriptions.")
        return self.address.queue

    @property
    def receivable(self) -> Receivable:
        entity = self.address.entity
        if not isinstance(entity, Receivable):
            raise BrokerError(NOT_ALLOWED, f"'{entity.path}' is a topic: receive from its subscriptions.")
        return entity

    @property
    def sendable(self) -> Queue | Topic:
        entity = self.address.entity
        if isinstance(entity, Subscription):
            raise BrokerError(NOT_ALLOWED, f"'{entity.path}' is a subscription: send to its topic.")
        return entity

    @property
    def subscription(self) -> Subscription:
        entity = self.address.entity
        if not isinstance(entity, Subscription):
            raise BrokerError(NOT_ALLOWED, f"Rules belong to subscriptions; '{entity.path}' is none.")
        return entity


@dataclass(frozen=True, kw_only=True)
class Operation:
    act: Callable[[Node, Body], Body | None]
    right: Right
    #: Needs the journal.
    writes: bool = True


def handle(node: Node, operation: object, body: object, authorize: Callable[[Right], None]) -> Answer:
    """Answer one request; every refusal is an answer, too."""
    try:
        known = OPERATIONS.get(str(operation).removeprefix("com.microsoft:"))
        if known is None:
            raise BrokerError(NOT_IMPLEMENTED, f"$management does not know the operation '{operation}'.")
        authorize(known.right)
        if not isinstance(body, dict):
            raise BrokerError(ARGUMENT_ERROR, "The request's body must be a map.")
        if known.writes:
            node.namespace.journal.check()
        result = known.act(node, {str(name): value for name, value in body.items()})
    except BrokerError as error:
        return error_answer(error)
    if result is None:
        return Answer(status=204, description="No Content", body={})
    return Answer(status=200, description="OK", body=result)


def error_answer(error: BrokerError) -> Answer:
    status = _STATUS.get(error.condition, 400)
    return Answer(status=status, description=error.description, condition=error.condition)


# -- operations


def _schedule(node: Node, body: Body) -> Body:
    items = required(body, "messages", list)
    if len(items) > BATCH_ITEMS_MAX:
        raise BrokerError(ARGUMENT_ERROR, f"At most {BATCH_ITEMS_MAX} messages can be scheduled at once.")
    node.sendable.touch()
    numbers = node.sendable.send_all([_to_schedule(node, item) for item in items])
    return {"sequence-numbers": Array(numbers, code=_ARRAY_LONG)}


def _to_schedule(node: Node, item: object) -> Content:
    payload = item.get("message") if isinstance(item, dict) else None
    if not isinstance(payload, bytes):
        raise BrokerError(ARGUMENT_ERROR, "Each of 'messages' must be a map with the encoded message.")
    limit = node.namespace.message_bytes_max(node.sendable)
    if len(payload) > limit:
        raise BrokerError(MESSAGE_SIZE_EXCEEDED, f"A message has {len(payload)} bytes; the limit is {limit}.")
    content = Content.parse(payload)
    if content.scheduled_at is None:
        raise BrokerError(ARGUMENT_ERROR, "A message to schedule needs x-opt-scheduled-enqueue-time.")
    return content


def _cancel_scheduled(node: Node, body: Body) -> Body:
    node.sendable.inbox.cancel_scheduled(read_numbers(body))
    return {}


def _renew_lock(node: Node, body: Body) -> Body:
    queue, tokens = node.queue, read_tokens(body)
    for token in tokens:
        queue.locked(token)
    return {"expirations": instants([queue.renew(token) for token in tokens])}


def _renew_session_lock(node: Node, body: Body) -> Body:
    until = node.queue.renew_session(required(body, "session-id", str))
    return {"expiration": Timestamp(int(until * 1000))}


def _get_session_state(node: Node, body: Body) -> Body:
    return {"session-state": node.queue.session_state(required(body, "session-id", str))}


def _set_session_state(node: Node, body: Body) -> Body:
    state = body.get("session-state")
    if state is not None and not isinstance(state, bytes):
        raise BrokerError(ARGUMENT_ERROR, "'session-state' must be binary or null.")
    if state is not None and len(state) > SESSION_STATE_BYTES_MAX:
        raise BrokerError(QUOTA_EXCEEDED, f"A session's state has at most {SESSION_STATE_BYTES_MAX} bytes.")
    node.queue.set_session_state(required(body, "session-id", str), state)
    return {}


def _peek(node: Node, body: Body) -> Body | None:
    first = int(required(body, "from-sequence-number", int))
    count = read_count(body, "message-count", PEEK_MAX)
    node.receivable.touch()
    messages = node.queue.peek(first, count, optional(body, "session-id", str))
    encoded: list[Body] = []
    total = 0
    for message in messages:
        raw = encode_peek(message)
        total += len(raw)
        if encoded and total > ANSWER_BYTES_MAX:
            break
        encoded.append({"message": raw})
    return {"messages": encoded} if encoded else None


def _receive_deferred(node: Node, body: Body) -> Body | None:
    node.receivable.check_can_receive()
    numbers = read_numbers(body)
    deletes = int(required(body, "receiver-settle-mode", int)) == 0
    session = None
    if node.queue.policy.requires_session:
        session = node.queue.held_session(required(body, "session-id", str))
    messages = node.queue.receive_deferred(numbers, deletes=deletes, session=session)
    return {"messages": [_deferred(message) for message in messages]} if messages else None


def _deferred(message: StoredMessage) -> Body:
    item: Body = {"message": encode_delivery(message)}
    if message.lock_token is not None:
        item["lock-token"] = UUID(bytes_le=message.lock_token)
    return item


def _update_disposition(node: Node, body: Body) -> Body:
    status = str(required(body, "disposition-status", str))
    queue, tokens = node.queue, read_tokens(body)
    changes = {str(name): value for name, value in (optional(body, "properties-to-modify", dict) or {}).items()}
    reason, description = (optional(body, f"deadletter-{what}", str) for what in ("reason", "description"))
    settle: dict[str, Callable[[bytes], None]] = {
        "completed": queue.complete,
        "abandoned": lambda token: queue.abandon(token, changes),
        "defered": lambda token: queue.defer(token, changes),
        "suspended": lambda token: queue.dead_letter(token, reason, description, changes),
    }
    if status not in settle:
        raise BrokerError(ARGUMENT_ERROR, f"Unknown disposition-status '{status}'.")
    for token in tokens:
        queue.locked(token)
    for token in dict.fromkeys(tokens):
        settle[status](token)
    return {}


def _list_sessions(node: Node, body: Body) -> Body | None:
    if not node.queue.policy.requires_session:
        raise BrokerError(NOT_ALLOWED, f"'{node.queue.key}' does not use sessions.")
    node.queue.check_all_partitions()
    since_ms = int(required(body, "last-updated-time", int))
    skip, top = read_count(body, "skip", 2**31), read_count(body, "top", SESSIONS_PAGE_MAX)
    since = None if since_ms >= _ALL_SESSIONS_FROM_MS else since_ms / 1000.0
    page = node.queue.book.listing(since)[skip : skip + top]
    return {"skip": Int(skip + len(page)), "sessions-ids": Array(page, code=0xB1)} if page else None


def _delete_batch(node: Node, body: Body) -> Body | None:
    count = read_count(body, "message-count", BATCH_ITEMS_MAX)
    before_ms = optional(body, "enqueued-time-utc", int)
    before = node.namespace.clock.now() if before_ms is None else before_ms / 1000.0
    deleted = node.queue.delete_batch(count, before, optional(body, "session-id", str))
    return {"message-count": Int(deleted)} if deleted else None


def _add_rule(node: Node, body: Body) -> Body:
    subscription = node.subscription
    rule = read_rule(required(body, "rule-name", str), required(body, "rule-description", dict))
    validate_rule(rule)
    node.namespace.create_rule(subscription.topic_path, subscription.name, rule)
    return {}


def _remove_rule(node: Node, body: Body) -> Body:
    subscription = node.subscription
    node.namespace.delete_rule(subscription.topic_path, subscription.name, required(body, "rule-name", str))
    return {}


def _list_rules(node: Node, body: Body) -> Body | None:
    skip, top = read_count(body, "skip", 2**31), read_count(body, "top", SESSIONS_PAGE_MAX)
    page = list(node.subscription.rules.values())[skip : skip + top]
    return {"rules": [{"rule-description": describe_rule(rule)} for rule in page]} if page else None


OPERATIONS: dict[str, Operation] = {
    "schedule-message": Operation(act=_schedule, right=Right.SEND),
    "cancel-scheduled-message": Operation(act=_cancel_scheduled, right=Right.SEND),
    "renew-lock": Operation(act=_renew_lock, right=Right.LISTEN, writes=False),
    "renew-session-lock": Operation(act=_renew_session_lock, right=Right.LISTEN, writes=False),
    "get-session-state": Operation(act=_get_session_state, right=Right.LISTEN, writes=False),
    "set-session-state": Operation(act=_set_session_state, right=Right.LISTEN),
    "peek-message": Operation(act=_peek, right=Right.LISTEN, writes=False),
    "receive-by-sequence-number": Operation(act=_receive_deferred, right=Right.LISTEN),
    "update-disposition": Operation(act=_update_disposition, right=Right.LISTEN),
    "get-message-sessions": Operation(act=_list_sessions, right=Right.LISTEN, writes=False),
    "batch-delete-messages": Operation(act=_delete_batch, right=Right.LISTEN),
    "add-rule": Operation(act=_add_rule, right=Right.LISTEN),
    "remove-rule": Operation(act=_remove_rule, right=Right.LISTEN),
    "enumerate-rules": Operation(act=_list_rules, right=Right.LISTEN, writes=False),
}
