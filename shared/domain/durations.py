"""Durations as text: ISO 8601 (`PT1M30S`, `P1DT2H`) or `hh:mm:ss`, with days and fractions as .NET writes them."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

_NUMBER = r"\d{1,12}(?:[.,]\d{1,9})?"
_ISO = re.compile(
    rf"P(?=[\dT])(?:(?P<weeks>{_NUMBER})W)?(?:(?P<days>{_NUMBER})D)?"
    rf"(?:T(?=\d)(?:(?P<hours>{_NUMBER})H)?(?:(?P<minutes>{_NUMBER})M)?(?:(?P<seconds>{_NUMBER})S)?)?",
    re.ASCII,
)
_CLOCK = re.compile(
    r"(?:(?P<days>\d{1,9})\.)?(?P<hours>[01]?\d|2[0-3]):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d(?:\.\d{1,7})?)",
    re.ASCII,
)
_MICROSECONDS = {
    "weeks": 604_800_000_000,
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
}


def parse_duration(text: str) -> timedelta:
    """Years and months are refused: their length depends on the calendar. Digits below a microsecond are dropped."""
    found = _ISO.fullmatch(text) or _CLOCK.fullmatch(text)
    if not found:
        raise ValueError("not a duration in ISO 8601 (as PT1M) or hh:mm:ss (as 00:01:00)")
    microseconds = sum(
        Decimal(number.replace(",", ".")) * _MICROSECONDS[unit] for unit, number in found.groupdict().items() if number
    )
    try:
        return timedelta(microseconds=int(microseconds))
    except OverflowError:
        raise ValueError("a duration of more days than can be counted") from None


def format_duration(duration: timedelta) -> str:
    """ISO 8601 in days, hours, minutes and seconds; `PT0S` for nothing. Negative durations have no text here."""
    if duration < timedelta(0):
        raise ValueError(f"a duration is not negative: {duration}")
    hours, rest = divmod(duration.seconds, 3600)
    minutes, whole_seconds = divmod(rest, 60)
    seconds = f"{whole_seconds}.{duration.microseconds:06d}".rstrip("0").rstrip(".")
    date = f"{duration.days}D" if duration.days else ""
    time = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M")) if number)
    time += f"{seconds}S" if seconds != "0" else ""
    if not date and not time:
        return "PT0S"
    return f"P{date}" + (f"T{time}" if time else "")
