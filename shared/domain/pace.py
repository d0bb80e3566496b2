"""How fast to drain: a token bucket that may be given a limit, and learns one when the primary asks for mercy.

Without a limit and without throttling nothing waits. When the primary throttles, the pace falls to half of what it
was; it rises again by a tenth each second, and after a minute without throttling what was learned is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

SLOWEST = 10.0
RISE_PER_SECOND = 1.1
FORGET_AFTER = timedelta(minutes=1)
#: Seconds' worth of messages that may go at once after a pause.
BURST_SECONDS = 1.0
#: Keeps the power below finite, however long the pause was.
_RISE_SECONDS_MAX = 120.0


@dataclass(frozen=True, kw_only=True)
class Pace:
    #: Messages a second, as configured; None: as fast as it goes.
    limit: float | None
    at: datetime
    #: Below zero: so many messages are ahead of their time.
    tokens: float = 0.0
    #: Messages a second, as learned from throttling.
    learned: float | None = None
    throttled_at: datetime | None = None

    @property
    def rate(self) -> float | None:
        rates = [rate for rate in (self.limit, self.learned) if rate is not None]
        return min(rates, default=None)


def take(pace: Pace, count: int, *, now: datetime) -> tuple[Pace, timedelta]:
    """The pace with so many messages taken off, and how long to wait before they are sent."""
    pace = _risen(pace, now)
    rate = pace.rate
    if rate is None:
        return replace(pace, at=now, tokens=0.0), timedelta(0)
    elapsed = max((now - pace.at).total_seconds(), 0.0)
    tokens = min(pace.tokens + elapsed * rate, BURST_SECONDS * rate) - count
    wait = timedelta(seconds=max(-tokens / rate, 0.0))
    return replace(pace, at=now, tokens=tokens), wait


def throttled(pace: Pace, *, now: datetime, observed: float) -> Pace:
    """`observed` is how many messages a second went when the primary had enough."""
    before = pace.learned if pace.learned is not None else observed
    return replace(pace, learned=max(before / 2, SLOWEST), throttled_at=now)


def _risen(pace: Pace, now: datetime) -> Pace:
    if pace.learned is None or pace.throttled_at is None:
        return pace
    if now - pace.throttled_at >= FORGET_AFTER:
        return replace(pace, learned=None, throttled_at=None)
    elapsed = min(max((now - pace.at).total_seconds(), 0.0), _RISE_SECONDS_MAX)
    return replace(pace, learned=pace.learned * RISE_PER_SECOND**elapsed)
