"""A broker that is killed keeps its promises; the long version is in tests/soak/broker."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

from tests.support.broker_process import BrokerProcess
from tests.support.broker_storm import QUEUES, Storm
from tests.support.sdk_leftovers import SDK_LEFTOVERS


@pytest.mark.filterwarnings(SDK_LEFTOVERS)
async def test_acknowledged_messages_survive_three_kills_and_none_comes_twice(
    tmp_path: Path, rng: random.Random
) -> None:
    with BrokerProcess(tmp_path, QUEUES) as broker:
        storm = Storm(broker, rng)
        await storm.rage(kills=3)
        await storm.settle_accounts()


@pytest.mark.filterwarnings(SDK_LEFTOVERS)
async def test_the_crash_fault_kills_the_process_at_its_point(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, {"orders": {}}) as broker:
        async with ServiceBusClient.from_connection_string(broker.connection_string, retry_total=0) as client:
            sender = client.get_queue_sender("orders")
            await sender.send_messages(ServiceBusMessage("kept"))
            broker.inject(kind="crash", entity="orders", after=1)
            await sender.send_messages(ServiceBusMessage("kept, too"))
            with pytest.raises(ServiceBusError):
                await sender.send_messages(ServiceBusMessage("never acknowledged"))
        assert -signal.SIGKILL == broker.wait()
        broker.start()
        async with ServiceBusClient.from_connection_string(broker.connection_string) as client:
            kept = await client.get_queue_receiver("orders").receive_messages(5, max_wait_time=5)
            assert ["kept", "kept, too"] == [str(message) for message in kept]
