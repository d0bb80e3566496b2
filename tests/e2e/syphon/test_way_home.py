"""Through the running app and real receivers: the primary breaks, sending goes on, it heals, everything is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.send_services import PairOnBroker
from tests.support.syphon_rehearsal import MAY_DUPLICATE, check_ledger, rehearse


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["refuse"])
async def test_whatever_breaks_nothing_is_lost(pair: PairOnBroker, tmp_path: Path, fault: str) -> None:
    """A send whose answer never came may have arrived: such a message can come twice, with the same id."""
    ledger, _ = await rehearse(pair, tmp_path, fault, 500)
    check_ledger(ledger, may_duplicate=fault in MAY_DUPLICATE)
    assert ledger.routes["backlog"] > 400
