"""TimeSpan text as .NET writes it (`[-][d.]hh:mm[:ss[.fffffff]]`), the form host.json uses for durations."""

from __future__ import annotations

import re
from datetime import timedelta

_TIMESPAN = re.compile(
    r"^(?P<sign>-)?(?:(?P<days>\d{1,8})\.)?(?P<hours>\d{1,2}):(?P<minutes>\d{1,2})"
    r"(?::(?P<seconds>\d{1,2})(?:\.(?P<fraction>\d{1,7}))?)?$"
)
_DAYS_ONLY = re.compile(r"^(?P<sign>-)?(?P<days>\d{1,8})$")


def parse_timespan(text: str) -> timedelta:
    """Read TimeSpan text; ValueError when it is not one."""
    text = text.strip()
    if days_only := _DAYS_ONLY.match(text):
        value = timedelta(days=int(days_only["days"]))
        return -value if days_only["sign"] else value
    match = _TIMESPAN.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a TimeSpan such as 00:05:00")
    hours, minutes, seconds = (int(match[name] or 0) for name in ("hours", "minutes", "seconds"))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(f"{text!r} is not a TimeSpan: hours up to 23, minutes and seconds up to 59")
    microseconds = int((match["fraction"] or "0").ljust(7, "0")[:6])
    value = timedelta(
        days=int(match["days"] or 0), hours=hours, minutes=minutes, seconds=seconds, microseconds=microseconds
    )
    return -value if match["sign"] else value


def format_timespan(value: timedelta) -> str:
    """Write a duration the way .NET's constant format does."""
    sign = "-" if value < timedelta(0) else ""
    value = abs(value)
    hours, rest = divmod(value.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    days = f"{value.days}." if value.days else ""
    fraction = f".{value.microseconds:06d}0" if value.microseconds else ""
    return f"{sign}{days}{hours:02d}:{minutes:02d}:{seconds:02d}{fraction}"
