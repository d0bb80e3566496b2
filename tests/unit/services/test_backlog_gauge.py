from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from shared import composition
from shared.domain.pair import EntityPath
from shared.domain.rotation import Rotation
from shared.domain.syphon import Drain
from shared.ports import AdminRefused, QueueDepth
from shared.services.backlog_gauge import BacklogGauge
from shared.settings import Settings
from tests.support.app_process import example_settings
from tests.support.otel import InMemory
from tests.support.send_fakes import FakeClock
from tests.support.sending import NOON

QUEUES = (EntityPath("p/x-servicebus-transfer/0"), EntityPath("p/x-servicebus-transfer/1"))


class Admin:
    """The first queue holds three messages, the second may not be asked about."""

    def __init__(self) -> None:
        self.asked: list[EntityPath] = []

    async def depth(self, path: EntityPath) -> QueueDepth:
        self.asked.append(path)
        if path == QUEUES[1]:
            raise AdminRefused("not for you")
        return QueueDepth(active=3, dead_lettered=0)


async def test_the_backlog_is_measured_once_a_minute_and_what_cannot_be_asked_has_no_figure() -> None:
    admin, clock, memory = Admin(), FakeClock(), InMemory()
    state: Any = SimpleNamespace(rotation=Rotation(queues=QUEUES), drains=(Drain(queue=QUEUES[0], at=NOON, rate=12.5),))
    gauge = BacklogGauge(admin=admin, state=state, instruments=memory.telemetry, clock=clock)  # type: ignore[arg-type]
    await gauge.measure_if_due()
    clock.advance(timedelta(seconds=59))
    await gauge.measure_if_due()
    assert [*QUEUES] == admin.asked
    clock.advance(timedelta(seconds=1))
    await gauge.measure_if_due()
    assert [*QUEUES] * 2 == admin.asked
    assert {(QUEUES[0],): 12.5} == memory.figures("pair.drain.rate")
    assert 3 == memory.figures("pair.backlog.depth")[(QUEUES[0], "active")]


@pytest.mark.parametrize(
    ("syphon", "collected", "measures"), [("true", True, True), ("false", True, False), ("true", False, False)]
)
async def test_only_an_app_with_a_syphon_measures_and_only_for_somebody(
    syphon: str, collected: bool, measures: bool
) -> None:
    """The sender's identity may not ask, and every look costs an operation."""
    settings = Settings.from_env({**example_settings(), "ENABLE_SYPHON": syphon, "TELEMETRY_FOLDER": ""})
    runtime = composition.build(settings, open_telemetry=InMemory().telemetry if collected else None)
    assert measures is (runtime.gauge is not None)
