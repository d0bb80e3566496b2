"""Ten thousand messages to five entities, for each way to break the primary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.send_services import PairOnBroker
from tests.support.syphon_rehearsal import BACK_S, CRASH, FAULTS, MAY_DUPLICATE, check_ledger, rehearse

MESSAGES = 10_000

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("fault", [*FAULTS, CRASH])
async def test_ten_thousand_messages_come_home(
    pair: PairOnBroker, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    ledger, times = await rehearse(pair, tmp_path, fault, MESSAGES)
    record_property("routes", dict(ledger.routes))
    record_property("refused", dict(ledger.refused))
    record_property("came_twice", len(ledger.duplicates))
    record_property("longest_send_s", round(ledger.longest_send_s, 2))
    record_property("back_on_primary_s", round(max(times.values()), 2))
    check_ledger(ledger, may_duplicate=fault in MAY_DUPLICATE)
    assert ledger.routes["backlog"] > 0.9 * MESSAGES
    assert max(times.values()) <= BACK_S, times
