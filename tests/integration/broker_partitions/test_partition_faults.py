"""One partition of sixteen is down, slow or full: what that does to senders, receivers and administrators."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError, ServiceBusQuotaExceededError
from azure.servicebus.management import EntityAvailabilityStatus, ServiceBusAdministrationClient

from local.broker.entities import Queue, Subscription
from local.broker.partitioning import PARTITION_COUNT, partition_of_key
from tests.integration.broker.conftest import Connect, receive_until
from tests.integration.broker_partitions.test_rules import Administered, key_in, partition
from tests.support.broker_thread import BrokerThread
from tests.support.sdk_leftovers import SDK_LEFTOVERS

pytestmark = pytest.mark.filterwarnings(SDK_LEFTOVERS)

DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE
SICK = 3
Make = Callable[..., Any]


@pytest.fixture
def queue(make_queue: Make) -> Queue:
    found: Queue = make_queue(enable_partitioning=True)
    return found


def message_counts(queue: Queue) -> list[int]:
    return [len(one.messages) for one in queue.main.partitions]


async def test_a_thousand_keyless_sends_go_around_the_partition_that_is_down(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    broker.inject(kind="partition-down", partition=SICK, entity="orders")
    async with connect() as client, client.get_queue_sender("orders") as sender:
        for n in range(500):
            await sender.send_messages(ServiceBusMessage(f"{n}"))
        for lot in range(50):
            await sender.send_messages([ServiceBusMessage(f"{lot}-{n}") for n in range(10)])
    counts = broker.call(lambda _: message_counts(queue))
    assert 1000 == sum(counts)
    assert 0 == counts[SICK]
    assert max(counts) - min(count for index, count in enumerate(counts) if index != SICK) <= 1


async def test_keyed_sends_fail_only_for_keys_of_the_partition_that_is_down(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    fault = broker.inject(kind="partition-down", partition=SICK, entity="orders")
    keys = [f"key-{n}" for n in range(64)]
    sick = {key for key in keys if partition_of_key(key, PARTITION_COUNT) == SICK}
    assert sick
    failed = {}
    async with connect() as client, client.get_queue_sender("orders") as sender:
        for key in keys:
            try:
                await sender.send_messages(ServiceBusMessage("x", partition_key=key))
            except ServiceBusError as error:
                failed[key] = str(error)
        assert sick == set(failed)
        assert all(f"Partition {SICK} of 'orders' is unavailable" in text for text in failed.values())
        assert len(keys) - len(sick) == broker.call(lambda _: queue.main.message_count)
        broker.heal(fault)
        for key in sick:
            await sender.send_messages(ServiceBusMessage("x", partition_key=key))
    assert len(keys) == broker.call(lambda _: queue.main.message_count)


async def test_of_a_batch_with_one_key_of_the_sick_partition_nothing_is_stored(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    broker.inject(kind="partition-down", partition=SICK)
    batch = [ServiceBusMessage("x", partition_key=key_in(index)) for index in (1, SICK, 2)]
    async with connect() as client, client.get_queue_sender("orders") as sender:
        with pytest.raises(ServiceBusError):
            await sender.send_messages(batch)
    assert 0 == broker.call(lambda _: queue.main.message_count)


async def test_with_every_partition_down_keyless_sends_fail_too(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    for index in range(PARTITION_COUNT):
        broker.inject(kind="partition-down", partition=index)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        with pytest.raises(ServiceBusError, match="is unavailable"):
            await sender.send_messages(ServiceBusMessage("x"))


async def test_a_ping_with_a_key_tells_whether_its_partition_is_down(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    broker.inject(kind="partition-down", partition=SICK)

    def ping(index: int) -> ServiceBusMessage:
        content_type = "application/vnd.ms-servicebus-ping"
        return ServiceBusMessage(b"", session_id=key_in(index), content_type=content_type)

    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages(ping(SICK + 1))
        with pytest.raises(ServiceBusError):
            await sender.send_messages(ping(SICK))


async def test_receivers_get_the_rest_and_what_waited_once_the_partition_is_back(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages([ServiceBusMessage(f"{n}") for n in range(32)])
        fault = broker.inject(kind="partition-down", partition=SICK)
        async with client.get_queue_receiver("orders", receive_mode=DELETE) as receiver:
            assert SICK not in {partition(message) for message in await receiver.peek_messages(100)}
            got = await receive_until(receiver, 30)
            assert [] == await receiver.receive_messages(1, max_wait_time=0.5)
            broker.heal(fault)
            late = await receive_until(receiver, 2)
    assert SICK not in {partition(message) for message in got}
    assert {SICK} == {partition(message) for message in late}


async def test_a_message_of_the_sick_partition_cannot_be_settled(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages(ServiceBusMessage("x", partition_key=key_in(SICK)))
        async with client.get_queue_receiver("orders") as receiver:
            (message,) = await receive_until(receiver, 1)
            broker.inject(kind="partition-down", partition=SICK)
            with pytest.raises(ServiceBusError, match="unavailable"):
                await receiver.complete_message(message)
    assert 1 == broker.call(lambda _: queue.main.message_count)


async def test_sessions_of_the_sick_partition_wait_and_others_are_served(
    connect: Connect, broker: BrokerThread, make_queue: Make
) -> None:
    make_queue("sessions", enable_partitioning=True, requires_session=True)
    async with connect() as client:
        async with client.get_queue_sender("sessions") as sender:
            for index in (SICK, SICK + 1):
                await sender.send_messages(ServiceBusMessage("x", session_id=key_in(index)))
        fault = broker.inject(kind="partition-down", partition=SICK)
        async with client.get_queue_receiver("sessions", session_id=NEXT_AVAILABLE_SESSION) as first:
            assert key_in(SICK + 1) == first.session.session_id
            with pytest.raises(OperationTimeoutError):
                async with client.get_queue_receiver(
                    "sessions", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0.5
                ) as none:
                    await none.receive_messages(1, max_wait_time=0.5)
            with pytest.raises(ServiceBusError, match="unavailable"):
                async with client.get_queue_receiver("sessions", session_id=key_in(SICK)):
                    pass
            broker.heal(fault)
            async with client.get_queue_receiver("sessions", session_id=NEXT_AVAILABLE_SESSION) as second:
                assert key_in(SICK) == second.session.session_id


async def test_a_subscription_shares_the_partitions_of_its_topic(
    connect: Connect, broker: BrokerThread, make_topic: Make, make_subscription: Make
) -> None:
    make_topic(enable_partitioning=True)
    subscription: Subscription = make_subscription()
    broker.inject(kind="partition-down", partition=SICK, entity="events")
    async with connect() as client, client.get_topic_sender("events") as sender:
        for n in range(32):
            await sender.send_messages(ServiceBusMessage(f"{n}"))
        with pytest.raises(ServiceBusError):
            await sender.send_messages(ServiceBusMessage("x", partition_key=key_in(SICK)))
        async with client.get_subscription_receiver("events", "all", receive_mode=DELETE) as receiver:
            assert 32 == len(await receive_until(receiver, 32))
    assert "Limited" == broker.call(lambda _: subscription.availability())


async def test_a_full_partition_takes_no_key_of_its_own_and_gives_what_it_has(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages(ServiceBusMessage("before", partition_key=key_in(SICK)))
        broker.inject(kind="partition-full", partition=SICK)
        with pytest.raises(ServiceBusQuotaExceededError):
            await sender.send_messages(ServiceBusMessage("x", partition_key=key_in(SICK)))
        for _ in range(16):
            await sender.send_messages(ServiceBusMessage("keyless"))
        assert 1 == broker.call(lambda _: message_counts(queue)[SICK])
        async with client.get_queue_receiver("orders", receive_mode=DELETE) as receiver:
            assert 17 == len(await receive_until(receiver, 17))


async def test_a_slow_partition_answers_late_and_the_others_do_not(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    broker.inject(kind="partition-slow", partition=SICK, delay_s=0.7)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages(ServiceBusMessage("first", partition_key=key_in(1)))
        started = time.monotonic()
        await sender.send_messages(ServiceBusMessage("x", partition_key=key_in(SICK)))
        assert time.monotonic() - started >= 0.7
    assert 2 == broker.call(lambda _: queue.main.message_count)


async def test_what_needs_all_partitions_fails_clearly_and_the_entity_is_limited(
    connect: Connect, broker: BrokerThread, queue: Queue, make_queue: Make
) -> None:
    make_queue("healthy", enable_partitioning=True)
    fault = broker.inject(kind="partition-down", partition=SICK, entity="orders")

    def while_down(client: ServiceBusAdministrationClient) -> None:
        found = client.get_queue("orders")
        assert EntityAvailabilityStatus.LIMITED == found.availability_status
        assert EntityAvailabilityStatus.AVAILABLE == client.get_queue("healthy").availability_status
        found.max_delivery_count = 5
        for act in (lambda: client.update_queue(found), lambda: client.delete_queue("orders")):
            with pytest.raises(HttpResponseError, match=f"Partition {SICK} of 'orders' is unavailable"):
                act()

    def after(client: ServiceBusAdministrationClient) -> None:
        found = client.get_queue("orders")
        assert (EntityAvailabilityStatus.AVAILABLE, 10) == (found.availability_status, found.max_delivery_count)
        client.delete_queue("orders")

    await Administered(broker).run(while_down)
    broker.heal(fault)
    await Administered(broker).run(after)
