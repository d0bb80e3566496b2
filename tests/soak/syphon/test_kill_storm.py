"""Ten times kill -9 in the middle of a drain."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.send_services import PairOnBroker
from tests.support.syphon_kills import IN_FLIGHT_MAX, drain_under_kills

KILLS = 10

pytestmark = pytest.mark.soak


async def test_killed_ten_times(
    pair: PairOnBroker, tmp_path: Path, rng: random.Random, record_property: Callable[[str, object], None]
) -> None:
    twice = await drain_under_kills(pair, tmp_path, rng, KILLS)
    record_property("came_twice", twice)
    assert twice <= KILLS * IN_FLIGHT_MAX
