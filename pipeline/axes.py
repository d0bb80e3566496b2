"""Scales, ticks and the texts of numbers: what a chart needs before it can draw."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

MINUTE, HOUR, DAY = 60, 3600, 86400
# fmt: off
_TIME_STEPS = (1, 2, 5, 10, 15, 30, MINUTE, 120, 300, 600, 900, 1800, HOUR, 7200, 10800, 21600, 43200,
               DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 365 * DAY)
# fmt: on
_TICKS_MAX = 50


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Maps values of [low, high] to pixels of [start, end]."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self._grade(self.low), self._grade(self.high)
        share = (self._grade(value) - low) / (high - low) if high > low else 0.0
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def _grade(self, value: float) -> float:
        return math.log10(max(value, 1e-6)) if self.log else value


def round_ticks(high: float, count: int, *, whole: bool = False) -> list[float]:
    """From 0 up to the first round value that is not below `high`."""
    step = _round_step(max(high, 1e-9) / max(count, 1))
    if whole:
        step = max(1.0, step)
    return [index * step for index in range(min(_TICKS_MAX, math.ceil(round(high / step, 9))) + 1)]


def _round_step(raw: float) -> float:
    power: float = 10.0 ** math.floor(math.log10(raw))
    return next(power * part for part in (1, 2, 5, 10) if raw <= power * part * 1.000001)


def decade_ticks(low: float, high: float) -> list[float]:
    """Powers of ten with the values between them; a value that is one itself gets room on both sides."""
    first = math.floor(math.log10(max(low, 1e-6)) - 1e-9)
    last = math.ceil(math.log10(max(high, 1e-6)) + 1e-9)
    return [10.0**power for power in range(first, last + 1)]


def time_ticks(start: float, end: float, count: int) -> list[tuple[float, str]]:
    step = next((one for one in _TIME_STEPS if (end - start) / one <= count), _TIME_STEPS[-1])
    first = math.ceil(start / step) * step
    ticks = [first + index * step for index in range(min(_TICKS_MAX, max(0, int((end - first) // step)) + 1))]
    return [(tick, _time_label(tick, step)) for tick in ticks if start <= tick <= end]


def _time_label(tick: float, step: float) -> str:
    moment = datetime.fromtimestamp(tick, UTC)
    if step >= DAY or (tick % DAY == 0 and step >= HOUR):
        return f"{moment:%d %b}"
    return f"{moment:%H:%M:%S}" if step < MINUTE else f"{moment:%H:%M}"


# -- texts


def count_text(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def share_text(value: float | None) -> str:
    """Never rounded up to 100 %: one refused send in a million is not none."""
    if value is None:
        return "–"
    percent = value * 100
    if 99 < percent < 100:
        return f"{math.floor(percent * 1000) / 1000:.3f} %"
    return f"{percent:.0f} %" if percent in (0, 100) else f"{percent:.1f} %"


def bytes_text(value: float | None) -> str:
    if value is None:
        return "–"
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if value >= size:
            return f"{value / size:,.1f} {unit}"
    return f"{value:,.0f} B"


def seconds_text(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 0:
        return f"-{seconds_text(-value)}"
    steps: tuple[tuple[float, Callable[[float], str]], ...] = (
        (0.0995, lambda s: f"{s * 1000:.3g} ms"),
        (0.9995, lambda s: f"{s * 1000:.0f} ms"),
        (59.95, lambda s: f"{s:.3g} s"),
        (HOUR - 0.5, lambda s: _two_units(round(s), "min", "s")),
        (DAY - 30, lambda s: _two_units(round(s / MINUTE), "h", "min")),
    )
    write = next((write for limit, write in steps if value < limit), None)
    return write(value) if write else f"{value / DAY:,.1f} days"


def _two_units(value: int, large: str, small: str) -> str:
    return f"{value // 60} {large}" + (f" {value % 60:02} {small}" if value % 60 else "")


def seconds_tick(value: float) -> str:
    """Of an axis: round values, in one unit each."""
    return f"{value * 1000:g} ms" if value < 1 else f"{value:g} s"


def moment_text(value: float | None) -> str:
    return "–" if value is None else f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S}"


def short_moment_text(value: float | None) -> str:
    """Without the year, which the page's head tells."""
    return "–" if value is None else f"{datetime.fromtimestamp(value, UTC):%d %b %H:%M:%S}"
