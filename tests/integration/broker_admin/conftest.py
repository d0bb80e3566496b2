"""A broker on free ports, and the SDK's own administration clients that trust its certificate authority."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient

from local.broker.broker import Broker, NamespaceSpec, ServedNamespace

Result = TypeVar("Result")


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    specs = [NamespaceSpec(name="contoso"), NamespaceSpec(name="premium", tier="Premium")]
    async with Broker(specs) as running:
        yield running


class Administration:
    """Runs a piece of synchronous client code beside the broker's event loop."""

    def __init__(self, broker: Broker, served: ServedNamespace) -> None:
        self.broker = broker
        self.served = served

    @property
    def authority(self) -> str:
        return str(self.broker.authority_file)

    async def run(self, work: Callable[[ServiceBusAdministrationClient], Result]) -> Result:
        def with_client() -> Result:
            connection_string = self.served.connection_string
            verify = self.authority
            with ServiceBusAdministrationClient.from_connection_string(
                connection_string, connection_verify=verify
            ) as client:
                return work(client)

        return await asyncio.to_thread(with_client)


@pytest.fixture
def standard(broker: Broker) -> Administration:
    return Administration(broker, broker["contoso"])


@pytest.fixture
def premium(broker: Broker) -> Administration:
    return Administration(broker, broker["premium"])
