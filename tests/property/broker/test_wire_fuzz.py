"""Whatever a client says, it is answered or cut off: never an error of the broker itself, never a message made up."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    Released,
    Source,
    Target,
    Transfer,
)
from local.broker.clock import ManualClock
from local.broker.content import Content
from local.broker.descriptions import QueueDescription, SqlFilter, TopicDescription
from local.broker.errors import BrokerError
from local.broker.management import OPERATIONS
from tests.support.broker import message, namespace, payload, receive, subscribe
from tests.support.broker_wire import WireClient, session_source

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.text(max_size=8),
        st.binary(max_size=8),
        st.just(uuid.UUID(int=1)),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        "messages",
        "sequence-numbers",
        "lock-tokens",
        "session-id",
        "session-state",
        "from-sequence-number",
        "message-count",
        "receiver-settle-mode",
        "disposition-status",
        "properties-to-modify",
        "last-updated-time",
        "skip",
        "top",
        "rule-name",
        "rule-description",
    ]
)
OUTCOMES = st.sampled_from(
    [Accepted(), Released(), Rejected(None), Modified(True, False), Modified(True, True), Modified(False, False), None]
)


def connected() -> WireClient:
    clock = ManualClock()
    space = namespace(clock)
    for name, needs_session in (("orders", False), ("sessions", True)):
        queue = space.create_queue(name, QueueDescription(requires_session=needs_session))
        for _ in range(3):
            queue.send(message(session_id="a"))
    client = WireClient(space, clock).connect()
    client.put_token()
    client.attach("orders", SENDER)
    client.flow(client.attach("orders", RECEIVER), 2)
    client.attach("sessions", RECEIVER, source=session_source("sessions", "a"))
    return client


def no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    assert [] == [record.getMessage() for record in caplog.records if "broker failed" in record.getMessage()]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requests=st.lists(st.tuples(st.sampled_from(sorted(OPERATIONS)), st.dictionaries(FIELDS, VALUES)), max_size=6))
def test_management_answers_every_request(
    caplog: pytest.LogCaptureFixture, requests: list[tuple[str, dict[str, Any]]]
) -> None:
    client = connected()
    for operation, body in requests:
        for entity in ("orders", "sessions"):
            assert client.manage(entity, f"com.microsoft:{operation}", body) is not None
    no_mistake(caplog)


def frames() -> st.SearchStrategy[Any]:
    small = st.integers(0, 12)
    return st.one_of(
        st.builds(
            lambda h, c, d: Flow(0, 100, 0, 100, h, 0, c, drain=d), small, st.integers(0, 2**32 - 1), st.booleans()
        ),
        st.builds(
            lambda first, span, settled, state: Disposition(RECEIVER, first, first + span, settled, state),
            small,
            small,
            st.booleans(),
            OUTCOMES,
        ),
        st.builds(lambda h: Detach(h, True), small),
        st.builds(
            lambda h, role, path: Attach(f"n{h}", h + 20, role, source=Source(path), target=Target(path)),
            small,
            st.booleans(),
            st.sampled_from(
                ["orders", "sessions", "nowhere", "$cbs", "orders/$management", "", "%ff", "orders/$other"]
            ),
        ),
    )


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(frames(), max_size=20), seconds=st.integers(0, 70))
def test_frames_in_any_order_are_answered_or_end_the_connection(
    caplog: pytest.LogCaptureFixture, said: list[Any], seconds: int
) -> None:
    client = connected()
    for frame in said:
        client.say(frame)
    client.tick(seconds)
    client.peer.gone()
    no_mistake(caplog)
    queue = client.peer.namespace.queue("orders")
    assert 3 >= queue.main.message_count + queue.dead_letters.message_count
    assert set() == queue.links


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), cuts=st.integers(1, 8), message_format=st.sampled_from([0, 0x80013700, 7]))
def test_damaged_messages_are_accepted_or_rejected(
    caplog: pytest.LogCaptureFixture, seed: int, cuts: int, message_format: int
) -> None:
    rng = random.Random(seed)
    damaged = bytearray(
        payload(b"body", ttl_s=5, application={"a": 1}, annotations={"x-opt-partition-key": "p"}, message_id="m")
    )
    for _ in range(cuts):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    client = connected()
    delivery = next(client._deliveries)
    client.say(Transfer(3, delivery, b"tag", message_format, False), payload=bytes(damaged))
    outcome = client.outcome(delivery)
    assert isinstance(outcome, Accepted | Rejected)
    no_mistake(caplog)


@settings(max_examples=1000)
@given(seed=st.integers(0, 2**32), cuts=st.integers(1, 3))
def test_what_was_accepted_can_be_filtered_changed_and_dead_lettered(seed: int, cuts: int) -> None:
    """What cannot be read is refused at the door: inside, nobody would be left to blame."""
    rng = random.Random(seed)
    damaged = bytearray(payload(b"body", application={"text": "täglich", "map": {"k": [1]}, "n": 7}, subject="s"))
    for _ in range(cuts):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    try:
        content = Content.parse(bytes(damaged))
    except BrokerError:
        return
    space = namespace()
    topic = space.create_topic("events", TopicDescription())
    rule = SqlFilter(expression="n > 1 OR text LIKE 't%' OR sys.Label = 's' OR 1 = 1")
    subscription = subscribe(space, "events", "s", rule=rule, action="SET more = n; REMOVE text; SET sys.Label = 'x'")
    topic.send(content)
    for token in [m.lock_token for m in receive(subscription.main, 5)]:
        assert token is not None
        subscription.main.dead_letter(token, "Reason", None, {"changed": True})
    assert 1 == subscription.dead_letters.message_count


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        content = Content.parse(data)
    except BrokerError:
        return
    assert len(data) == content.size
