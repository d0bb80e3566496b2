from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1M", timedelta(minutes=1)),
        ("PT0S", timedelta(0)),
        ("PT0.2S", timedelta(milliseconds=200)),
        ("PT0,2S", timedelta(milliseconds=200)),
        ("PT1H30M5S", timedelta(hours=1, minutes=30, seconds=5)),
        ("P1DT2H", timedelta(days=1, hours=2)),
        ("P2W", timedelta(weeks=2)),
        ("PT90M", timedelta(minutes=90)),
        ("00:01:00", timedelta(minutes=1)),
        ("1:02:03", timedelta(hours=1, minutes=2, seconds=3)),
        ("00:00:00.2", timedelta(milliseconds=200)),
        ("1.00:00:00", timedelta(days=1)),
        ("P10675199DT2H48M5.4775807S", timedelta(days=10675199, hours=2, minutes=48, seconds=5, microseconds=477580)),
        ("10675199.02:48:05.4775807", timedelta(days=10675199, hours=2, minutes=48, seconds=5, microseconds=477580)),
    ],
)
def test_both_ways_to_write_a_duration_are_read(text: str, expected: timedelta) -> None:
    assert expected == parse_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        *["", "P", "PT", "P1DT", "PT1", "1M", "pt1m", "-PT1M", "PT-1M", "PT1M ", "PT1S1M", "P1Y", "P1M", "PT1M\n"],
        *["60", "1:00", "١:00:00", "00:60:00", "00:00:60", "24:00:00", "00:00", "-00:01:00", "PT1.M", "P999999999999D"],
    ],
)  # fmt: skip
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.timedeltas(min_value=timedelta(0)))
def test_every_duration_survives_being_written_and_read(duration: timedelta) -> None:
    assert duration == parse_duration(format_duration(duration))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "PT0S"), (60, "PT1M"), (0.2, "PT0.2S"), (3600, "PT1H"), (86400, "P1D"), (10, "PT10S")]
)
def test_durations_are_written_in_their_shortest_form(seconds: float, text: str) -> None:
    assert text == format_duration(timedelta(seconds=seconds))


def test_a_negative_duration_has_no_text() -> None:
    with pytest.raises(ValueError, match="negative"):
        format_duration(timedelta(seconds=-1))
