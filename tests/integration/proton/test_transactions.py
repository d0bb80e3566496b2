"""Transactions as Proton drives them: together or not at all, on plain and on partitioned entities."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import proton
import pytest
from azure.servicebus.management import ServiceBusAdministrationClient
from proton import Message, symbol

from local.broker.partitioning import PARTITION_COUNT, partition_of_key
from tests.conformance.broker_process import Address
from tests.conformance.shim.backend import ConnectionParts

from .client import CALL_SECONDS_MAX, ProtonClient
from .transacting import Refused, Transacting

SHORT_WAIT_S = 0.3
Make = Callable[..., str]


@pytest.fixture
def client(connection: ConnectionParts) -> Iterator[ProtonClient]:
    with ProtonClient(connection.host, key_name=connection.key_name, key=connection.key) as client:
        yield client


@pytest.fixture
def transacting(client: ProtonClient) -> Transacting:
    return Transacting(client)


@pytest.fixture
def administration(broker_address: Address) -> Iterator[ServiceBusAdministrationClient]:
    with ServiceBusAdministrationClient.from_connection_string(
        broker_address.connection_string, connection_verify=broker_address.authority
    ) as administration:
        yield administration


@pytest.fixture
def make(client: ProtonClient, administration: ServiceBusAdministrationClient) -> Make:
    def make(**options: Any) -> str:
        name = f"transactions-{uuid.uuid4()}"
        administration.create_queue(name, **{"lock_duration": "PT5S", **options})
        client.authorize(name)
        return name

    return make


@pytest.fixture
def count(administration: ServiceBusAdministrationClient) -> Callable[[str], int]:
    def count(queue: str) -> int:
        return administration.get_queue_runtime_properties(queue).active_message_count

    return count


def keyed(body: str, key: str | None = None, session: str | None = None) -> Message:
    message = Message(id=f"{uuid.uuid4()}", body=body)
    if key is not None:
        message.annotations = {symbol("x-opt-partition-key"): key}
    if session is not None:
        message.group_id = session
    return message


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_hundred_messages_are_there_after_the_commit_and_none_before(
    client: ProtonClient, transacting: Transacting, make: Make, count: Callable[[str], int], partitioned: bool
) -> None:
    queue = make(enable_partitioning=partitioned)
    sender, transaction = client.sender(queue), transacting.declare()
    for n in range(100):
        transacting.send(sender, keyed(f"{n}", "one key"), transaction)
    assert 0 == count(queue)
    transacting.commit(transaction)
    assert 100 == count(queue)
    receiver = client.receiver(queue, credit=100)
    bodies = [receiver.receive(timeout=CALL_SECONDS_MAX).body for _ in range(100)]
    assert [f"{n}" for n in range(100)] == bodies


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_hundred_messages_are_gone_after_a_roll_back(
    client: ProtonClient, transacting: Transacting, make: Make, count: Callable[[str], int], partitioned: bool
) -> None:
    queue = make(enable_partitioning=partitioned)
    sender, transaction = client.sender(queue), transacting.declare()
    for n in range(100):
        transacting.send(sender, keyed(f"{n}", "one key"), transaction)
    transacting.rollback(transaction)
    assert 0 == count(queue)
    with pytest.raises(Refused, match="amqp:transaction:unknown-id"):
        transacting.commit(transaction)


def test_the_hundred_and_first_message_is_refused_and_takes_the_others_with_it(
    client: ProtonClient, transacting: Transacting, make: Make, count: Callable[[str], int]
) -> None:
    queue = make()
    sender, transaction = client.sender(queue), transacting.declare()
    for n in range(100):
        transacting.send(sender, keyed(f"{n}"), transaction)
    with pytest.raises(Refused, match="amqp:resource-limit-exceeded"):
        transacting.send(sender, keyed("one more"), transaction)
    with pytest.raises(Refused, match="amqp:transaction:rollback"):
        transacting.commit(transaction)
    assert 0 == count(queue)


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (keyed("a", "one"), keyed("b"), "needs a partition key"),
        (keyed("a"), None, "needs a partition key"),
        (keyed("a", "one"), keyed("b", "two"), "the same key"),
        (keyed("a", session="one"), keyed("b", session="two"), "the same key"),
        (keyed("a", "other", session="one"), None, "differ"),
    ],
    ids=["missing key", "no key at all", "two keys", "two sessions", "key is not the session"],
)
def test_a_transaction_does_not_span_partitions(
    client: ProtonClient,
    transacting: Transacting,
    make: Make,
    count: Callable[[str], int],
    first: Message,
    second: Message | None,
    problem: str,
) -> None:
    queue = make(enable_partitioning=True, requires_session=first.group_id is not None)
    sender, transaction = client.sender(queue), transacting.declare()
    messages = [first] if second is None else [first, second]
    for message in messages[:-1]:
        transacting.send(sender, message, transaction)
    with pytest.raises(Refused, match=f"amqp:not-allowed: InvalidOperation.*{problem}"):
        transacting.send(sender, messages[-1], transaction)
    with pytest.raises(Refused, match="amqp:transaction:rollback"):
        transacting.commit(transaction)
    assert 0 == count(queue)


def test_a_session_with_an_equal_partition_key_is_one_key(
    client: ProtonClient, transacting: Transacting, make: Make, count: Callable[[str], int]
) -> None:
    queue = make(enable_partitioning=True, requires_session=True)
    sender, transaction = client.sender(queue), transacting.declare()
    for message in (keyed("a", session="s"), keyed("b", "s", session="s")):
        transacting.send(sender, message, transaction)
    transacting.commit(transaction)
    assert 2 == count(queue)


def test_plain_entities_take_any_keys_under_one_transaction(
    client: ProtonClient, transacting: Transacting, make: Make, count: Callable[[str], int]
) -> None:
    one, other = make(), make()
    senders, transaction = {queue: client.sender(queue) for queue in (one, other)}, transacting.declare()
    for queue, message in ((one, keyed("a")), (one, keyed("b", "x")), (other, keyed("c", "y"))):
        transacting.send(senders[queue], message, transaction)
    transacting.commit(transaction)
    assert (2, 1) == (count(one), count(other))


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_message_is_moved_from_one_entity_to_another(
    client: ProtonClient, transacting: Transacting, make: Make, count: Callable[[str], int], partitioned: bool
) -> None:
    source, target = make(enable_partitioning=partitioned), make(enable_partitioning=partitioned)
    client.sender(source).send(keyed("work", "k"))
    receiver, transaction = client.receiver(source, credit=1), transacting.declare()
    got = receiver.receive(timeout=CALL_SECONDS_MAX)
    transacting.send(client.sender(target), keyed(f"{got.body} done", "k"), transaction)
    transacting.settle(receiver, transaction)
    assert (1, 0) == (count(source), count(target))
    transacting.commit(transaction)
    assert (0, 1) == (count(source), count(target))
    assert "work done" == client.receiver(target, credit=1).receive(timeout=CALL_SECONDS_MAX).body


def test_a_move_between_partitions_is_refused(
    client: ProtonClient, transacting: Transacting, make: Make, count: Callable[[str], int]
) -> None:
    source, target = make(enable_partitioning=True), make(enable_partitioning=True)
    other = next(f"{n}" for n in range(99) if partition_of_key(f"{n}", PARTITION_COUNT) != partition_of_key("k", 16))
    client.sender(source).send(keyed("work", "k"))
    receiver, transaction = client.receiver(source, credit=1), transacting.declare()
    receiver.receive(timeout=CALL_SECONDS_MAX)
    transacting.send(client.sender(target), keyed("done", other), transaction)
    with pytest.raises(Refused, match="span several partitions"):
        transacting.settle(receiver, transaction)
    with pytest.raises(Refused, match="rollback"):
        transacting.commit(transaction)
    assert (1, 0) == (count(source), count(target))


def test_a_move_that_is_rolled_back_leaves_the_message_for_the_next_delivery(
    client: ProtonClient, transacting: Transacting, make: Make, count: Callable[[str], int]
) -> None:
    source, target = make(), make()
    client.sender(source).send(keyed("work"))
    receiver, transaction = client.receiver(source, credit=1), transacting.declare()
    receiver.receive(timeout=CALL_SECONDS_MAX)
    transacting.send(client.sender(target), keyed("done"), transaction)
    transacting.settle(receiver, transaction)
    transacting.rollback(transaction)
    assert (1, 0) == (count(source), count(target))
    receiver.close()
    again = client.receiver(source, credit=1).receive(timeout=CALL_SECONDS_MAX)
    assert ("work", 1) == (again.body, again.delivery_count)


def test_a_commit_whose_lock_is_lost_does_nothing_at_all(
    client: ProtonClient, transacting: Transacting, make: Make, count: Callable[[str], int]
) -> None:
    source, target = make(), make()
    client.sender(source).send(keyed("work"))
    receiver, transaction = client.receiver(source, credit=1), transacting.declare()
    receiver.receive(timeout=CALL_SECONDS_MAX)
    transacting.send(client.sender(target), keyed("done"), transaction)
    transacting.settle(receiver, transaction)
    receiver.close()
    client.receiver(source, credit=1).receive(timeout=CALL_SECONDS_MAX)  # comes again: the lock ran out
    with pytest.raises(Refused, match=r"amqp:transaction:rollback.*lock"):
        transacting.commit(transaction)
    assert (1, 0) == (count(source), count(target))


def test_what_is_open_when_the_connection_ends_is_rolled_back(
    connection: ConnectionParts, client: ProtonClient, make: Make, count: Callable[[str], int]
) -> None:
    queue = make()
    with ProtonClient(connection.host, key_name=connection.key_name, key=connection.key) as other:
        other.authorize(queue)
        transacting = Transacting(other)
        transacting.send(other.sender(queue), keyed("never"), transacting.declare())
    with pytest.raises(proton.Timeout):
        client.receiver(queue, credit=1).receive(timeout=SHORT_WAIT_S)
    assert 0 == count(queue)


def test_unknown_transactions_and_requests_are_refused_by_name(
    client: ProtonClient, transacting: Transacting, make: Make
) -> None:
    with pytest.raises(Refused, match="amqp:transaction:unknown-id"):
        transacting.send(client.sender(make()), keyed("x"), b"nobody's")
    with pytest.raises(Refused, match="amqp:transaction:unknown-id"):
        transacting.rollback(b"nobody's")
    with pytest.raises(Refused, match=r"amqp:not-implemented.*declare and discharge"):
        transacting.ask("amqp:accepted:list", [])
