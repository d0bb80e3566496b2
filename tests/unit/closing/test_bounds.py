"""Numbers that hold a promise only together."""

from __future__ import annotations

import json
from datetime import timedelta

from functions.coordination import GUARD_SCHEDULE
from functions.coordinator import NOTICE_SECONDS_MAX, TELL_SECONDS_MAX, TRIES_MAX
from local.host.schedule import parse_schedule
from local.host.timespan import parse_timespan
from shared.adapters.table_rows import REASON_LENGTH_MAX as ROW_REASON_LENGTH_MAX
from shared.domain.factory import REASON_LENGTH_MAX
from tests.support.app_process import ROOT


def test_the_task_hub_is_polled_often_enough_to_fault_a_partner_within_a_second_after_its_grace() -> None:
    """In an idle hub the timer waits for one poll of the control queue, the activity for one of the work-item queue."""
    durable = json.loads((ROOT / "host.json").read_text())["extensions"]["durableTask"]
    interval = parse_timespan(durable["storageProvider"]["maxQueuePollingInterval"])
    assert timedelta(0) < 2 * interval <= timedelta(seconds=0.8)


def test_the_documentation_has_the_interval_that_is_set() -> None:
    durable = json.loads((ROOT / "host.json").read_text())["extensions"]["durableTask"]
    interval = parse_timespan(durable["storageProvider"]["maxQueuePollingInterval"])
    assert f"is {interval.total_seconds():g} s." in (ROOT / "docs" / "closing.md").read_text()


def test_every_reason_fits_its_row() -> None:
    assert REASON_LENGTH_MAX <= ROW_REASON_LENGTH_MAX


def test_the_guard_has_a_schedule_that_hosts_understand() -> None:
    assert parse_schedule(GUARD_SCHEDULE)


def test_an_answer_waits_at_least_as_long_as_a_wake_takes() -> None:
    assert NOTICE_SECONDS_MAX < TELL_SECONDS_MAX
    assert TRIES_MAX > 1
