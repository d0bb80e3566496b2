"""kill -9 in the middle of a storm, twenty times in a row: every acknowledged message is there, none twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.broker_storm import QUEUES, Storm
from tests.support.sdk_leftovers import SDK_LEFTOVERS

KILLS = 20


@pytest.mark.soak
@pytest.mark.filterwarnings(SDK_LEFTOVERS)
async def test_acknowledged_messages_survive_twenty_kills_and_none_comes_twice(
    tmp_path: Path, rng: random.Random, record_property: Callable[[str, object], None]
) -> None:
    with BrokerProcess(tmp_path, QUEUES) as broker:
        storm = Storm(broker, rng)
        await storm.rage(kills=KILLS)
        for name, figure in storm.account.figures().items():
            record_property(name, figure)
        await storm.settle_accounts()
