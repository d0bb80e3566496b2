"""Every kind of fault does what it says, as the real SDK sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
)

from local.broker.descriptions import QueueDescription
from local.broker.entities import Queue
from tests.integration.broker.conftest import Connect, receive_until, until
from tests.support.broker_thread import BrokerThread
from tests.support.sdk_leftovers import SDK_LEFTOVERS

#: Long enough to be sure that no answer comes, short enough to wait for.
PATIENCE_S = 1.5


pytestmark = pytest.mark.filterwarnings(SDK_LEFTOVERS)


@pytest.fixture
def queue(broker: BrokerThread, make_queue: Callable[..., Queue]) -> Queue:
    make_queue("other")
    return make_queue("orders")


@asynccontextmanager
async def sending(connect: Connect, name: str = "orders", **options: Any) -> AsyncIterator[Any]:
    async with connect(**options) as client, client.get_queue_sender(name) as sender:
        yield sender


def text(body: str = "x") -> ServiceBusMessage:
    return ServiceBusMessage(body)


async def test_throttle(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    async with sending(connect) as sender:
        fault = broker.inject(kind="throttle", entity="orders")
        with pytest.raises(ServiceBusServerBusyError):
            await sender.send_messages(text())
        assert 1 == broker.hits(fault)
        broker.heal(fault)
        await sender.send_messages(text())
    assert 1 == queue.main.message_count


async def test_throttle_that_passes_is_survived_by_a_client_that_retries(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    broker.inject(kind="throttle", count=2)
    async with sending(connect, retry_total=3, retry_backoff_factor=0.01) as sender:
        await sender.send_messages(text())
    assert 1 == queue.main.message_count


@pytest.mark.parametrize(
    ("condition", "raised"),
    [
        ("amqp:not-found", MessagingEntityNotFoundError),
        ("amqp:unauthorized-access", ServiceBusAuthorizationError),
        ("com.microsoft:timeout", OperationTimeoutError),
        ("com.microsoft:message-lock-lost", MessageLockLostError),
        ("com.example:made-up", ServiceBusError),
    ],
)
async def test_error_by_condition(
    connect: Connect, broker: BrokerThread, queue: Queue, condition: str, raised: type[Exception]
) -> None:
    async with sending(connect) as sender:
        broker.inject(kind="error", condition=condition, description="Made to fail.")
        with pytest.raises(raised, match="Made to fail") as failure:
            await sender.send_messages(text())
    assert raised is type(failure.value)


async def test_error_by_rate_and_seed(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    async def run(seed: int) -> list[bool]:
        fault = broker.inject(kind="error", condition="com.microsoft:server-busy", rate=0.5, seed=seed)
        results = []
        for _ in range(20):
            try:
                await sender.send_messages(text())
                results.append(True)
            except ServiceBusError:
                results.append(False)
        broker.heal(fault)
        return results

    async with sending(connect) as sender:
        first, second, other = await run(1), await run(1), await run(2)
    assert first == second != other
    assert sum(first + second + other) == queue.main.message_count


async def test_disable(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    broker.inject(kind="disable", entity="orders")
    async with connect() as client:
        with pytest.raises(MessagingEntityDisabledError):
            async with client.get_queue_sender("orders") as sender:
                await sender.send_messages(text())
        with pytest.raises(MessagingEntityDisabledError):
            async with client.get_queue_receiver("orders") as receiver:
                await receiver.receive_messages(1, max_wait_time=1)
        async with client.get_queue_sender("other") as sender:
            await sender.send_messages(text())


async def test_full(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    async with sending(connect) as sender:
        broker.inject(kind="full")
        with pytest.raises(ServiceBusQuotaExceededError):
            await sender.send_messages(text())


async def test_detach(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    async with sending(connect) as sender:
        broker.inject(kind="detach", count=1)
        with pytest.raises(ServiceBusConnectionError):
            await sender.send_messages(text())
        await sender.send_messages(text())
    assert 1 == queue.main.message_count


@pytest.mark.parametrize("resets", [False, True])
async def test_lose_acknowledgement(connect: Connect, broker: BrokerThread, queue: Queue, resets: bool) -> None:
    async with sending(connect) as sender:
        await sender.send_messages(text("known"))
        broker.inject(kind="lose-acknowledgement", count=1, reset=resets)
        started = time.monotonic()
        with pytest.raises(ServiceBusConnectionError if resets else OperationTimeoutError):
            await sender.send_messages(text("stored, but who knows"), timeout=PATIENCE_S)
        assert resets == (time.monotonic() - started < PATIENCE_S / 2)
        assert 2 == queue.main.message_count


async def test_lose_acknowledgement_makes_a_client_that_retries_send_twice(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    async with sending(connect, retry_total=2, retry_backoff_factor=0.01) as sender:
        broker.inject(kind="lose-acknowledgement", count=1, reset=True)
        await sender.send_messages(text())
    assert 2 == queue.main.message_count


async def test_drop_cbs(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    fault = broker.inject(kind="drop-cbs", entity="orders")
    async with connect() as client:
        waiting = asyncio.create_task(client.get_queue_sender("orders").send_messages(text()))
        await until(lambda: broker.hits(fault))
        async with client.get_queue_sender("other") as other:
            await other.send_messages(text("beside"))
        assert not waiting.done()
        # The SDK waits a minute for its token; a reset ends that.
        broker.inject(kind="refuse")
        with pytest.raises(ServiceBusError):
            await waiting
    assert 0 == queue.main.message_count


async def test_revoke(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    async with connect() as client:
        async with client.get_queue_sender("orders") as sender:
            await sender.send_messages(text())
            fault = broker.inject(kind="revoke")
            with pytest.raises(ServiceBusAuthorizationError):
                await sender.send_messages(text())
            with pytest.raises(ServiceBusAuthenticationError):
                async with client.get_queue_receiver("orders") as receiver:
                    await receiver.receive_messages(1, max_wait_time=1)
            broker.heal(fault)
        async with client.get_queue_receiver("orders") as receiver:
            assert 1 == len(await receive_until(receiver, 1))


async def test_delay(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    async with sending(connect) as sender:
        await sender.send_messages(text())
        broker.inject(kind="delay", delay_s=0.4, jitter_s=0.2, points=["send"])
        started = time.monotonic()
        await sender.send_messages(text())
        assert 0.4 <= time.monotonic() - started < 5


async def test_reset_at_a_point(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    async with sending(connect) as sender:
        await sender.send_messages(text())
        broker.inject(kind="reset", count=1)
        with pytest.raises(ServiceBusConnectionError):
            await sender.send_messages(text())
        await sender.send_messages(text())
    assert 2 == queue.main.message_count


@pytest.mark.parametrize("limit", [{"after_bytes": 20_000}, {"after_frames": 20}])
async def test_reset_after_so_much(connect: Connect, broker: BrokerThread, queue: Queue, limit: dict[str, int]) -> None:
    async with sending(connect) as sender:
        await sender.send_messages(text())
        broker.inject(kind="reset", count=1, **limit)
        with pytest.raises(ServiceBusConnectionError):
            await _send_many(sender)
        assert 5 < queue.main.message_count < 25
        await sender.send_messages(text())


async def _send_many(sender: Any) -> None:
    for _ in range(100):
        await sender.send_messages(text("x" * 1000))


async def test_black_hole_of_an_entity_and_its_end(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    async with sending(connect) as sender, sending(connect, "other") as other:
        await sender.send_messages(text("before"))
        fault = broker.inject(kind="black-hole", entity="orders")
        with pytest.raises(OperationTimeoutError):
            await sender.send_messages(text("held"), timeout=PATIENCE_S)
        await other.send_messages(text("beside"))
        assert 1 == queue.main.message_count
        broker.heal(fault)
        await sender.send_messages(text("after"))
    bodies = [m.content.sections().body[5:] for m in queue.main.messages()]
    assert (b"before", b"after") == (bodies[0], bodies[-1])


async def test_black_hole_of_a_namespace_and_its_end(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    async with sending(connect) as sender:
        await sender.send_messages(text("before"))
        fault = broker.inject(kind="black-hole", namespace="primary")
        with pytest.raises(OperationTimeoutError):
            await sender.send_messages(text("held"), timeout=PATIENCE_S)
        async with connect() as client:
            waiting = asyncio.create_task(client.get_queue_sender("orders").send_messages(text("fresh")))
            done, _ = await asyncio.wait([waiting], timeout=PATIENCE_S)
            assert (set(), 1) == (done, queue.main.message_count)
            broker.heal(fault)
            await waiting
        await sender.send_messages(text("after"))
    bodies = [m.content.sections().body[5:] for m in queue.main.messages()]
    assert (b"before", b"after") == (bodies[0], bodies[-1])
    assert b"fresh" in bodies


async def test_refuse_and_its_end(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    async with sending(connect) as sender:
        await sender.send_messages(text())
        fault = broker.inject(kind="refuse", namespace="primary")
        for _ in range(2):
            with pytest.raises(ServiceBusConnectionError):
                await sender.send_messages(text())
        broker.heal(fault)
        await sender.send_messages(text())
    assert 2 == queue.main.message_count


async def test_a_fault_of_one_namespace_leaves_the_other_alone(connect: Connect) -> None:
    with BrokerThread("primary", "secondary") as both:
        for name in ("primary", "secondary"):
            both.call(lambda space: space.create_queue("orders", QueueDescription()), name)
        for fault in ({"kind": "refuse"}, {"kind": "full"}, {"kind": "revoke"}):
            number = both.inject(**fault, namespace="primary")
            with pytest.raises(ServiceBusError):
                async with sending(connect, connection_string=both.connection_string("primary")) as sender:
                    await sender.send_messages(text())
            async with sending(connect, connection_string=both.connection_string("secondary")) as sender:
                await sender.send_messages(text())
            both.heal(number)


async def test_faults_at_delivery_under_peek_lock_cost_a_lock(
    connect: Connect, broker: BrokerThread, make_queue: Callable[..., Queue]
) -> None:
    queue = make_queue("short", lock_duration=timedelta(seconds=1))
    broker.inject(kind="detach", points=["deliver"], count=1)
    async with connect() as client, client.get_queue_sender("short") as sender:
        await sender.send_messages(text())
        async with client.get_queue_receiver("short") as receiver:
            with pytest.raises(ServiceBusConnectionError):
                await receiver.receive_messages(1, max_wait_time=1)
            (got,) = await receive_until(receiver, 1)
            assert 1 == got.delivery_count
    assert 1 == queue.main.message_count


async def test_faults_at_delivery_with_receive_and_delete_cost_the_message(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    broker.inject(kind="reset", points=["deliver"], count=1)
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages([text("lost"), text("kept")])
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        async with client.get_queue_receiver("orders", receive_mode=mode) as receiver:
            with pytest.raises(ServiceBusConnectionError):
                await receiver.receive_messages(1, max_wait_time=1)
            (got,) = await receive_until(receiver, 1)
    assert (b"kept", 0) == (b"".join(got.body), queue.main.message_count)


async def test_a_lost_settlement_is_made_good_by_the_sdk_over_management(
    connect: Connect, broker: BrokerThread, queue: Queue
) -> None:
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages(text())
        async with client.get_queue_receiver("orders") as receiver:
            (got,) = await receive_until(receiver, 1)
            broker.inject(kind="detach", points=["settle"], count=1)
            await receiver.complete_message(got)
    assert 0 == queue.main.message_count


async def test_management_can_be_delayed_refused_and_lost(connect: Connect, broker: BrokerThread, queue: Queue) -> None:
    async with connect() as client, client.get_queue_sender("orders") as sender:
        await sender.send_messages(text())
        async with client.get_queue_receiver("orders") as receiver:
            fault = broker.inject(kind="throttle", points=["management"])
            with pytest.raises(ServiceBusServerBusyError):
                await receiver.peek_messages(1)
            broker.heal(fault)
            fault = broker.inject(kind="delay", points=["management"], delay_s=0.3)
            started = time.monotonic()
            assert 1 == len(await receiver.peek_messages(1))
            assert time.monotonic() - started >= 0.3
            broker.heal(fault)
            broker.inject(kind="lose-acknowledgement", points=["management"])
            with pytest.raises((ServiceBusError, TimeoutError)):
                await receiver.peek_messages(1, timeout=PATIENCE_S)
