"""Durations as the administration API and the entities file write them: ISO 8601."""

from __future__ import annotations

import re
from datetime import timedelta

from .descriptions import FOREVER, MAX_TIMESPAN
from .errors import InvalidDescription

#: .NET's TimeSpan.MaxValue.
LONGEST = "P10675199DT2H48M5.4775807S"

_DURATION = re.compile(
    r"P(?:(\d{1,8})Y)?(?:(\d{1,8})M)?(?:(\d{1,8})W)?(?:(\d{1,8})D)?"
    r"(?:T(?:(\d{1,12})H)?(?:(\d{1,12})M)?(?:(\d{1,15})(?:\.(\d{1,9}))?S)?)?"
)
#: Days of a year and of a month, as .NET reads them.
_DAYS_OF_YEAR, _DAYS_OF_MONTH = 365, 30


def parse_duration(text: str) -> timedelta:
    """ISO 8601, like `PT1M30S`. What is for ever in practice becomes for ever."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not text.strip()[-1].isalpha() or text.strip()[-1] in "PT":
        raise InvalidDescription(f"'{text}' is not an ISO 8601 duration such as PT1M30S.")
    years, months, weeks, days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:7])
    microseconds = int((found.group(8) or "0").ljust(6, "0")[:6])
    try:
        duration = timedelta(
            days=years * _DAYS_OF_YEAR + months * _DAYS_OF_MONTH + days,
            weeks=weeks,
            hours=hours,
            minutes=minutes,
            seconds=seconds,
            microseconds=microseconds,
        )
    except OverflowError as error:
        raise InvalidDescription(f"The duration '{text}' is too long.") from error
    if duration > MAX_TIMESPAN:
        # The Python SDK makes this of TimeSpan.MaxValue given as text, by rounding up; the service refuses it as well.
        raise InvalidDescription(f"The duration '{text}' is too long; the longest is {LONGEST}.")
    return MAX_TIMESPAN if duration >= FOREVER else duration


def format_duration(duration: timedelta) -> str:
    if duration >= FOREVER:
        return LONGEST
    minutes, seconds = divmod(duration.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{duration.microseconds:06}".rstrip("0") if duration.microseconds else ""
    parts = [f"{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M")) if amount]
    if seconds or fraction:
        parts.append(f"{seconds}{fraction}S")
    date = f"P{duration.days}D" if duration.days else "P"
    if parts:
        return f"{date}T{''.join(parts)}"
    return date if duration.days else "PT0S"
