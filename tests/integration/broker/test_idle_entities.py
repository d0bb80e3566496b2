"""AutoDeleteOnIdle as the SDK sees it, on a clock that is moved by hand."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusAuthenticationError

from local.broker.clock import ManualClock
from local.broker.descriptions import QueueDescription
from local.broker.errors import EntityNotFound
from tests.integration.broker.conftest import until
from tests.support.broker_thread import BrokerThread

IDLE = timedelta(minutes=5)


async def test_a_queue_that_nobody_uses_deletes_itself_and_one_in_use_does_not() -> None:
    # Starts at the real time: the SDK dates its tokens by it.
    clock = ManualClock(time.time())
    with BrokerThread("primary", clock=clock) as broker:
        broker.call(lambda space: space.create_queue("idle", QueueDescription(auto_delete_on_idle=IDLE)))
        for _ in range(3):
            await _send(broker, "kept in use")
            broker.call(lambda _: clock.advance(IDLE.total_seconds() - 1))
        assert 3 == broker.call(lambda space: space.queue("idle").main.message_count)
        await until(lambda: broker.call(lambda space: not space.queue("idle").links))
        broker.call(lambda _: clock.advance(1.0))
        with pytest.raises(ServiceBusAuthenticationError) as caught:
            await _send(broker, "too late")
        # The service already answers a token for an entity that is gone with "not found".
        assert 404 == caught.value.inner_exception.status_code
        with pytest.raises(EntityNotFound):
            broker.call(lambda space: space.queue("idle"))


async def _send(broker: BrokerThread, text: str) -> None:
    client = ServiceBusClient.from_connection_string(broker.connection_string(), retry_total=0)
    async with client, client.get_queue_sender("idle") as sender:
        await sender.send_messages(ServiceBusMessage(text))
