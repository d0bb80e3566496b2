"""Every fault of the broker, on the primary, in the middle of fifty senders: nothing accepted is lost."""

from __future__ import annotations

import asyncio
import gc
import itertools
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.send_matrix import HEADING, Config, Fault, Row, run_cell, run_crash
from tests.support.send_services import pair_on_broker

# Long or sensitive to a loaded machine: a part of `make soak`.
pytestmark = pytest.mark.soak

CELLS_AT_ONCE = 4
ORDERS = {"entity": "orders"}
FAULTS = [
    Fault(name="refused", spec={"kind": "refuse"}, loses_answers=True, spares_others=False),
    Fault(name="black hole", spec={"kind": "black-hole"}, loses_answers=True, spares_others=False),
    Fault(name="black hole, one entity", spec={"kind": "black-hole", **ORDERS}, loses_answers=True),
    Fault(name="reset in mid-send", spec={"kind": "reset", **ORDERS}, loses_answers=True),
    Fault(name="delay of 30 s", spec={"kind": "delay", "delay_s": 30.0, **ORDERS}, loses_answers=True),
    Fault(name="throttled", spec={"kind": "throttle", **ORDERS}),
    Fault(name="entity disabled", spec={"kind": "disable", **ORDERS}),
    Fault(name="entity full", spec={"kind": "full", **ORDERS}),
    Fault(name="link detached", spec={"kind": "detach", **ORDERS}, loses_answers=True),
    Fault(name="internal error", spec={"kind": "error", **ORDERS}, loses_answers=True),
    Fault(name="answer lost", spec={"kind": "lose-acknowledgement", **ORDERS}, loses_answers=True),
    Fault(
        name="answer lost and reset",
        spec={"kind": "lose-acknowledgement", "reset": True, **ORDERS},
        loses_answers=True,
    ),
    Fault(name="credentials revoked", spec={"kind": "revoke", **ORDERS}, fails_over=False),
]
CONFIGS = [
    Config(interval=timedelta(seconds=seconds), divert=divert) for seconds in (0, 2) for divert in (False, True)
]


# An SDK client that is cancelled while it connects drops its stream, and Python closes that when it finds it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(180)
async def test_no_fault_loses_an_accepted_message(
    storage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at_once = asyncio.Semaphore(CELLS_AT_ONCE)

    async def cell(fault: Fault, config: Config) -> Row:
        async with at_once, pair_on_broker(storage) as pair:
            return await run_cell(pair, fault, config)

    async def crash(config: Config) -> Row:
        folder = tmp_path / f"{config.interval.total_seconds():.0f}-{config.divert}"
        async with at_once, pair_on_broker(storage) as pair:
            return await run_crash(pair, folder, config)

    cells = [cell(fault, config) for fault, config in itertools.product(FAULTS, CONFIGS)]
    rows = await asyncio.gather(*cells, *map(crash, CONFIGS))
    with capsys.disabled():
        print("\n" + "\n".join([HEADING, *(row.text() for row in rows)]))  # noqa: T201
    gc.collect()
    assert [] == [row.text() for row in rows if row.problems]
