from __future__ import annotations

from types import SimpleNamespace

import pytest

from functions import coordination
from tests.support.closing import GRACE, ClosingParts
from tests.support.closing_durable import DurableRun


@pytest.fixture
def parts() -> ClosingParts:
    return ClosingParts()


@pytest.fixture
def run(parts: ClosingParts, monkeypatch: pytest.MonkeyPatch) -> DurableRun:
    """The app's own orchestrator and activities, on factories in memory."""
    runtime = SimpleNamespace(closing=parts.closing)
    monkeypatch.setattr(coordination.composition, "runtime", lambda: runtime)
    functions = {
        name: getattr(coordination, name).build(auth_level=None).get_user_function()
        for name in ("coordinate_pair", "read_factories", "fault_partner")
    }
    orchestrator = functions.pop("coordinate_pair")
    return DurableRun(orchestrator, functions, clock=parts.clock, request={"grace_seconds": GRACE.total_seconds()})
