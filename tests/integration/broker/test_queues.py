"""Queues through the real SDK, blocking and asynchronous."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
)

from local.broker.content import PING_CONTENT_TYPE
from local.broker.descriptions import EntityStatus, MessageCounts, QueueDescription
from local.broker.entities import Queue
from local.broker.entity import MEGABYTE
from tests.integration.broker.conftest import Connect, receive_until, until
from tests.support.broker_thread import BrokerThread

MakeQueue = Callable[..., Queue]


def body(message: object) -> bytes:
    return b"".join(message.body)  # type: ignore[attr-defined]


async def test_messages_are_sent_alone_and_in_batches_and_completed(
    connect: Connect, make_queue: MakeQueue, broker: BrokerThread
) -> None:
    queue = make_queue()
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages(ServiceBusMessage(b"0"))
        await sender.send_messages([ServiceBusMessage(b"%d" % index) for index in range(1, 4)])
        batch = await sender.create_message_batch()
        batch.add_message(ServiceBusMessage(b"4"))
        batch.add_message(ServiceBusMessage(b"5"))
        await sender.send_messages(batch)
        async with client.get_queue_receiver("orders") as receiver:
            got = await receive_until(receiver, 6)
            assert [(b"%d" % index, index + 1, 0) for index in range(6)] == [
                (body(m), m.sequence_number, m.delivery_count) for m in got
            ]
            assert all(
                abs(m.locked_until_utc - datetime.now(UTC) - timedelta(minutes=1)) < timedelta(seconds=5) for m in got
            )
            for m in got:
                await receiver.complete_message(m)
    assert 0 == broker.call(lambda _: queue.main.message_count)


async def test_receive_and_delete_needs_no_settlement(connect: Connect, make_queue: MakeQueue) -> None:
    queue = make_queue()
    async with connect() as client:
        async with client.get_queue_sender("orders") as sender:
            await sender.send_messages([ServiceBusMessage(b"x") for _ in range(3)])
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        async with client.get_queue_receiver("orders", receive_mode=mode) as receiver:
            got = await receive_until(receiver, 3)
            assert [None] * 3 == [m.lock_token for m in got]
            assert [] == await receiver.peek_messages(3)
    assert 0 == queue.main.message_count


async def test_abandoned_deferred_and_dead_lettered_messages_go_where_they_belong(
    connect: Connect, make_queue: MakeQueue
) -> None:
    queue = make_queue(max_delivery_count=2)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages([ServiceBusMessage(name) for name in ("abandon", "defer", "bury")])
        async with client.get_queue_receiver("orders") as receiver:
            abandoned, deferred, buried = await receive_until(receiver, 3)
            await receiver.abandon_message(abandoned)
            await receiver.defer_message(deferred)
            await receiver.dead_letter_message(buried, reason="Broken", error_description="cannot be read")
            (again,) = await receive_until(receiver, 1)
            assert (b"abandon", 1) == (body(again), again.delivery_count)
            await receiver.abandon_message(again)
            (fetched,) = await receiver.receive_deferred_messages(deferred.sequence_number)
            assert (b"defer", ServiceBusMessageState.DEFERRED) == (body(fetched), fetched.state)
            await receiver.complete_message(fetched)
            with pytest.raises(MessageNotFoundError):
                await receiver.receive_deferred_messages(deferred.sequence_number)
        dead_letters = client.get_queue_receiver("orders", sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        async with dead_letters as receiver:
            first, second = await receive_until(receiver, 2)
            assert (b"bury", "Broken", "cannot be read") == (
                body(first),
                first.dead_letter_reason,
                first.dead_letter_error_description,
            )
            assert (b"abandon", "MaxDeliveryCountExceeded") == (body(second), second.dead_letter_reason)
            for m in (first, second):
                await receiver.complete_message(m)
    assert MessageCounts() == queue.counts()


async def test_locks_run_out_and_can_be_renewed(connect: Connect, make_queue: MakeQueue) -> None:
    make_queue(lock_duration=timedelta(seconds=2))
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages([ServiceBusMessage("kept"), ServiceBusMessage("lost")])
        async with client.get_queue_receiver("orders") as receiver:
            kept, lost = await receive_until(receiver, 2)
            until_then = kept.locked_until_utc
            (again,) = await _renewing_until_next(receiver, kept)
            assert (b"lost", 1) == (body(again), again.delivery_count)
            assert kept.locked_until_utc > until_then
            with pytest.raises(MessageLockLostError):
                await receiver.complete_message(lost)
            await receiver.complete_message(kept)
            await receiver.complete_message(again)


async def _renewing_until_next(receiver: object, kept: object) -> list[object]:
    """Renew one message until another comes."""
    for _ in range(20):
        await receiver.renew_message_lock(kept)  # type: ignore[attr-defined]
        got: list[object] = await receiver.receive_messages(1, max_wait_time=0.5)  # type: ignore[attr-defined]
        if got:
            return got
    raise AssertionError("the other lock never ran out")


async def test_scheduled_messages_come_in_time_and_can_be_cancelled(connect: Connect, make_queue: MakeQueue) -> None:
    queue = make_queue()
    async with connect() as client, client.get_queue_sender("orders") as sender:
        soon = datetime.now(UTC) + timedelta(seconds=2)
        soon = soon.replace(microsecond=0)
        first, second = await sender.schedule_messages([ServiceBusMessage("1"), ServiceBusMessage("2")], soon)
        await sender.send_messages(ServiceBusMessage("3", scheduled_enqueue_time_utc=soon))
        await sender.cancel_scheduled_messages(second)
        with pytest.raises(ServiceBusError):
            await sender.cancel_scheduled_messages(second)
        assert 2 == queue.main.scheduled_count
        async with client.get_queue_receiver("orders") as receiver:
            states = [m.state for m in await receiver.peek_messages(5)]
            assert [ServiceBusMessageState.SCHEDULED] * 2 == states
            got = await receive_until(receiver, 2)
            assert [b"1", b"3"] == [body(m) for m in got]
            assert [soon, soon] == [m.enqueued_time_utc for m in got]
            assert first not in [m.sequence_number for m in got]
            assert soon == got[0].scheduled_enqueue_time_utc


async def test_peeking_pages_without_locking(connect: Connect, make_queue: MakeQueue) -> None:
    queue = make_queue()
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages([ServiceBusMessage(b"%d" % index) for index in range(10)])
        async with client.get_queue_receiver("orders") as receiver:
            first = await receiver.peek_messages(4)
            rest = await receiver.peek_messages(10, sequence_number=first[-1].sequence_number + 1)
            assert [b"%d" % index for index in range(10)] == [body(m) for m in first + rest]
    assert 0 == queue.main.lock_count


async def test_messages_expire_and_are_dead_lettered(connect: Connect, make_queue: MakeQueue) -> None:
    queue = make_queue(dead_lettering_on_message_expiration=True)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages(ServiceBusMessage("old", time_to_live=timedelta(seconds=0.3)))
        await until(lambda: queue.dead_letters.message_count == 1)
        dead_letters = client.get_queue_receiver("orders", sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        async with dead_letters as receiver:
            (dead,) = await receive_until(receiver, 1)
            assert (b"old", "TTLExpiredException") == (body(dead), dead.dead_letter_reason)


async def test_duplicates_are_accepted_and_dropped(connect: Connect, make_queue: MakeQueue) -> None:
    queue = make_queue(requires_duplicate_detection=True)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        for message_id in ("a", "b", "a"):
            await sender.send_messages(ServiceBusMessage(message_id, message_id=message_id))
        await sender.send_messages([ServiceBusMessage("x", message_id="b"), ServiceBusMessage("c", message_id="c")])
        async with client.get_queue_receiver("orders") as receiver:
            got = await receive_until(receiver, 3)
            assert [b"a", b"b", b"c"] == [body(m) for m in got]
            await sender.send_messages(got[0])
    assert 3 == queue.main.message_count


async def test_messages_and_dead_letters_are_forwarded(connect: Connect, make_queue: MakeQueue) -> None:
    target, morgue = make_queue("target"), make_queue("morgue")
    make_queue("source", forward_to="target")
    make_queue("orders", forward_dead_lettered_messages_to="morgue")
    stuck = make_queue("stuck", forward_to="nowhere")
    async with connect() as client:
        for name in ("source", "orders", "stuck"):
            async with client.get_queue_sender(name) as sender:
                await sender.send_messages(ServiceBusMessage(name))
        with pytest.raises(ServiceBusError, match="forwards its messages"):
            async with client.get_queue_receiver("source") as receiver:
                await receiver.receive_messages(1, max_wait_time=1)
        async with client.get_queue_receiver("target") as receiver:
            (moved,) = await receive_until(receiver, 1)
            assert (b"source", 1) == (body(moved), moved.enqueued_sequence_number)
        async with client.get_queue_receiver("orders") as receiver:
            (dying,) = await receive_until(receiver, 1)
            await receiver.dead_letter_message(dying, reason="Broken")
        async with client.get_queue_receiver("morgue") as receiver:
            (dead,) = await receive_until(receiver, 1)
            assert ("orders", "Broken") == (dead.dead_letter_source, dead.dead_letter_reason)
        transfer = client.get_queue_receiver("stuck", sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER)
        async with transfer as receiver:
            (kept,) = await receive_until(receiver, 1)
            assert (b"stuck", "TransferDestinationNotFound") == (body(kept), kept.dead_letter_reason)
    assert (1, 1, 1) == (
        target.main.message_count,
        morgue.main.message_count,
        stuck.counts().transfer_dead_letter,
    )


async def test_limits_of_size_and_quota_hold(connect: Connect, make_queue: MakeQueue) -> None:
    queue = make_queue(max_size_in_megabytes=1)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        with pytest.raises(MessageSizeExceededError):
            await sender.send_messages(ServiceBusMessage(b"x" * 300_000))
        properties = {f"k{index}": "x" * 1000 for index in range(70)}
        with pytest.raises(ServiceBusError, match="header and properties"):
            await sender.send_messages(ServiceBusMessage(b"", application_properties=properties))
        for _ in range(5):
            await sender.send_messages(ServiceBusMessage(b"x" * 250_000))
        with pytest.raises(ServiceBusQuotaExceededError):
            await sender.send_messages(ServiceBusMessage(b"x"))
    assert queue.size_bytes > MEGABYTE


async def test_a_disabled_queue_takes_or_gives_nothing(
    connect: Connect, make_queue: MakeQueue, broker: BrokerThread
) -> None:
    make_queue()

    def set_status(status: EntityStatus) -> None:
        broker.call(lambda space: space.update_queue("orders", QueueDescription(status=status)))

    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages(ServiceBusMessage("before"))
        set_status(EntityStatus.SEND_DISABLED)
        with pytest.raises(MessagingEntityDisabledError):
            await sender.send_messages(ServiceBusMessage("refused"))
        async with client.get_queue_receiver("orders") as receiver:
            assert 1 == len(await receive_until(receiver, 1))
        set_status(EntityStatus.RECEIVE_DISABLED)
        with pytest.raises(MessagingEntityDisabledError):
            async with client.get_queue_receiver("orders") as receiver:
                await receiver.receive_messages(1, max_wait_time=1)
        await sender.send_messages(ServiceBusMessage("after"))


async def test_a_deleted_queue_is_not_found(connect: Connect, make_queue: MakeQueue, broker: BrokerThread) -> None:
    make_queue()
    async with connect(retry_total=1, retry_backoff_factor=0.01) as client:
        async with client.get_queue_sender("orders") as sender:
            await sender.send_messages(ServiceBusMessage("before"))
            broker.call(lambda space: space.delete_queue("orders"))
            with pytest.raises((MessagingEntityNotFoundError, ServiceBusAuthenticationError)):
                await sender.send_messages(ServiceBusMessage("after"))
        # The service answers for a missing entity where the token is put.
        with pytest.raises(ServiceBusAuthenticationError):
            async with client.get_queue_sender("orders") as sender:
                await sender.send_messages(ServiceBusMessage("after"))


async def test_pings_are_accepted_and_never_seen(connect: Connect, make_queue: MakeQueue) -> None:
    queue = make_queue(dead_lettering_on_message_expiration=True)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        ping = ServiceBusMessage(b"", content_type=PING_CONTENT_TYPE, time_to_live=timedelta(seconds=1))
        await sender.send_messages(ping)
        await sender.send_messages([ping, ServiceBusMessage("real")])
        await sender.schedule_messages(ping, datetime.now(UTC) + timedelta(seconds=1))
        async with client.get_queue_receiver("orders") as receiver:
            assert [b"real"] == [body(m) for m in await receiver.peek_messages(9)]
    assert MessageCounts(active=1) == queue.counts()


async def test_namespaces_do_not_see_each_other(connect: Connect) -> None:
    """Two namespaces of one process with the same entity names."""
    with BrokerThread("primary", "secondary") as both:
        for name in ("primary", "secondary"):
            both.call(lambda space: space.create_queue("orders", QueueDescription()), name)
        for name in ("primary", "secondary"):
            text = both.connection_string(name)
            async with connect(connection_string=text) as client, client.get_queue_sender("orders") as sender:
                await sender.send_messages(ServiceBusMessage(name))
        for name in ("primary", "secondary"):
            text = both.connection_string(name)
            async with connect(connection_string=text) as client, client.get_queue_receiver("orders") as receiver:
                assert [name.encode()] == [body(m) for m in await receiver.peek_messages(5)]
