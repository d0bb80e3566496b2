"""Transactions in broker time: they end by themselves, are bounded, and a commit is all or nothing."""

from __future__ import annotations

import pytest

from local.broker.clock import ManualClock
from local.broker.descriptions import QueueDescription
from local.broker.entities import Queue
from local.broker.entity import MEGABYTE
from local.broker.errors import BrokerError
from local.broker.faults import FaultSpec
from local.broker.namespace import Namespace
from local.broker.transactions import (
    OPEN_MAX,
    ROLLBACK,
    TIMED_OUT,
    TRANSACTION_S,
    UNKNOWN_ID,
    Transactions,
)
from tests.support.broker import message, receive


@pytest.fixture
def queue(space: Namespace) -> Queue:
    return space.create_queue("orders", QueueDescription())


@pytest.fixture
def transactions(space: Namespace, clock: ManualClock) -> Transactions:
    return Transactions(space, clock)


def condition_of(error: pytest.ExceptionInfo[BrokerError]) -> str:
    return error.value.condition


def test_a_transaction_that_is_not_discharged_in_time_is_rolled_back(
    clock: ManualClock, queue: Queue, transactions: Transactions
) -> None:
    number = transactions.declare()
    transactions.find(number).send(queue, [message()])
    clock.advance(TRANSACTION_S)
    with pytest.raises(BrokerError) as late:
        transactions.find(number).send(queue, [message()])
    assert TIMED_OUT == condition_of(late)
    with pytest.raises(BrokerError, match="not discharged within 120 seconds") as ended:
        transactions.discharge(number, fail=False)
    assert (ROLLBACK, 0) == (condition_of(ended), queue.main.message_count)


def test_a_transaction_in_time_is_committed_and_leaves_no_timer(
    clock: ManualClock, queue: Queue, transactions: Transactions
) -> None:
    number = transactions.declare()
    transactions.find(number).send(queue, [message(), message()])
    clock.advance(TRANSACTION_S - 1)
    transactions.discharge(number, fail=False)
    assert (2, []) == (queue.main.message_count, clock.pending)
    with pytest.raises(BrokerError) as again:
        transactions.discharge(number, fail=True)
    assert UNKNOWN_ID == condition_of(again)


def test_a_connection_has_so_many_transactions_open_and_ends_them_all(
    clock: ManualClock, transactions: Transactions
) -> None:
    for _ in range(OPEN_MAX):
        transactions.declare()
    with pytest.raises(BrokerError, match="transactions are open"):
        transactions.declare()
    transactions.close()
    assert [] == clock.pending
    transactions.declare()


def test_what_the_commit_finds_wrong_stops_all_of_it(
    space: Namespace, queue: Queue, transactions: Transactions
) -> None:
    other = space.create_queue("other", QueueDescription())
    number = transactions.declare()
    transactions.find(number).send(queue, [message()])
    transactions.find(number).send(other, [message()])
    space.delete_queue("other")
    with pytest.raises(BrokerError, match="'other' is gone"):
        transactions.discharge(number, fail=False)
    assert 0 == queue.main.message_count


def test_a_commit_is_not_stopped_half_way_by_the_room_it_takes_itself(queue: Queue, transactions: Transactions) -> None:
    number = transactions.declare()
    for _ in range(2):
        transactions.find(number).send(queue, [message()])
    queue.main.partitions[0].size_bytes = queue.description.max_size_in_megabytes * MEGABYTE - 1
    transactions.discharge(number, fail=False)
    assert 2 == queue.main.message_count


def test_a_message_is_settled_once_under_a_transaction(queue: Queue, transactions: Transactions) -> None:
    queue.send(message())
    (token,) = [one.lock_token for one in receive(queue.main)]
    assert token is not None
    number = transactions.declare()
    transactions.find(number).settle(queue.main, token, lambda: queue.main.complete(token))
    with pytest.raises(BrokerError, match="settled once"):
        transactions.find(number).settle(queue.main, token, lambda: queue.main.complete(token))
    with pytest.raises(BrokerError, match="rolled back"):
        transactions.discharge(number, fail=False)
    assert 1 == queue.main.message_count


def test_a_sick_partition_stops_the_commit(space: Namespace, transactions: Transactions) -> None:
    queue = space.create_queue("partitioned", QueueDescription(enable_partitioning=True))
    number = transactions.declare()
    transactions.find(number).send(queue, [message(annotations={"x-opt-partition-key": "k"})])
    for index in range(16):
        space.faults.add(FaultSpec(kind="partition-down", partition=index))
    with pytest.raises(BrokerError, match="is unavailable"):
        transactions.discharge(number, fail=False)
    space.faults.clear()
    assert 0 == queue.main.message_count
