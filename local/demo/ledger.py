"""The demo's own books: every message by its id, from the first attempt to send it to every copy that arrived.

They know nothing of the app's records, so that the report made from those can be held against them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from local.demo.traffic import ENTITIES, Arrival, Message, Place, differences

ACCEPTED = 201
BACKLOG = "backlog"


@dataclass(frozen=True, kw_only=True)
class Totals:
    """All that the books say, in numbers."""

    sent: int
    accepted: int
    accepted_by_primary: int
    accepted_by_backlog: int
    #: Answers other than 201, each of which the sender tried again; not messages.
    refusals: int
    #: Messages that no attempt got accepted; nobody was promised anything.
    never_accepted: int
    delivered: int
    waiting: int
    dead_lettered: int
    lost_ids: tuple[str, ...]
    #: Accepted messages of which one place got more than one copy.
    duplicated: int
    #: Same copy, handed out again because its lock ran out: no duplicate.
    redelivered: int
    #: What arrived changed, at the wrong place, or without having been sent.
    wrong: tuple[str, ...]
    longest_send_s: float

    @property
    def lost(self) -> int:
        return len(self.lost_ids)


@dataclass
class Counts:
    """Of one entity."""

    accepted: int = 0
    diverted: int = 0
    delivered: int = 0
    waiting: int = 0


@dataclass
class Ledger:
    _sent: dict[str, Message] = field(default_factory=dict)
    _routes: dict[str, str] = field(default_factory=dict)
    _refusals: Counter[int] = field(default_factory=Counter)
    _missing: dict[str, set[Place]] = field(default_factory=dict)
    _copies: defaultdict[tuple[str, Place], set[int]] = field(default_factory=lambda: defaultdict(set))
    _waiting: set[str] = field(default_factory=set)
    _dead: set[str] = field(default_factory=set)
    _duplicated: set[str] = field(default_factory=set)
    _wrong: list[str] = field(default_factory=list)
    _redelivered: int = 0
    #: Everything that receivers got, of whatever kind.
    arrivals: int = 0
    longest_send_s: float = 0.0
    entities: dict[str, Counts] = field(default_factory=lambda: {path: Counts() for path in ENTITIES})

    # -- the sender's side

    def sending(self, message: Message) -> None:
        self._sent[message.id] = message
        self._missing[message.id] = set(message.places)

    def answered(self, message: Message, status: int, seconds: float, route: str = "") -> None:
        """One HTTP call; every call counts for the longest, and only 201 is a promise."""
        self.longest_send_s = max(self.longest_send_s, seconds)
        if status != ACCEPTED:
            self._refusals[status] += 1
            return
        self._routes[message.id] = route
        counts = self.entities[message.entity]
        counts.accepted += 1
        counts.diverted += route == BACKLOG
        if not self._missing[message.id]:
            counts.delivered += 1
        elif route == BACKLOG:
            counts.waiting += 1

    # -- the receivers' side

    def arrived(self, place: Place, arrival: Arrival) -> None:
        self.arrivals += 1
        message = self._sent.get(arrival.id)
        if message is None or place not in message.places:
            self._wrong.append(f"{arrival.id}: arrived at {place}, where nobody sent it")
            return
        copies = self._copies[arrival.id, place]
        if arrival.sequence_number in copies:
            self._redelivered += 1
            return
        copies.add(arrival.sequence_number)
        if len(copies) > 1:
            self._duplicated.add(message.id)
        self._wrong += differences(message, arrival)
        self._found(message, place)

    def _found(self, message: Message, place: Place) -> None:
        missing = self._missing[message.id]
        was_missing = bool(missing)
        missing.discard(place)
        if was_missing and not missing and message.id in self._routes:
            counts = self.entities[message.entity]
            counts.delivered += 1
            counts.waiting -= self._routes[message.id] == BACKLOG

    def waits(self, message_id: str) -> None:
        """An audit saw it in a backlog queue."""
        self._waiting.add(message_id)

    def is_dead_lettered(self, message_id: str) -> None:
        self._dead.add(message_id)

    # -- the books

    @property
    def sent(self) -> int:
        return len(self._sent)

    @property
    def refusals(self) -> Counter[int]:
        return self._refusals

    @property
    def duplicated(self) -> int:
        return len(self._duplicated)

    @property
    def undelivered(self) -> int:
        """Accepted, and not yet at every place where they have to arrive."""
        return sum(counts.accepted - counts.delivered for counts in self.entities.values())

    def totals(self) -> Totals:
        """Every accepted message has exactly one end; the first that applies, in this order."""
        undelivered = [message_id for message_id in self._routes if self._missing[message_id]]
        waiting = [one for one in undelivered if one in self._waiting]
        dead = [one for one in undelivered if one in self._dead and one not in self._waiting]
        diverted = sum(route == BACKLOG for route in self._routes.values())
        return Totals(
            sent=len(self._sent),
            accepted=len(self._routes),
            accepted_by_primary=len(self._routes) - diverted,
            accepted_by_backlog=diverted,
            refusals=self._refusals.total(),
            never_accepted=len(self._sent) - len(self._routes),
            delivered=len(self._routes) - len(undelivered),
            waiting=len(waiting),
            dead_lettered=len(dead),
            lost_ids=tuple(sorted(set(undelivered) - set(waiting) - set(dead))),
            duplicated=len(self._duplicated & self._routes.keys()),
            redelivered=self._redelivered,
            wrong=tuple(self._wrong),
            longest_send_s=self.longest_send_s,
        )
