"""Timer schedules: six-field NCRONTAB, or TimeSpan text for a constant period. Times are UTC, as in Azure.

Unlike Vixie cron, NCRONTAB wants day of month AND day of week to fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from local.host.errors import ConfigurationError
from local.host.timespan import parse_timespan

SEARCH_LIMIT_DAYS = 366 * 40
MONITOR_MINIMUM = timedelta(minutes=1)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True, kw_only=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field(name="second", low=0, high=59),
    _Field(name="minute", low=0, high=59),
    _Field(name="hour", low=0, high=23),
    _Field(name="day", low=1, high=31),
    _Field(name="month", low=1, high=12, names=_MONTHS),
    _Field(name="day of week", low=0, high=6, names=_DAYS),
)


@dataclass(frozen=True, kw_only=True)
class CronSchedule:
    """Sets of allowed values, one per field."""

    text: str
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    def next_after(self, moment: datetime) -> datetime:
        """First occurrence strictly after `moment`."""
        start = moment.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
        day = start.date()
        for offset in range(SEARCH_LIMIT_DAYS):
            candidate = day + timedelta(days=offset)
            if candidate.month not in self.months or candidate.day not in self.days:
                continue
            if candidate.isoweekday() % 7 not in self.weekdays:
                continue
            earliest = start.time() if offset == 0 else time.min
            found = self._time_from(earliest)
            if found is not None:
                return datetime.combine(candidate, found, UTC)
        raise ConfigurationError(f"schedule {self.text!r} never fires")

    def _time_from(self, earliest: time) -> time | None:
        for hour in self.hours:
            if hour < earliest.hour:
                continue
            for minute in self.minutes:
                if (hour, minute) < (earliest.hour, earliest.minute):
                    continue
                for second in self.seconds:
                    if time(hour, minute, second) >= earliest:
                        return time(hour, minute, second)
        return None

    @property
    def monitored(self) -> bool:
        """Schedules that fire more often than once a minute keep no status, as in the real host."""
        moment = datetime(2024, 1, 1, tzinfo=UTC)
        first = self.next_after(moment)
        return self.next_after(first) - first >= MONITOR_MINIMUM


@dataclass(frozen=True, kw_only=True)
class ConstantSchedule:
    """A fixed period, counted from the end of the last run."""

    text: str
    period: timedelta

    def next_after(self, moment: datetime) -> datetime:
        return moment.astimezone(UTC) + self.period

    @property
    def monitored(self) -> bool:
        return self.period >= MONITOR_MINIMUM


Schedule = CronSchedule | ConstantSchedule


def parse_schedule(text: str) -> Schedule:
    """Six fields, five fields (second 0), or TimeSpan text."""
    fields = text.split()
    if len(fields) == 5:
        fields = ["0", *fields]
    if len(fields) == 6:
        return _parse_cron(text, fields)
    if len(fields) == 1 and ":" in text:
        try:
            period = parse_timespan(text)
        except ValueError as error:
            raise ConfigurationError(f"schedule {text!r}: {error}") from None
        if period <= timedelta(0):
            raise ConfigurationError(f"schedule {text!r} must be a positive period")
        return ConstantSchedule(text=text, period=period)
    raise ConfigurationError(
        f"schedule {text!r} is neither six NCRONTAB fields such as '0 */5 * * * *' nor a TimeSpan such as '00:05:00'"
    )


def _parse_cron(text: str, fields: list[str]) -> CronSchedule:
    sets = [_parse_field(text, field, value) for field, value in zip(_FIELDS, fields, strict=True)]
    schedule = CronSchedule(
        text=text,
        seconds=tuple(sorted(sets[0])),
        minutes=tuple(sorted(sets[1])),
        hours=tuple(sorted(sets[2])),
        days=frozenset(sets[3]),
        months=frozenset(sets[4]),
        weekdays=frozenset(sets[5]),
    )
    schedule.next_after(datetime(2024, 1, 1, tzinfo=UTC))
    return schedule


def _parse_field(text: str, field: _Field, value: str) -> set[int]:
    allowed: set[int] = set()
    for part in value.split(","):
        body, slash, step_text = part.partition("/")
        step = _number(text, field, step_text, low=1, high=field.high) if slash else 1
        if body == "*":
            low, high = field.low, field.high
        elif "-" in body:
            low_text, _, high_text = body.partition("-")
            low, high = _value(text, field, low_text), _value(text, field, high_text)
            if low > high:
                raise ConfigurationError(f"schedule {text!r}: range {body!r} of {field.name} runs backwards")
        else:
            low = _value(text, field, body)
            high = field.high if slash else low
        allowed.update(range(low, high + 1, step))
    return allowed


def _value(text: str, field: _Field, value: str) -> int:
    name = value.lower()[:3]
    if name in field.names and len(value) >= 3:
        return field.names.index(name) + field.low
    return _number(text, field, value, low=field.low, high=field.high)


def _number(text: str, field: _Field, value: str, *, low: int, high: int) -> int:
    if not value.isdigit() or not low <= int(value) <= high:
        raise ConfigurationError(f"schedule {text!r}: {field.name} {value!r} is not in {low} to {high}")
    return int(value)
