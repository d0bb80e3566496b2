from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.host.errors import ConfigurationError
from local.host.schedule import parse_schedule

START = datetime(2026, 11, 18, 7, 10, 30, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * * *", "2026-11-18T07:10:31"),
        ("0 */5 * * * *", "2026-11-18T07:15:00"),
        ("0 0 * * * *", "2026-11-18T08:00:00"),
        ("0 0 9-17 * * *", "2026-11-18T09:00:00"),
        ("0 30 9 * * 1-5", "2026-11-18T09:30:00"),
        ("0 30 6 * * MON", "2026-11-23T06:30:00"),
        ("0 0 0 1 Jan *", "2027-01-01T00:00:00"),
        ("5,8,10 * * * * *", "2026-11-18T07:11:05"),
        ("0 5/20 * * * *", "2026-11-18T07:25:00"),
        ("*/15 * * * *", "2026-11-18T07:15:00"),
        ("0 0 0 29 2 *", "2028-02-29T00:00:00"),
        ("0 0 0 13 * Fri", "2027-08-13T00:00:00"),
    ],
)
def test_the_next_occurrence(text: str, expected: str) -> None:
    assert datetime.fromisoformat(expected).replace(tzinfo=UTC) == parse_schedule(text).next_after(START)


def test_text_with_colons_is_a_constant_period() -> None:
    assert START + timedelta(minutes=5) == parse_schedule("00:05:00").next_after(START)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "neither"),
        ("often", "neither"),
        ("60 * * * * *", "second"),
        ("0 0 24 * * *", "hour"),
        ("0 0 0 * 13 *", "month"),
        ("0 0 0 * * 7", "day of week"),
        ("0 0 0 30 2 *", "never fires"),
        ("0 9-5 * * * *", "backwards"),
        ("0 */0 * * * *", "minute"),
        ("00:00:00", "positive"),
        ("99:00:00", "TimeSpan"),
    ],
)
def test_a_wrong_schedule_is_one_clear_line(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_schedule(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("*/30 * * * * *", False), ("0 * * * * *", True), ("00:00:30", False), ("00:01:00", True)],
)
def test_schedules_below_a_minute_keep_no_status(text: str, expected: bool) -> None:
    assert expected is parse_schedule(text).monitored


@given(
    second=st.integers(0, 59),
    minute=st.integers(0, 59),
    hour=st.integers(0, 23),
    moment=st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1)),  # noqa: DTZ001  # the zone is given below
)
def test_a_daily_schedule_fires_once_within_a_day(second: int, minute: int, hour: int, moment: datetime) -> None:
    start = moment.replace(tzinfo=UTC)
    found = parse_schedule(f"{second} {minute} {hour} * * *").next_after(start)
    assert start < found <= start + timedelta(days=1)
    assert (hour, minute, second) == (found.hour, found.minute, found.second)
