"""Parts for tests of the embedded broker: encoded messages, receivers that only write down, whole brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from local.broker.amqp.message import (
    APPLICATION_PROPERTIES,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
    encode_header,
    encode_properties,
    encode_section_map,
)
from local.broker.amqp.types import Symbol, Timestamp, UInt
from local.broker.auth import KeyRing, SharedAccessKey
from local.broker.broker import Broker, BrokerOptions, NamespaceSpec
from local.broker.clock import Clock, ManualClock
from local.broker.content import Content
from local.broker.descriptions import RuleDescription, RuleFilter, SqlRuleAction, SubscriptionDescription, TrueFilter
from local.broker.entities import Subscription
from local.broker.journal import Journal, MemoryJournal
from local.broker.message_queue import MessageQueue
from local.broker.namespace import Namespace
from local.broker.sessions import Session
from local.broker.store import StoredMessage

KEY_NAME = "RootManageSharedAccessKey"
KEY = "a-key-for-tests-only"


def payload(
    body: bytes = b"body",
    *,
    ttl_s: float | None = None,
    scheduled_at: float | None = None,
    annotations: dict[str, object] | None = None,
    application: dict[str, object] | None = None,
    **properties: Any,
) -> bytes:
    """An encoded message, as a sender puts it on the wire."""
    notes: dict[Any, Any] = {Symbol(name): value for name, value in (annotations or {}).items()}
    if scheduled_at is not None:
        notes[Symbol("x-opt-scheduled-enqueue-time")] = Timestamp(int(scheduled_at * 1000))
    sections = [
        encode_header(Header(ttl=UInt(int(ttl_s * 1000)))) if ttl_s is not None else b"",
        encode_section_map(MESSAGE_ANNOTATIONS, notes) if notes else b"",
        encode_properties(Properties(**properties)) if properties else b"",
        encode_section_map(APPLICATION_PROPERTIES, dict(application)) if application else b"",
        b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body,
    ]
    return b"".join(sections)


def message(body: bytes = b"body", *, session_id: str | None = None, **fields: Any) -> Content:
    """What the broker makes of it."""
    if session_id is not None:
        fields["group_id"] = session_id
    return Content.parse(payload(body, **fields))


def body_of(stored: StoredMessage) -> bytes:
    return stored.content.sections().body[8:]


def application_of(stored: StoredMessage) -> dict[Any, Any]:
    return stored.content.sections().decode_application_properties()


@dataclass(eq=False)
class Receiver:
    """A consumer that takes as much as its credit allows and writes down what it got."""

    credit: int = 0
    deletes: bool = False
    got: list[StoredMessage] = field(default_factory=list)
    #: The session it holds.
    session: Session | None = None
    timed_out: bool = False
    lost: list[str] = field(default_factory=list)

    def deliver(self, message: StoredMessage) -> None:
        assert self.credit > 0, "a message beyond the credit"
        self.credit -= 1
        self.got.append(message)

    def session_accepted(self, session: Session) -> None:
        self.session = session

    def session_timed_out(self) -> None:
        self.timed_out = True

    def session_lost(self, session: Session) -> None:
        self.session = None
        self.lost.append(session.id)

    @property
    def numbers(self) -> list[int]:
        return [message.sequence_number for message in self.got]

    @property
    def tokens(self) -> list[bytes]:
        return [token for message in self.got if (token := message.lock_token) is not None]


def receive(queue: MessageQueue, count: int = 1, *, deletes: bool = False) -> list[StoredMessage]:
    """What a receiver with that much credit gets at once; it is gone afterwards."""
    receiver = Receiver(credit=count, deletes=deletes)
    queue.attach(receiver)
    queue.pump()
    queue.detach(receiver)
    return receiver.got


def take(queue: MessageQueue) -> bytes:
    """The lock token of the next message."""
    (received,) = receive(queue)
    assert received.lock_token is not None
    return received.lock_token


def accept(queue: MessageQueue, session_id: str | None = None, *, credit: int = 0, wait_s: float = 60.0) -> Receiver:
    """A receiver that holds the session, or waits for one."""
    receiver = Receiver(credit=credit)
    queue.accept_session(receiver, session_id, wait_s)
    if receiver.session is not None:
        queue.pump_session(receiver.session)
    return receiver


def namespace(clock: Clock | None = None, journal: Journal | None = None, tier: str = "Standard") -> Namespace:
    keys = KeyRing([SharedAccessKey(name=KEY_NAME, primary=KEY)])
    return Namespace("test", clock=clock or ManualClock(), journal=journal or MemoryJournal(), keys=keys, tier=tier)


def subscribe(
    space: Namespace,
    topic: str,
    name: str,
    *,
    rule: RuleFilter | None = None,
    action: str | None = None,
    **description: Any,
) -> Subscription:
    """A subscription with one rule."""
    only = RuleDescription(
        name="$Default",
        filter=rule or TrueFilter(),
        action=SqlRuleAction(expression=action) if action is not None else None,
    )
    return space.create_subscription(topic, name, SubscriptionDescription(**description), only)


@asynccontextmanager
async def running_broker(
    *names: str, clock: Clock | None = None, options: BrokerOptions | None = None
) -> AsyncIterator[Broker]:
    """A broker in this process, on free ports, with the key that tests know."""
    specs = [NamespaceSpec(name=name) for name in names or ("primary",)]
    async with Broker(specs, options or BrokerOptions(key=KEY), clock=clock) as broker:
        yield broker


Setup = Callable[[Namespace], object]
