"""Charts put marks where the figures say, and write figures so that they cannot mislead."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from pipeline.axes import (
    Scale,
    bytes_text,
    count_text,
    decade_ticks,
    round_ticks,
    seconds_text,
    seconds_tick,
    share_text,
    time_ticks,
)
from pipeline.charts import Bar, Frame, Series, Span, Texts, bars, heat_map, line, stacked_area, time_line

NOON = 1_795_003_200.0
FRAME = Frame(start=NOON, end=NOON + 100, width=500)
TEXTS = Texts(value=seconds_text, tick=seconds_tick)


def drawn(chart: str, tag: str, style: str = "") -> list[ElementTree.Element]:
    return [
        one for one in ElementTree.fromstring(chart).iter(tag) if style in (one.get("class") or "").split() or not style
    ]


def test_a_line_goes_through_its_points_and_breaks_where_there_is_none() -> None:
    points = [(NOON, 0.0), (NOON + 25, 10.0), (NOON + 50, None), (NOON + 100, 5.0)]
    chart = line(FRAME, "t", [Series(name="s", style="one", points=points)], TEXTS)
    first, second = drawn(chart, "polyline", "one")
    # 58 to 486 across, 194 up to 12; 10 is the highest tick.
    assert "58.0,194.0 165.0,12.0" == first.get("points")
    assert "486.0,103.0" == second.get("points")
    assert ["alone" in str(dot.get("class")) for dot in drawn(chart, "circle")] == [False, False, True]


def test_areas_are_stacked_and_steps_hold_until_the_next() -> None:
    low = Series(name="low", style="one", points=[(NOON, 1.0), (NOON + 50, 1.0)])
    high = Series(name="high", style="two", points=[(NOON, 1.0), (NOON + 50, 3.0)])
    chart = stacked_area(FRAME, "t", [low, high], count_text, step=True)
    (upper,) = drawn(chart, "polygon", "two")
    assert "58.0,103.0 272.0,103.0 272.0,12.0 486.0,12.0 486.0,148.5 272.0,148.5 272.0,148.5 58.0,148.5" == upper.get(
        "points"
    )
    titles = [title.text for title in drawn(chart, "title")]
    assert ["2026-11-18 12:00:00: low 1; high 1", "2026-11-18 12:00:50: low 1; high 3"] == titles


def test_a_state_is_told_by_height_too_and_one_that_is_not_over_has_an_arrow() -> None:
    spans = [
        Span(style="available", start=NOON, end=NOON + 50, text="up"),
        Span(style="suspect", start=NOON + 50, end=NOON + 60, text="maybe"),
        Span(style="unavailable", start=NOON + 60, end=None, text="down"),
    ]
    chart = time_line(FRAME, "t", [("orders", spans)])
    assert ["6", "14", "22"] == [one.get("height") for one in drawn(chart, "rect")]
    assert ["236.0", "47.2", "188.8"] == [one.get("width") for one in drawn(chart, "rect")]
    assert 1 == len(drawn(chart, "path", "open"))


def test_bars_are_as_long_as_their_share_of_the_longest() -> None:
    rows = [Bar(name=str(value), value=value, style="one", text="") for value in (10.0, 5.0, 0.0)]
    assert ["360.0", "180.0", "0.0"] == [one.get("width") for one in drawn(bars(500, "t", rows), "rect")]


def test_nothing_is_not_little_in_a_heat_map() -> None:
    chart = heat_map(160, "t", ["0", "1", "2"], [("orders", [(0.0, "none"), (0.001, "few"), (1.0, "most")])])
    assert ["heat0", "heat1", "heat9"] == [one.get("class") for one in drawn(chart, "rect")]


def test_charts_of_nothing_are_drawn() -> None:
    for chart in (
        line(FRAME, "t", [], TEXTS, log=True),
        stacked_area(FRAME, "t", [], count_text),
        time_line(FRAME, "t", []),
        bars(500, "t", []),
        heat_map(500, "t", [], []),
    ):
        assert "img" == ElementTree.fromstring(chart).get("role")


def test_a_long_name_is_cut_to_its_room() -> None:
    text = drawn(time_line(FRAME, "t", [("x" * 500, [])]), "text", "name")[0].text
    assert text is not None
    assert len(text) < 80
    assert text.endswith("…")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.0, "100 %"), (0.9999999, "99.999 %"), (0.99, "99.0 %"), (0.5, "50.0 %"), (0.0, "0 %"), (None, "–")],
)
def test_a_share_is_never_rounded_up_to_all(value: float | None, expected: str) -> None:
    assert expected == share_text(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "–"),
        (0.0, "0 ms"),
        (0.0123, "12.3 ms"),
        (0.25, "250 ms"),
        (0.9996, "1 s"),
        (5.5, "5.5 s"),
        (59.96, "1 min"),
        (90, "1 min 30 s"),
        (3599.7, "1 h"),
        (5400, "1 h 30 min"),
        (200_000, "2.3 days"),
        (-2.0, "-2 s"),
    ],
)
def test_durations_read_well(value: float | None, expected: str) -> None:
    assert expected == seconds_text(value)


def test_sizes_read_well() -> None:
    assert ["–", "0 B", "1.0 KB", "1.5 MB", "2.0 GB"] == [bytes_text(n) for n in (None, 0, 1024, 1572864, 2 << 30)]


def test_ticks_are_round_and_cover_the_values() -> None:
    assert [0, 20, 40, 60, 80] == round_ticks(73, 4)
    assert [0, 1] == round_ticks(0.3, 4, whole=True)
    assert [0.001, 0.01, 0.1, 1.0] == decade_ticks(0.002, 0.9)
    assert [0.001, 0.01, 0.1] == decade_ticks(0.01, 0.01)
    assert ["12:00:00", "12:00:30", "12:01:00", "12:01:30"] == [text for _, text in time_ticks(NOON, NOON + 100, 4)]


def test_what_lies_outside_a_scale_stays_at_its_edge() -> None:
    scale = Scale(low=0, high=10, start=0, end=100)
    assert (0.0, 50.0, 100.0) == (scale(-5), scale(5), scale(99))
