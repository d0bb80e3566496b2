"""Three minutes of outage with 10,000 and with 100,000 waiting messages cost the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.send_services import pair_on_broker
from tests.support.syphon_outage import QUEUES, operations_while_waiting, table_of
from tests.support.syphon_services import Operations

MINUTES = 3
#: For each backlog queue: one look a second, one for leading each minute, and lock renewals.
OPERATIONS_A_MINUTE_MAX = 70

pytestmark = pytest.mark.soak


async def test_ten_times_the_backlog_costs_no_more(
    storage: str, record_property: Callable[[str, object], None]
) -> None:
    counted: dict[int, Operations] = {}
    for messages in (10_000, 100_000):
        async with pair_on_broker(storage) as pair:
            counted[messages] = await operations_while_waiting(pair, messages=messages, seconds=60 * MINUTES)
        operations = counted[messages]
        record_property(f"operations_a_minute_with_{messages}_waiting", round(operations.total / MINUTES, 1))
        record_property(f"kinds_with_{messages}_waiting", operations.kinds)
    record_property("table", table_of(counted, seconds=60 * MINUTES))
    few, many = (operations.total / MINUTES for operations in counted.values())
    assert abs(many - few) / few < 0.2
    assert max(few, many) <= OPERATIONS_A_MINUTE_MAX * QUEUES
