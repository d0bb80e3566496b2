"""Availability of one entity of the primary: every change of state there is, in one table.

Available    sends go to the primary.
Suspect      a send failed in a way that counts; sends still go to the primary, and one success clears it, or the
             answer that the app's credentials are refused, which never fails over.
Unavailable  no send succeeded for the failover interval; sends go to the backlog until a ping succeeds or an operator
             says so.

Rules of this file: `transition` is the only way from one state to another; time is an argument; which failures count
is decided before (failures.py). A row of TRANSITIONS is (state, event) -> outcomes, tried in order; the first whose
guard holds is taken, and a pair without a row leaves the state as it is. docs/availability.md is drawn from the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeAlias


@dataclass(frozen=True, kw_only=True)
class Available:
    """Messages go to the primary."""

    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A send failed; messages still go to the primary."""

    since: datetime
    reason: str


@dataclass(frozen=True, kw_only=True)
class Unavailable:
    """Messages go to the backlog."""

    since: datetime
    reason: str
    #: Of a key of a partitioned entity: it takes messages again, and those of its backlog go first.
    healed_at: datetime | None = None


Availability: TypeAlias = Available | Suspect | Unavailable


class Event(Enum):
    SEND_SUCCEEDED = "a send succeeds"
    SEND_FAILED = "a send fails in a way that counts"
    TICK = "time passes"
    CREDENTIALS_REFUSED = "the service refuses the app's credentials"
    PING_SUCCEEDED = "a ping succeeds"
    ENTITY_UNKNOWN = "a ping is told that there is no such entity, and there never was"
    KEY_HEALED = "a ping with its key succeeds (keys of partitioned entities)"
    KEY_DRAINED = "nothing of the key is left in the backlog"
    MARKED_HEALTHY = "an operator marks it healthy"
    MARKED_UNAVAILABLE = "an operator marks it unavailable"


class Route(Enum):
    PRIMARY = "primary"
    BACKLOG = "backlog"


# For `route`, which every send asks: looking up a member takes longer than the decision.
_PRIMARY, _BACKLOG = Route


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What a guard may look at besides the state."""

    now: datetime
    failover_interval: timedelta
    reason: str = ""


Guard: TypeAlias = Callable[[Availability, Moment], bool]
Entry: TypeAlias = Callable[[Availability, Moment], Availability]


@dataclass(frozen=True)
class Outcome:
    enter: Entry
    guard: Guard


def always(state: Availability, moment: Moment) -> bool:
    """always"""
    return True


def at_once(state: Availability, moment: Moment) -> bool:
    """failover interval is zero"""
    return moment.failover_interval <= timedelta(0)


def interval_passed(state: Availability, moment: Moment) -> bool:
    """failover interval has passed"""
    return isinstance(state, Suspect) and moment.now - state.since >= moment.failover_interval


def is_healed(state: Availability, moment: Moment) -> bool:
    """its key takes messages again"""
    return isinstance(state, Unavailable) and state.healed_at is not None


def become_healed(state: Availability, moment: Moment) -> Availability:
    if not isinstance(state, Unavailable) or state.healed_at is not None:
        return state
    return Unavailable(since=state.since, reason=state.reason, healed_at=moment.now)


def become_available(state: Availability, moment: Moment) -> Available:
    return Available(since=moment.now)


def become_suspect(state: Availability, moment: Moment) -> Suspect:
    return Suspect(since=moment.now, reason=moment.reason)


def become_unavailable(state: Availability, moment: Moment) -> Unavailable:
    reason = moment.reason or (state.reason if isinstance(state, Suspect) else "")
    return Unavailable(since=moment.now, reason=reason)


TRANSITIONS: dict[tuple[type[Availability], Event], tuple[Outcome, ...]] = {
    (Available, Event.SEND_FAILED): (Outcome(become_unavailable, at_once), Outcome(become_suspect, always)),
    (Available, Event.MARKED_UNAVAILABLE): (Outcome(become_unavailable, always),),
    (Suspect, Event.SEND_SUCCEEDED): (Outcome(become_available, always),),
    (Suspect, Event.SEND_FAILED): (Outcome(become_unavailable, interval_passed),),
    # It answers, so it is not down: a time-out before was the same refusal, told too late.
    (Suspect, Event.CREDENTIALS_REFUSED): (Outcome(become_available, always),),
    (Suspect, Event.TICK): (Outcome(become_unavailable, interval_passed),),
    (Suspect, Event.PING_SUCCEEDED): (Outcome(become_available, always),),
    (Suspect, Event.MARKED_HEALTHY): (Outcome(become_available, always),),
    (Suspect, Event.MARKED_UNAVAILABLE): (Outcome(become_unavailable, always),),
    (Unavailable, Event.PING_SUCCEEDED): (Outcome(become_available, always),),
    # It was never there, so nothing about it is out: callers are told so again, and what waits for it is a dead letter.
    (Unavailable, Event.ENTITY_UNKNOWN): (Outcome(become_available, always),),
    (Unavailable, Event.KEY_HEALED): (Outcome(become_healed, always),),
    (Unavailable, Event.KEY_DRAINED): (Outcome(become_available, is_healed),),
    (Unavailable, Event.MARKED_HEALTHY): (Outcome(become_available, always),),
}


def transition(state: Availability, event: Event, moment: Moment) -> Availability:
    for outcome in TRANSITIONS.get((type(state), event), ()):
        if outcome.guard(state, moment):
            return outcome.enter(state, moment)
    return state


def route(state: Availability) -> Route:
    return _BACKLOG if isinstance(state, Unavailable) else _PRIMARY
