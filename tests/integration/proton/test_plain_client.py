"""The broker as an AMQP 1.0 implementation that is not ours sees it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import proton
import pytest
from proton import ConnectionException, Delivery, Message
from proton.reactor import AtMostOnce
from proton.utils import BlockingConnection, LinkDetached, SendException

from tests.conformance.shim.backend import ConnectionParts

from .client import CALL_SECONDS_MAX, ProtonClient, sas_token

LARGE_BODY_BYTES = 200_000
OVER_THE_LIMIT_BYTES = 300_000
DEAD_LETTERS = "/$DeadLetterQueue"
SHORT_WAIT_S = 0.5


@pytest.fixture
def client(connection: ConnectionParts) -> Iterator[ProtonClient]:
    with ProtonClient(connection.host, key_name=connection.key_name, key=connection.key) as client:
        yield client


@pytest.fixture
def authorized(client: ProtonClient, queue: str) -> ProtonClient:
    client.authorize(queue)
    return client


def settle_as_failed(receiver: Any) -> None:
    """The outcome `modified` with delivery-failed; Proton's own `release` leaves that flag out."""
    receiver.fetcher.unsettled[0].local.failed = True
    receiver.settle(Delivery.MODIFIED)


def test_a_message_is_accepted_received_and_gone_after_it_is_accepted(authorized: ProtonClient, queue: str) -> None:
    sent = authorized.sender(queue).send(Message(id="m1", body="hello"))
    assert sent.remote_state == Delivery.ACCEPTED
    receiver = authorized.receiver(queue, credit=1)
    received = receiver.receive(timeout=CALL_SECONDS_MAX)
    assert (received.id, received.body) == ("m1", "hello")
    receiver.accept()
    receiver.close()
    with pytest.raises(proton.Timeout):
        authorized.receiver(queue, credit=1).receive(timeout=SHORT_WAIT_S)


def test_typed_properties_and_body_come_back_as_sent(authorized: ProtonClient, queue: str) -> None:
    properties = {"int": proton.int32(7), "long": 2**40, "text": "å", "flag": True, "id": uuid.uuid4(), "real": 1.5}
    sent = Message(id=uuid.uuid4(), subject="s", correlation_id="c", reply_to="r", properties=properties)
    sent.body = {"list": [1, 2, 3], "binary": b"\x00\xff"}
    authorized.sender(queue).send(sent)
    received = authorized.receiver(queue, credit=1).receive(timeout=CALL_SECONDS_MAX)
    assert properties == received.properties
    assert sent.body == {key: bytes(v) if isinstance(v, memoryview) else v for key, v in received.body.items()}
    assert (sent.id, "s", "c", "r") == (received.id, received.subject, received.correlation_id, received.reply_to)


def test_a_message_of_many_frames_arrives_whole(authorized: ProtonClient, queue: str) -> None:
    body = bytes(range(256)) * (LARGE_BODY_BYTES // 256)
    authorized.sender(queue).send(Message(body=body))
    received = authorized.receiver(queue, credit=1).receive(timeout=CALL_SECONDS_MAX)
    assert body == bytes(received.body)


def test_a_message_over_the_size_limit_is_rejected_by_name(authorized: ProtonClient, queue: str) -> None:
    sender = authorized.sender(queue)
    assert sender.link.remote_max_message_size == 262_144
    with pytest.raises(SendException):
        sender.send(Message(body=b"x" * OVER_THE_LIMIT_BYTES))


def test_a_released_message_comes_back_with_its_delivery_count_unchanged(authorized: ProtonClient, queue: str) -> None:
    authorized.sender(queue).send(Message(body="again"))
    receiver = authorized.receiver(queue, credit=2)
    assert receiver.receive(timeout=CALL_SECONDS_MAX).delivery_count == 0
    receiver.release(delivered=False)
    again = receiver.receive(timeout=CALL_SECONDS_MAX)
    assert (again.body, again.delivery_count) == ("again", 0)


def test_a_message_modified_as_failed_comes_back_with_its_delivery_count_raised(
    authorized: ProtonClient, queue: str
) -> None:
    authorized.sender(queue).send(Message(body="again"))
    receiver = authorized.receiver(queue, credit=2)
    assert receiver.receive(timeout=CALL_SECONDS_MAX).delivery_count == 0
    settle_as_failed(receiver)
    assert receiver.receive(timeout=CALL_SECONDS_MAX).delivery_count == 1


def test_a_rejected_message_moves_to_the_dead_letter_queue(authorized: ProtonClient, queue: str) -> None:
    authorized.sender(queue).send(Message(id="bad", body="bad"))
    receiver = authorized.receiver(queue, credit=1)
    receiver.receive(timeout=CALL_SECONDS_MAX)
    receiver.reject()
    receiver.close()
    authorized.authorize(queue + DEAD_LETTERS)
    dead = authorized.receiver(queue + DEAD_LETTERS, credit=1).receive(timeout=CALL_SECONDS_MAX)
    assert dead.id == "bad"


def test_a_message_that_fails_too_often_moves_to_the_dead_letter_queue(authorized: ProtonClient, queue: str) -> None:
    authorized.sender(queue).send(Message(id="poison"))
    receiver = authorized.receiver(queue, credit=5)
    for _ in range(5):
        receiver.receive(timeout=CALL_SECONDS_MAX)
        settle_as_failed(receiver)
    receiver.close()
    authorized.authorize(queue + DEAD_LETTERS)
    dead = authorized.receiver(queue + DEAD_LETTERS, credit=1).receive(timeout=CALL_SECONDS_MAX)
    assert dead.properties["DeadLetterReason"] == "MaxDeliveryCountExceeded"


def test_no_more_messages_are_sent_than_there_is_credit(authorized: ProtonClient, queue: str) -> None:
    sender = authorized.sender(queue)
    for number in range(5):
        sender.send(Message(body=number))
    receiver = authorized.receiver(queue, credit=0)  # with any, Proton would go on granting it by itself
    receiver.link.flow(3)
    authorized.connection.wait(lambda: len(receiver.fetcher.incoming) >= 3, timeout=CALL_SECONDS_MAX)
    authorized.authorize(queue)  # a round trip: what was sent too much would be here by then
    assert [message.body for message, _ in receiver.fetcher.incoming] == [0, 1, 2]
    receiver.link.flow(1)
    authorized.connection.wait(lambda: len(receiver.fetcher.incoming) >= 4, timeout=CALL_SECONDS_MAX)


def test_a_drain_gives_what_there_is_and_returns_the_rest_of_the_credit(authorized: ProtonClient, queue: str) -> None:
    sender = authorized.sender(queue)
    for number in range(2):
        sender.send(Message(body=number))
    receiver = authorized.receiver(queue, credit=0)
    receiver.link.drain(10)
    assert [receiver.receive(timeout=CALL_SECONDS_MAX).body for _ in range(2)] == [0, 1]
    authorized.connection.wait(lambda: not receiver.link.draining(), timeout=CALL_SECONDS_MAX, msg="drain")
    assert receiver.link.credit == 0


def test_a_drain_of_an_empty_queue_is_answered_at_once(authorized: ProtonClient, queue: str) -> None:
    receiver = authorized.receiver(queue, credit=0)
    receiver.link.drain(10)
    authorized.connection.wait(lambda: not receiver.link.draining(), timeout=CALL_SECONDS_MAX, msg="drain")
    assert receiver.link.credit == 0


def test_receive_and_delete_hands_over_settled_messages(authorized: ProtonClient, queue: str) -> None:
    authorized.sender(queue).send(Message(body="once"))
    receiver = authorized.receiver(queue, credit=1, options=AtMostOnce())
    assert receiver.receive(timeout=CALL_SECONDS_MAX).body == "once"
    assert len(receiver.fetcher.unsettled) == 0
    receiver.close()
    with pytest.raises(proton.Timeout):
        authorized.receiver(queue, credit=1).receive(timeout=SHORT_WAIT_S)


def test_a_presettled_send_is_stored(authorized: ProtonClient, queue: str) -> None:
    sender = authorized.sender(queue, options=AtMostOnce())
    delivery = sender.link.send(Message(body="fire and forget"))
    delivery.settle()
    received = authorized.receiver(queue, credit=1).receive(timeout=CALL_SECONDS_MAX)
    assert received.body == "fire and forget"


def test_an_unknown_entity_is_refused_by_name(client: ProtonClient) -> None:
    missing = f"missing-{uuid.uuid4()}"
    client.authorize("")
    with pytest.raises(LinkDetached) as refused:
        client.sender(missing)
    assert refused.value.condition == "amqp:not-found"


def test_a_link_without_a_token_is_refused(client: ProtonClient, queue: str) -> None:
    with pytest.raises(LinkDetached) as refused:
        client.receiver(queue, credit=1)
    assert refused.value.condition == "amqp:unauthorized-access"


def test_a_token_signed_with_another_key_is_refused(client: ProtonClient, connection: ConnectionParts) -> None:
    forged = sas_token(f"sb://{connection.host}/", connection.key_name, "not the key")
    assert client.put_token("any", forged) == 401


def test_an_expired_token_is_refused(client: ProtonClient, connection: ConnectionParts) -> None:
    expired = sas_token(f"sb://{connection.host}/", connection.key_name, connection.key, seconds=-1)
    assert client.put_token("any", expired) == 401


def test_the_broker_keeps_a_quiet_connection_alive_for_a_client_that_asks_for_it(
    connection: ConnectionParts, queue: str
) -> None:
    with ProtonClient(connection.host, key_name=connection.key_name, key=connection.key, heartbeat=1) as client:
        client.authorize(queue)
        receiver = client.receiver(queue, credit=1)
        # Longer than the idle time-out the client announced: without heartbeats it would close by now.
        with pytest.raises(proton.Timeout):
            receiver.receive(timeout=2.5)
        client.sender(queue).send(Message(body="still here"))
        assert receiver.receive(timeout=CALL_SECONDS_MAX).body == "still here"


def test_a_mechanism_other_than_those_offered_is_refused(connection: ConnectionParts) -> None:
    with pytest.raises(ConnectionException):
        BlockingConnection(
            f"amqp://{connection.host}",
            timeout=CALL_SECONDS_MAX,
            allowed_mechs="PLAIN",
            allow_insecure_mechs=True,
            user="user",
            password="password",
        )


def test_two_receivers_on_one_queue_share_its_messages(authorized: ProtonClient, queue: str) -> None:
    sender = authorized.sender(queue)
    first, second = (authorized.receiver(queue, credit=0, name=name) for name in ("first", "second"))
    for number in range(4):
        sender.send(Message(body=number))
    first.link.flow(2)
    authorized.connection.wait(lambda: len(first.fetcher.incoming) == 2, timeout=CALL_SECONDS_MAX)
    second.link.flow(2)
    authorized.connection.wait(lambda: len(second.fetcher.incoming) == 2, timeout=CALL_SECONDS_MAX)
    got = [message.body for receiver in (first, second) for message, _ in receiver.fetcher.incoming]
    assert got == [0, 1, 2, 3]


def test_a_link_of_the_same_name_takes_the_place_of_the_first(authorized: ProtonClient, queue: str) -> None:
    authorized.receiver(queue, credit=0, name="same")
    with pytest.raises(LinkDetached) as stolen:
        authorized.receiver(queue, credit=0, name="same")
    assert stolen.value.condition == "amqp:link:stolen"


def test_a_closed_receiver_leaves_its_messages_locked(
    authorized: ProtonClient, queue: str
) -> None:
    """The lock, not the link, holds a message: Service Bus gives it back only when the lock runs out."""
    authorized.sender(queue).send(Message(body="locked"))
    receiver = authorized.receiver(queue, credit=1)
    receiver.receive(timeout=CALL_SECONDS_MAX)
    receiver.close()
    with pytest.raises(proton.Timeout):
        authorized.receiver(queue, credit=1).receive(timeout=SHORT_WAIT_S)
