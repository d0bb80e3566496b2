"""Three minutes of outage with 10,000 and with 100,000 waiting messages cost the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.send_services import pair_on_broker
from tests.support.syphon_outage import QUEUES, operations_while_waiting

MINUTES = 3
#: For each backlog queue: one look a second, one for leading each minute, and lock renewals.
OPERATIONS_A_MINUTE_MAX = 70

pytestmark = pytest.mark.soak


async def test_ten_times_the_backlog_costs_no_more(
    storage: str, record_property: Callable[[str, object], None]
) -> None:
    a_minute = {}
    for messages in (10_000, 100_000):
        async with pair_on_broker(storage) as pair:
            operations = await operations_while_waiting(pair, messages=messages, seconds=60 * MINUTES)
        a_minute[messages] = operations.total / MINUTES
        record_property(f"operations_a_minute_with_{messages}_waiting", round(a_minute[messages], 1))
        record_property(f"kinds_with_{messages}_waiting", {point.value: n for point, n in operations.counts.items()})
    few, many = a_minute[10_000], a_minute[100_000]
    assert abs(many - few) / few < 0.2
    assert max(few, many) <= OPERATIONS_A_MINUTE_MAX * QUEUES
