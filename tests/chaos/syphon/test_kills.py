"""kill -9 of the app in the middle of a drain: nothing is lost, and what comes twice was in flight."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.send_services import PairOnBroker
from tests.support.syphon_kills import IN_FLIGHT_MAX, drain_under_kills

KILLS = 2


@pytest.mark.timeout(300)
async def test_killed_in_the_middle_of_a_drain(pair: PairOnBroker, tmp_path: Path, rng: random.Random) -> None:
    assert KILLS * IN_FLIGHT_MAX >= await drain_under_kills(pair, tmp_path, rng, KILLS)
