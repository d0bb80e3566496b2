"""Pings: how the pair finds out that an unavailable entity of the primary takes messages again.

A ping is an empty message that lives for a second and has a session id, so that session entities accept it as well;
the service never delivers one to a receiver. An entity is pinged once in each ping interval while it is unavailable,
and counts as recovered after so many successes in a row as the pair asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.domain.message import DataBody, Header, Message, Properties

PING_CONTENT_TYPE = "application/vnd.ms-servicebus-ping"
PING_TIME_TO_LIVE = timedelta(seconds=1)

#: Keyed pings that find out about every partition of a partitioned entity. Which key leads to which of the 16
#: partitions is the service's secret; with so many random keys the chance that one partition is left out is
#: 16 * (15/16)^160, about 1 in 1,900.
PARTITION_PINGS = 160

# Steps of a schedule in NCRONTAB: those that divide a minute, or an hour, come at even distances.
_EVEN_STEPS = (30, 20, 15, 12, 10, 6, 5, 4, 3, 2, 1)
_SECONDS_A_MINUTE = 60


def ping_message(*, message_id: str, session_id: str) -> Message:
    return Message(
        body=DataBody((b"",)),
        header=Header(time_to_live_ms=PING_TIME_TO_LIVE // timedelta(milliseconds=1)),
        properties=Properties(message_id=message_id, group_id=session_id, content_type=PING_CONTENT_TYPE),
    )


def is_ping(content_type: str | None) -> bool:
    return content_type == PING_CONTENT_TYPE


@dataclass(frozen=True, kw_only=True)
class Pinged:
    """What is remembered of an unavailable entity between two pings."""

    at: datetime
    #: In a row, the latest included.
    successes: int = 0


def is_due(last: Pinged | None, *, now: datetime, interval: timedelta) -> bool:
    """Timers come a little early or late; half a tick of the schedule is neither."""
    return last is None or now - last.at >= interval - tick_of(interval) / 2


def after_ping(last: Pinged | None, *, succeeded: bool, now: datetime) -> Pinged:
    before = last.successes if last is not None else 0
    return Pinged(at=now, successes=before + 1 if succeeded else 0)


def has_recovered(pinged: Pinged, *, successes_needed: int) -> bool:
    return pinged.successes >= successes_needed


def tick_of(interval: timedelta) -> timedelta:
    """How often to look whether a ping is due: the longest even step of which the interval is a multiple."""
    for unit in (timedelta(minutes=1), timedelta(seconds=1)):
        for step in _EVEN_STEPS:
            if interval % (step * unit) == timedelta(0) and interval >= step * unit:
                return step * unit
    return timedelta(seconds=1)


def schedule_of(interval: timedelta) -> str:
    """The same as an NCRONTAB expression {second minute hour day month day-of-week}, which the timer trigger takes."""
    seconds = tick_of(interval) // timedelta(seconds=1)
    if seconds < _SECONDS_A_MINUTE:
        return f"*/{seconds} * * * * *"
    return f"0 */{seconds // _SECONDS_A_MINUTE} * * * *"


def ping_deadline(attempt_timeout: timedelta, interval: timedelta) -> timedelta:
    """One ping is over before the next is due: a hung one would otherwise hide that the entity is back.

    For a plain entity: asking all partitions takes as long as it takes, or no short interval would ever see the end.
    """
    return min(attempt_timeout, max(interval - timedelta(seconds=0.1), timedelta(seconds=0.9)))
