"""Time that stands still, and a namespace that lives in it."""

from __future__ import annotations

import pytest

from local.broker.clock import ManualClock
from local.broker.namespace import Namespace
from tests.support import broker as support


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def space(clock: ManualClock) -> Namespace:
    return support.namespace(clock)
