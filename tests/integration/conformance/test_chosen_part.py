"""A quick, chosen part of the SDK's own live tests passes; `make conformance` runs all of them."""

from __future__ import annotations

import pytest

from tests.conformance import chosen
from tests.conformance.__main__ import run, select
from tests.conformance.worker import CollectedTest

LANES = 6
SECONDS_MAX = 240


@pytest.mark.timeout(SECONDS_MAX)
def test_the_chosen_part_of_the_sdks_live_tests_passes(collected: list[CollectedTest]) -> None:
    selected = select(collected, only=None, fast=True)
    outcome = run(selected, lanes=LANES, quiet=True)
    failed = {verdict.node: verdict.reason for verdict in outcome.verdicts if verdict.outcome == "failed"}
    assert failed == {}
    assert len(outcome.verdicts) == len(selected) > len(chosen.FAST)
