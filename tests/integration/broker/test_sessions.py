"""Sessions through the real SDK."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from local.broker.entities import Queue, Subscription, Topic
from tests.integration.broker.conftest import Connect, receive_until, until
from tests.integration.broker.test_queues import body

MakeQueue = Callable[..., Queue]


async def fill(client: object, *pairs: tuple[str, str]) -> None:
    async with client.get_queue_sender("orders") as sender:  # type: ignore[attr-defined]
        await sender.send_messages([ServiceBusMessage(text, session_id=session) for session, text in pairs])


async def test_sessions_are_taken_by_name_or_as_they_come(connect: Connect, make_queue: MakeQueue) -> None:
    queue = make_queue(requires_session=True)
    async with connect() as client:
        await fill(client, ("a", "1"), ("b", "2"), ("a", "3"))
        async with client.get_queue_receiver("orders", session_id="a") as named:
            assert [b"1", b"3"] == [body(m) for m in await receive_until(named, 2)]
            with pytest.raises(SessionCannotBeLockedError):
                async with client.get_queue_receiver("orders", session_id="a") as second:
                    await second.receive_messages(1, max_wait_time=1)
            async with client.get_queue_receiver("orders", session_id=NEXT_AVAILABLE_SESSION) as next_one:
                assert "b" == next_one.session.session_id
                (got,) = await receive_until(next_one, 1)
                await next_one.complete_message(got)
            session = client.get_queue_receiver("orders", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1)
            with pytest.raises(OperationTimeoutError):
                await session.__aenter__()
        await until(lambda: not queue.main.lock_count)
        async with client.get_queue_receiver("orders", session_id=NEXT_AVAILABLE_SESSION) as again:
            got = await receive_until(again, 2)
            assert [(b"1", 0), (b"3", 0)] == [(body(m), m.delivery_count) for m in got]


async def test_sessions_have_state_and_a_lock_to_renew(connect: Connect, make_queue: MakeQueue) -> None:
    make_queue(requires_session=True)
    async with connect() as client:
        await fill(client, ("a", "1"))
        async with client.get_queue_receiver("orders", session_id="a") as receiver:
            assert None is await receiver.session.get_state()
            await receiver.session.set_state("page 3")
            before = receiver.session.locked_until_utc
            assert await receiver.session.renew_lock() >= before
            (got,) = await receive_until(receiver, 1)
            await receiver.defer_message(got)
            (deferred,) = await receiver.receive_deferred_messages(got.sequence_number)
            await receiver.complete_message(deferred)
        async with client.get_queue_receiver("orders", session_id="a") as receiver:
            assert b"page 3" == await receiver.session.get_state()
            await receiver.session.set_state(None)
            assert None is await receiver.session.get_state()


async def test_a_lost_session_lock_is_noticed_and_counts(connect: Connect, make_queue: MakeQueue) -> None:
    queue = make_queue(requires_session=True, lock_duration=timedelta(seconds=1))
    async with connect() as client:
        await fill(client, ("a", "1"))
        async with client.get_queue_receiver("orders", session_id="a") as receiver:
            (got,) = await receive_until(receiver, 1)
            await until(lambda: not queue.main.lock_count)
            with pytest.raises(SessionLockLostError):
                await receiver.complete_message(got)
            with pytest.raises(SessionLockLostError):
                await receiver.session.renew_lock()
    assert [1] == [m.delivery_count for m in queue.main.messages()]


async def test_sessions_are_listed(connect: Connect, make_queue: MakeQueue) -> None:
    make_queue(requires_session=True)
    async with connect() as client:
        await fill(client, *[(f"s{index:03}", "x") for index in range(105)])
        async with client.get_queue_receiver("orders", session_id="with state") as receiver:
            await receiver.session.set_state(b"x")
        expected = [*(f"s{index:03}" for index in range(105)), "with state"]
        assert expected == [name async for name in client.list_queue_sessions("orders")]
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        changed = client.list_queue_sessions("orders", state_updated_after=long_ago)
        assert ["with state"] == [name async for name in changed]


async def test_session_entities_and_plain_ones_are_not_mixed_up(connect: Connect, make_queue: MakeQueue) -> None:
    make_queue(requires_session=True)
    make_queue("plain")
    async with connect() as client:
        async with client.get_queue_sender("orders") as sender:
            with pytest.raises(ServiceBusError, match="requires sessions"):
                await sender.send_messages(ServiceBusMessage("x"))
        with pytest.raises(ServiceBusError, match="requires sessions"):
            async with client.get_queue_receiver("orders") as receiver:
                await receiver.receive_messages(1, max_wait_time=1)
        with pytest.raises(ServiceBusError, match="does not use sessions"):
            async with client.get_queue_receiver("plain", session_id="a") as receiver:
                await receiver.receive_messages(1, max_wait_time=1)


async def test_subscriptions_have_sessions_too(
    connect: Connect, make_topic: Callable[..., Topic], make_subscription: Callable[..., Subscription]
) -> None:
    make_topic()
    make_subscription(requires_session=True)
    async with connect() as client:
        async with client.get_topic_sender("events") as sender:
            await sender.send_messages(ServiceBusMessage("1", session_id="a"))
        async with client.get_subscription_receiver("events", "all", session_id=NEXT_AVAILABLE_SESSION) as receiver:
            assert ("a", [b"1"]) == (receiver.session.session_id, [body(m) for m in await receive_until(receiver, 1)])
