"""Partitioned queues and topics as the real SDK sees them: keys, order, sequence numbers, sizes, limits."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import ServiceBusError, ServiceBusQuotaExceededError
from azure.servicebus.management import ServiceBusAdministrationClient

from local.broker.entities import Queue, Subscription, Topic
from local.broker.entity import MEGABYTE
from local.broker.partitioning import PARTITION_COUNT, partition_of_key
from tests.integration.broker.conftest import Connect, receive_until
from tests.support.broker_thread import BrokerThread
from tests.support.sdk_leftovers import SDK_LEFTOVERS

pytestmark = pytest.mark.filterwarnings(SDK_LEFTOVERS)

DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE
Make = Callable[..., Any]


def partition(message: Any) -> int:
    return int(message.sequence_number) >> 48


def key_in(index: int, prefix: str = "key") -> str:
    return next(f"{prefix}-{n}" for n in range(10_000) if partition_of_key(f"{prefix}-{n}", PARTITION_COUNT) == index)


async def test_the_same_key_always_lands_in_the_same_partition_and_keeps_its_order(
    connect: Connect, make_queue: Make
) -> None:
    make_queue(enable_partitioning=True)
    keys = [f"customer-{n}" for n in range(40)]
    async with connect() as client, client.get_queue_sender("orders") as sender:
        for turn in range(3):
            for key in keys:
                await sender.send_messages(ServiceBusMessage(f"{turn}", partition_key=key))
        async with client.get_queue_receiver("orders", receive_mode=DELETE) as receiver:
            got = await receive_until(receiver, 120)
    turns, homes = defaultdict(list), defaultdict(set)
    for message in got:
        turns[message.partition_key].append(str(message))
        homes[message.partition_key].add(partition(message))
    assert {key: ["0", "1", "2"] for key in keys} == turns
    assert {key: {partition_of_key(key, PARTITION_COUNT)} for key in keys} == homes


async def test_messages_without_a_key_go_round_all_partitions(connect: Connect, make_queue: Make) -> None:
    queue: Queue = make_queue(enable_partitioning=True)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        for n in range(32):
            await sender.send_messages(ServiceBusMessage(f"{n}", message_id="the same id is no key here"))
    assert [2] * PARTITION_COUNT == [len(one.messages) for one in queue.main.partitions]


async def test_sequence_numbers_carry_the_partition_in_their_top_16_bits(connect: Connect, make_queue: Make) -> None:
    make_queue(enable_partitioning=True)
    key = key_in(11)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages([ServiceBusMessage(text, partition_key=key) for text in ("a", "b")])
        when = datetime.now(UTC) + timedelta(hours=1)
        scheduled = await sender.schedule_messages(ServiceBusMessage("c", partition_key=key), when)
        async with client.get_queue_receiver("orders") as receiver:
            got = await receive_until(receiver, 2)
    assert [11 << 48 | 1, 11 << 48 | 2, 11 << 48 | 3] == [*(m.sequence_number for m in got), *scheduled]


async def test_a_message_id_is_the_key_where_duplicates_are_detected(connect: Connect, make_queue: Make) -> None:
    queue: Queue = make_queue(enable_partitioning=True, requires_duplicate_detection=True)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        for n in range(20):
            await sender.send_messages(ServiceBusMessage("x", message_id=f"id-{n}"))
            await sender.send_messages(ServiceBusMessage("again", message_id=f"id-{n}"))
    expected = Counter(partition_of_key(f"id-{n}", PARTITION_COUNT) for n in range(20))
    assert expected == Counter({one.index: len(one.messages) for one in queue.main.partitions if one.messages})


async def test_duplicates_are_told_within_a_partition_only(connect: Connect, make_queue: Make) -> None:
    queue: Queue = make_queue(enable_partitioning=True, requires_duplicate_detection=True)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        for index in (1, 2, 1):
            await sender.send_messages(ServiceBusMessage("x", message_id="same", partition_key=key_in(index)))
    assert {1: 1, 2: 1} == {one.index: len(one.messages) for one in queue.main.partitions if one.messages}


async def test_session_id_and_partition_key_that_differ_are_an_invalid_operation(
    connect: Connect, make_queue: Make, broker: BrokerThread
) -> None:
    queue: Queue = make_queue(enable_partitioning=True)

    def keyed(partition_key: str) -> AmqpAnnotatedMessage:
        """As another client would write it: this SDK refuses it before it is sent."""
        annotations = {"x-opt-partition-key": partition_key}
        return AmqpAnnotatedMessage(data_body=b"x", properties={"group_id": "a"}, annotations=annotations)

    async with connect() as client, client.get_queue_sender("orders") as sender:
        with pytest.raises(ServiceBusError, match=r"InvalidOperation.*differ"):
            await sender.send_messages(keyed("b"))
        assert 0 == broker.call(lambda _: queue.main.message_count)
        await sender.send_messages(keyed("a"))
    assert 1 == broker.call(lambda _: queue.main.message_count)


async def test_a_session_lives_in_one_partition_and_sessions_are_found_in_all(
    connect: Connect, make_queue: Make
) -> None:
    make_queue(enable_partitioning=True, requires_session=True)
    ids = [f"session-{n}" for n in range(8)]
    async with connect() as client:
        async with client.get_queue_sender("orders") as sender:
            for turn in ("1", "2"):
                for session in ids:
                    await sender.send_messages(ServiceBusMessage(turn, session_id=session))
        seen = {}
        for _ in ids:
            async with client.get_queue_receiver("orders", session_id=NEXT_AVAILABLE_SESSION) as receiver:
                got = await receive_until(receiver, 2)
                seen[receiver.session.session_id] = [str(message) for message in got], {partition(m) for m in got}
                for message in got:
                    await receiver.complete_message(message)
    assert {one: (["1", "2"], {partition_of_key(one, PARTITION_COUNT)}) for one in ids} == seen


async def test_peeking_goes_through_all_partitions(connect: Connect, make_queue: Make) -> None:
    make_queue(enable_partitioning=True)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages([ServiceBusMessage(f"{n}") for n in range(40)])
        async with client.get_queue_receiver("orders") as receiver:
            seen = []
            while page := await receiver.peek_messages(7, sequence_number=seen[-1].sequence_number + 1 if seen else 0):
                seen += page
    assert {f"{n}" for n in range(40)} == {str(message) for message in seen}
    assert 40 == len(seen)


async def test_deferred_messages_are_fetched_from_one_partition_at_a_time(connect: Connect, make_queue: Make) -> None:
    make_queue(enable_partitioning=True)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        for index in (3, 9):
            await sender.send_messages(ServiceBusMessage("x", partition_key=key_in(index)))
        async with client.get_queue_receiver("orders") as receiver:
            got = await receive_until(receiver, 2)
            for message in got:
                await receiver.defer_message(message)
            numbers = [message.sequence_number for message in got]
            with pytest.raises(ServiceBusError, match="different partitions"):
                await receiver.receive_deferred_messages(numbers)
            fetched = [await receiver.receive_deferred_messages([number]) for number in numbers]
    assert numbers == [one[0].sequence_number for one in fetched]


async def test_copies_of_a_topics_message_keep_its_partition(
    connect: Connect, make_topic: Make, make_subscription: Make
) -> None:
    make_topic(enable_partitioning=True)
    subscriptions: list[Subscription] = [make_subscription("one"), make_subscription("two")]
    async with connect() as client, client.get_topic_sender("events") as sender:
        for n in range(16):
            await sender.send_messages(ServiceBusMessage(f"{n}"))
        await sender.send_messages(ServiceBusMessage("keyed", partition_key=key_in(5)))
    expected = [2 if index == 5 else 1 for index in range(PARTITION_COUNT)]
    assert [expected, expected] == [[len(p.messages) for p in one.main.partitions] for one in subscriptions]


@pytest.mark.parametrize(("source", "target"), [(True, True), (True, False), (False, True)])
async def test_auto_forward_keeps_the_key(connect: Connect, make_queue: Make, source: bool, target: bool) -> None:
    make_queue("target", enable_partitioning=target)
    make_queue("source", enable_partitioning=source, forward_to="target")
    keys = [f"k{n}" for n in range(10)]
    async with connect() as client:
        async with client.get_queue_sender("source") as sender:
            for key in keys:
                await sender.send_messages(ServiceBusMessage(key, partition_key=key))
        async with client.get_queue_receiver("target", receive_mode=DELETE) as receiver:
            got = await receive_until(receiver, 10)
    assert sorted(keys) == sorted(message.partition_key for message in got)
    homes = {key: partition_of_key(key, PARTITION_COUNT) if target else 0 for key in keys}
    assert homes == {message.partition_key: partition(message) for message in got}


async def test_each_partition_has_the_size_of_its_own_and_a_full_one_is_gone_around(
    connect: Connect, make_queue: Make, broker: BrokerThread
) -> None:
    queue: Queue = make_queue(enable_partitioning=True, max_size_in_megabytes=1024)

    def fill(_: object) -> None:
        queue.main.partitions[4].size_bytes += 1024 * MEGABYTE

    broker.call(fill)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        with pytest.raises(ServiceBusQuotaExceededError, match="Partition 4"):
            await sender.send_messages(ServiceBusMessage("x", partition_key=key_in(4)))
        await sender.send_messages(ServiceBusMessage("x", partition_key=key_in(5)))
        for _ in range(30):
            await sender.send_messages(ServiceBusMessage("x"))
    assert not queue.main.partitions[4].messages
    assert 31 == queue.main.message_count


class Administered:
    """The administration client, off the test's event loop."""

    def __init__(self, broker: BrokerThread) -> None:
        self._verify = str(broker.broker.authority_file)
        self._connection_string = broker.connection_string()

    async def run(self, work: Callable[[ServiceBusAdministrationClient], Any]) -> Any:
        def act() -> Any:
            with ServiceBusAdministrationClient.from_connection_string(
                self._connection_string, connection_verify=self._verify, retry_total=0
            ) as client:
                return work(client)

        return await asyncio.to_thread(act)


async def test_partitioning_is_chosen_at_creation_and_sizes_count_sixteen_times(broker: BrokerThread) -> None:
    def work(client: ServiceBusAdministrationClient) -> None:
        queue = client.create_queue("q", enable_partitioning=True, max_size_in_megabytes=5120)
        assert (True, 80 * 1024) == (queue.enable_partitioning, queue.max_size_in_megabytes)
        queue.enable_partitioning, queue.max_size_in_megabytes = False, 5120
        with pytest.raises(HttpResponseError, match="EnablePartitioning"):
            client.update_queue(queue)
        with pytest.raises(HttpResponseError, match="MaxSizeInMegabytes"):
            client.create_queue("large", enable_partitioning=True, max_size_in_megabytes=6144)
        topic = client.create_topic("t", enable_partitioning=True, max_size_in_megabytes=1024)
        assert 16 * 1024 == topic.max_size_in_megabytes

    await Administered(broker).run(work)


async def test_a_namespace_has_a_hundred_partitioned_entities_at_most(broker: BrokerThread, make_queue: Make) -> None:
    for n in range(99):
        make_queue(f"queue-{n}", enable_partitioning=True)

    def work(client: ServiceBusAdministrationClient) -> None:
        client.create_topic("the-hundredth", enable_partitioning=True)
        for create in (client.create_queue, client.create_topic):
            with pytest.raises(HttpResponseError, match="100 partitioned queues and topics"):
                create("one-more", enable_partitioning=True)
        client.create_queue("plain")

    await Administered(broker).run(work)


async def test_counts_are_sums_over_all_partitions(connect: Connect, broker: BrokerThread, make_queue: Make) -> None:
    make_queue(enable_partitioning=True)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages([ServiceBusMessage(f"{n}") for n in range(20)])
        when = datetime.now(UTC) + timedelta(hours=1)
        await sender.schedule_messages([ServiceBusMessage("later") for _ in range(3)], when)
    found = await Administered(broker).run(lambda client: client.get_queue_runtime_properties("orders"))
    assert (20, 3) == (found.active_message_count, found.scheduled_message_count)


def test_a_topic_and_its_subscriptions_have_as_many_partitions(make_topic: Make, make_subscription: Make) -> None:
    topic: Topic = make_topic(enable_partitioning=True)
    assert [PARTITION_COUNT] * 2 == [len(topic.inbox.partitions), len(make_subscription().main.partitions)]
