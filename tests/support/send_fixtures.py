"""Fixtures of the tests of sending; a conftest imports what it needs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.send_services import PairOnBroker, azurite, pair_on_broker


@pytest.fixture(scope="session")
def storage() -> Iterator[str]:
    with azurite() as process:
        yield process.connection_string


@pytest.fixture
async def pair(storage: str) -> AsyncIterator[PairOnBroker]:
    async with pair_on_broker(storage) as running:
        yield running
