"""The broker and the SDK as the broker's other integration tests have them, in the asynchronous flavour only.

How a partition behaves does not depend on the flavour, and closing clients is what these tests spend their time on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from azure.servicebus.aio import ServiceBusClient

from tests.integration.broker.conftest import (
    Connect,
    _keep_alive_does_not_hold_up_closing,
    broker,
    make_queue,
    make_subscription,
    make_topic,
    sdk_leftovers_are_swept,
)
from tests.support.broker_thread import BrokerThread

__all__ = [
    "_keep_alive_does_not_hold_up_closing",
    "broker",
    "make_queue",
    "make_subscription",
    "make_topic",
    "sdk_leftovers_are_swept",
]


@pytest.fixture
def connect(broker: BrokerThread) -> Connect:
    @asynccontextmanager
    async def open_client(**options: Any) -> AsyncIterator[Any]:
        text = broker.connection_string()
        async with ServiceBusClient.from_connection_string(text, retry_total=0, **options) as client:
            yield client

    return open_client
