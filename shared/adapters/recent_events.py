"""The last events of this instance, kept in memory for whoever looks at it."""

from __future__ import annotations

import dataclasses
from collections import Counter, OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared.telemetry_events import (
    CredentialsRefused,
    DeadLettered,
    DestinationRested,
    FailureCounted,
    Forwarded,
    ForwardInDoubt,
    Pinged,
    SendAccepted,
    SendRefused,
    SetAside,
    TelemetryEvent,
)

RECENT_EVENTS_MAX = 200
#: An event like one before it is told with it, as one that happened several times, unless that is longer ago.
SAME_WITHIN = timedelta(minutes=1)


@dataclass(kw_only=True, slots=True)
class Noted:
    """An event, or several alike: in an outage thousands of sends would push out what tells the story."""

    #: Number of the first of them, by which a reader knows the entry again.
    id: int
    #: Number of the last of them.
    number: int
    first_at: datetime
    times: int
    #: The last of them.
    event: TelemetryEvent

    def as_json(self) -> dict[str, Any]:
        names = [field.name for field in dataclasses.fields(self.event)]
        values = {name: value for name in names if (value := getattr(self.event, name)) is not None}
        plain = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}
        return {
            "id": self.id,
            "number": self.number,
            "event": self.event.name,
            "times": self.times,
            "first_at": self.first_at.isoformat(),
            **plain,
        }


class RecentEvents:
    """Sends that went straight to the primary are not among them."""

    wants_every_send = False

    def __init__(self, limit: int = RECENT_EVENTS_MAX) -> None:
        self._limit = limit
        self._noted: OrderedDict[Hashable, Noted] = OrderedDict()
        self._number = 0
        #: How often each kind of event happened since the start; there are as many keys as kinds.
        self.counts: Counter[str] = Counter()

    @property
    def number(self) -> int:
        """Of the last event; they count up from 1."""
        return self._number

    def emit(self, event: TelemetryEvent) -> None:
        self._number += 1
        self.counts[event.name] += 1
        likeness = _likeness(event, self._number)
        before = self._noted.pop(likeness, None)
        if before is not None and event.at - before.event.at > SAME_WITHIN:
            # An entry of its own now, under a key that no other event has, and the first to make room.
            self._noted[before.number] = before
            self._noted.move_to_end(before.number, last=False)
            before = None
        if before is None:
            before = Noted(id=self._number, number=self._number, first_at=event.at, times=1, event=event)
        else:
            # In its place: there is one of these for every message of an outage.
            before.number, before.event = self._number, event
            before.times += 1
        self._noted[likeness] = before
        if len(self._noted) > self._limit:
            self._noted.popitem(last=False)

    def after(self, number: int) -> list[Noted]:
        """What is new since this number, the newest first."""
        new = [dataclasses.replace(one) for one in self._noted.values() if one.number > number]
        return sorted(new, key=lambda one: -one.number)

    def latest(self, count: int = RECENT_EVENTS_MAX) -> list[TelemetryEvent]:
        """The newest first."""
        return [noted.event for noted in self.after(0)[:count]]


def _likeness(event: TelemetryEvent, number: int) -> Hashable:
    """Equal for events that are told as one; its number for one that is told by itself."""
    match event:
        case SendAccepted():
            return (event.name, event.path, event.backlog_queue is None, event.possible_duplicate)
        case SendRefused():
            return (event.name, event.path, event.reason)
        case FailureCounted() | DestinationRested():
            return (event.name, event.path, event.failure)
        case Pinged():
            return (event.name, event.path, event.succeeded)
        case Forwarded() | ForwardInDoubt() | SetAside():
            return (event.name, event.path)
        case DeadLettered():
            return (event.name, event.backlog_queue, event.reason)
        case CredentialsRefused():
            return (event.name, event.side, event.path)
        case _:
            return number
