"""A broker for each test, and the real SDK in both its flavours behind one way of calling it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from local.broker.descriptions import QueueDescription, TopicDescription
from local.broker.entities import Queue, Subscription, Topic
from tests.support.broker import subscribe
from tests.support.broker_thread import BrokerThread
from tests.support.sdk_leftovers import sdk_leftovers_are_swept

__all__ = ["sdk_leftovers_are_swept"]

DEADLINE_S = 20.0
NAP_S = 0.05
#: Calls of the SDK that make an object and do not talk to the broker.
MAKERS = ("get_", "list_")

Connect = Callable[..., AbstractAsyncContextManager[Any]]


class Awaited:
    """An object of the blocking SDK, called as one of the asynchronous SDK is: each call runs on a thread."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == "session":
            return Awaited(value)
        if not callable(value):
            return value
        if name.startswith(MAKERS) and "state" not in name:
            return lambda *args, **kwargs: Awaited(value(*args, **kwargs))

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(value, *args, **kwargs)

        return call

    async def __aiter__(self) -> AsyncIterator[Any]:
        for item in await asyncio.to_thread(list, self._inner):
            yield item

    async def __aenter__(self) -> Awaited:
        await asyncio.to_thread(self._inner.__enter__)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self._inner.__exit__, *error)


@pytest.fixture(autouse=True)
def _keep_alive_does_not_hold_up_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing an SDK object waits for its keep-alive, which sleeps a second at a time: a minute for all tests here."""

    async def nap(seconds: float) -> None:
        await asyncio.sleep(min(seconds, NAP_S))

    blocking = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: time.sleep(min(seconds, NAP_S))})
    asynchronous = SimpleNamespace(**{**vars(asyncio), "sleep": nap})
    monkeypatch.setattr("azure.servicebus._pyamqp.client.time", blocking)
    monkeypatch.setattr("azure.servicebus._pyamqp.aio._client_async.asyncio", asynchronous)


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread("primary") as running:
        yield running


@pytest.fixture(params=["async", "sync"])
def connect(request: pytest.FixtureRequest, broker: BrokerThread) -> Connect:
    """`async with connect() as client:`; without retries unless the test asks for them."""

    @asynccontextmanager
    async def open_client(name: str | None = None, **options: Any) -> AsyncIterator[Any]:
        options = {"retry_total": 0, **options}
        text = options.pop("connection_string", None) or broker.connection_string(name)
        if request.param == "async":
            async with AsyncServiceBusClient.from_connection_string(text, **options) as client:
                yield client
        else:
            async with Awaited(ServiceBusClient.from_connection_string(text, **options)) as client:
                yield client

    return open_client


@pytest.fixture
def make_queue(broker: BrokerThread) -> Callable[..., Queue]:
    def make(name: str = "orders", **description: Any) -> Queue:
        return broker.call(lambda space: space.create_queue(name, QueueDescription(**description)))

    return make


@pytest.fixture
def make_topic(broker: BrokerThread) -> Callable[..., Topic]:
    def make(name: str = "events", **description: Any) -> Topic:
        return broker.call(lambda space: space.create_topic(name, TopicDescription(**description)))

    return make


@pytest.fixture
def make_subscription(broker: BrokerThread) -> Callable[..., Subscription]:
    def make(name: str = "all", **options: Any) -> Subscription:
        return broker.call(lambda space: subscribe(space, "events", name, **options))

    return make


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.01)


async def receive_until(receiver: Any, count: int) -> list[Any]:
    """So many messages, however many calls that takes."""
    got: list[Any] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(got) < count:
        assert time.monotonic() < deadline, f"only {len(got)} of {count} came"
        got += await receiver.receive_messages(count - len(got), max_wait_time=2)
    return got


Act = Callable[[], Awaitable[Any]]
