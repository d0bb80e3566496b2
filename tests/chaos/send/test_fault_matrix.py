"""Every fault of the broker, on the primary, in the middle of fifty senders: nothing accepted is lost."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.send_matrix import HEADING, Config, Fault, Row, run_cell, run_crash
from tests.support.send_services import pair_on_broker

#: Cells mostly wait; more of them at once would keep each other from running.
CELLS_AT_ONCE = 4
#: A cell that the machine starved is run again, by itself.
AGAIN_MAX = 3
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


CRASH = Fault(name="crash and restart", spec={}, loses_answers=True, spares_others=False)
CELLS = list(itertools.product([*FAULTS, CRASH], CONFIGS))
# Every fault once; the configurations take turns.
CHOSEN = list(zip([*FAULTS, CRASH], itertools.cycle(CONFIGS), strict=False))


# An SDK client that is cancelled while it connects drops its stream, and Python closes that when it finds it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "cells",
    [
        pytest.param(CHOSEN, id="chosen", marks=pytest.mark.timeout(400)),
        pytest.param(CELLS, id="all", marks=pytest.mark.soak),
    ],
)
async def test_no_fault_loses_an_accepted_message(
    cells: list[tuple[Fault, Config]],
    storage: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    at_once = asyncio.Semaphore(CELLS_AT_ONCE)

    async def run(name: str, fault: Fault, config: Config) -> Row:
        async with at_once, pair_on_broker(storage) as pair:
            if fault is CRASH:
                return await run_crash(pair, tmp_path / name, fault, config)
            return await run_cell(pair, fault, config)

    rows = await asyncio.gather(*(run(f"{place}", *cell) for place, cell in enumerate(cells)))
    starved: list[str] = []
    for again in range(AGAIN_MAX):
        for place in [place for place, row in enumerate(rows) if row.is_starved and not row.problems]:
            starved.append(f"run again, since tasks were woken {rows[place].lag_s:.1f} s late: {rows[place].text()}")
            rows[place] = await run(f"{place}-{again}", *cells[place])
    record_property("cells", len(rows))
    record_property("table", "\n".join([HEADING, *(row.text() for row in rows), *starved]))
    gc.collect()
    assert [] == [row.text() for row in rows if row.problems or row.late]
