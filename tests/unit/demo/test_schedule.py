"""When what happens, and intervals that leave room for a failover within the outage."""

from __future__ import annotations

import pytest

from local.demo.options import DURATION_S, OUTAGE_S, OUTAGE_S_MIN
from local.demo.schedule import Phase, Schedule, app_settings
from shared.domain.durations import parse_duration
from shared.settings import Settings

WHOLE = Schedule(duration_s=70, outage_s=30)


def test_the_outage_lies_within_the_traffic() -> None:
    assert (16.0, 46.0) == (WHOLE.breaks_at_s, WHOLE.heals_at_s)


@pytest.mark.parametrize(
    ("phase", "at_s", "share"),
    [
        (Phase.HEALTHY, 0, 0.0), (Phase.HEALTHY, 8, 0.5), (Phase.HEALTHY, 16, 1.0), (Phase.HEALTHY, 60, 1.0),
        (Phase.OUTAGE, 16, 0.0), (Phase.OUTAGE, 31, 0.5), (Phase.DRAIN, 46, 0.0), (Phase.DRAIN, 70, 1.0),
        (Phase.REPORT, 70, 0.0),
    ],
)  # fmt: skip
def test_bars_follow_the_plan(phase: Phase, at_s: float, share: float) -> None:
    assert share == WHOLE.share_done(phase, at_s)


@pytest.mark.parametrize("outage_s", [OUTAGE_S_MIN, 6.0, OUTAGE_S, 600.0])
def test_suspicion_and_its_attempts_end_well_within_the_outage(outage_s: float) -> None:
    settings = app_settings(Schedule(duration_s=outage_s + 10, outage_s=outage_s))
    interval, attempt = (
        parse_duration(settings[name]).total_seconds() for name in ("FAILOVER_INTERVAL", "PRIMARY_ATTEMPT_TIMEOUT")
    )
    # The failure that raises suspicion takes an attempt, and so does the one that ends it.
    assert interval + 2 * attempt <= 0.6 * outage_s


def test_the_app_takes_the_settings() -> None:
    connections = {
        side: f"Endpoint=sb://{side}.example/;SharedAccessKeyName=a;SharedAccessKey=b"
        for side in ("ServiceBusPrimary", "ServiceBusSecondary")
    }
    storage = {"AzureWebJobsStorage": "UseDevelopmentStorage=true"}
    settings = Settings.from_env({**connections, **storage, **app_settings(WHOLE)})
    assert (5.0, True, 3) == (
        settings.failover_interval.total_seconds(), settings.enable_syphon, settings.backlog_queue_count
    )  # fmt: skip


def test_a_default_run_is_about_as_long_as_somebody_watches() -> None:
    assert 60 <= DURATION_S <= 80
