"""What there is to see at a moment: one frozen picture, which every view shows in its own way."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from local.demo.ledger import Ledger
from local.demo.schedule import Phase, Schedule
from local.demo.traffic import ENTITIES

AVAILABLE = "available"
#: Rates are means over so many seconds.
RATE_WINDOW_S = 3.0
HISTORY_EVERY_S = 1.0
NOTES_SHOWN = 8
#: When a drain ends is not planned: its bar is full when it is over.
DRAIN_SHARE_MAX = 0.9
REPORT_STEP = 0.15


@dataclass(frozen=True, kw_only=True)
class Note:
    at_s: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One entity."""

    path: str
    about: str
    state: str
    #: Its states so far, one for each second.
    history: tuple[str, ...]
    accepted: int
    diverted: int
    delivered: int
    waiting: int


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    phase: Phase
    shares: dict[Phase, float]
    elapsed_s: float
    rows: tuple[Row, ...]
    sent: int
    accepted: int
    delivered: int
    waiting: int
    refusals: int
    duplicated: int
    longest_send_s: float
    accepted_per_s: float
    delivered_per_s: float
    notes: tuple[Note, ...]


@dataclass
class Board:
    schedule: Schedule
    ledger: Ledger
    phase: Phase = Phase.HEALTHY
    #: How much of the report is done, 0 to 1.
    reported: float = 0.0
    began_s: float | None = None
    phase_began_s: float = 0.0
    states: dict[str, str] = field(default_factory=lambda: dict.fromkeys(ENTITIES, AVAILABLE))
    notes: list[Note] = field(default_factory=list)
    _history: dict[str, list[str]] = field(default_factory=lambda: {path: [] for path in ENTITIES})
    _marks: deque[tuple[float, int, int]] = field(default_factory=deque)

    def elapsed_s(self, now_s: float) -> float:
        return 0.0 if self.began_s is None else now_s - self.began_s

    def enter(self, phase: Phase, now_s: float) -> None:
        self.phase, self.phase_began_s = phase, now_s

    def hear(self, states: Mapping[str, str], now_s: float) -> list[str]:
        """Takes note of states; what changed, in words."""
        changed: dict[str, list[str]] = {}
        for path in self.states:
            if path in states and states[path] != self.states[path]:
                self.states[path] = states[path]
                changed.setdefault(states[path], []).append(path)
        since = {Phase.OUTAGE: "after the primary broke", Phase.DRAIN: "after it was healed"}.get(self.phase)
        when = f", {now_s - self.phase_began_s:.1f} s {since}" if since else ""
        return [f"{', '.join(paths)}: {state}{when}" for state, paths in changed.items()]

    def step(self) -> None:
        """The report came further. How many steps it takes is its own affair: each is a part of what is left."""
        self.reported += REPORT_STEP * (1.0 - self.reported)

    def note(self, now_s: float, text: str) -> Note:
        self.notes.append(Note(at_s=self.elapsed_s(now_s), text=text))
        return self.notes[-1]

    def snapshot(self, now_s: float) -> Snapshot:
        elapsed = self.elapsed_s(now_s)
        self._remember(elapsed)
        rows = tuple(self._row(path, about) for path, about in ENTITIES.items())
        accepted, delivered = sum(row.accepted for row in rows), sum(row.delivered for row in rows)
        rates = self._rates(elapsed, accepted, delivered)
        return Snapshot(
            phase=self.phase,
            shares={phase: self._share(phase, elapsed) for phase in Phase},
            elapsed_s=elapsed,
            rows=rows,
            sent=self.ledger.sent,
            accepted=accepted,
            delivered=delivered,
            waiting=sum(row.waiting for row in rows),
            refusals=self.ledger.refusals.total(),
            duplicated=self.ledger.duplicated,
            longest_send_s=self.ledger.longest_send_s,
            accepted_per_s=rates[0],
            delivered_per_s=rates[1],
            notes=tuple(self.notes[-NOTES_SHOWN:]),
        )

    def _row(self, path: str, about: str) -> Row:
        counts = self.ledger.entities[path]
        return Row(
            path=path,
            about=about,
            state=self.states[path],
            history=tuple(self._history[path]),
            accepted=counts.accepted,
            diverted=counts.diverted,
            delivered=counts.delivered,
            waiting=counts.waiting,
        )

    def _share(self, phase: Phase, elapsed: float) -> float:
        order = list(Phase)
        if order.index(phase) < order.index(self.phase):
            return 1.0
        if phase is not self.phase:
            return 0.0
        if phase is Phase.REPORT:
            return self.reported
        done = self.schedule.share_done(phase, elapsed)
        return min(done, DRAIN_SHARE_MAX) if phase is Phase.DRAIN else done

    def _remember(self, elapsed: float) -> None:
        """One state for each second of traffic; later ones fill what a busy moment left out."""
        if self.began_s is None or self.phase is Phase.REPORT:
            return
        for path, states in self._history.items():
            states.extend([self.states[path]] * (int(elapsed / HISTORY_EVERY_S) - len(states)))

    def _rates(self, elapsed: float, accepted: int, delivered: int) -> tuple[float, float]:
        self._marks.append((elapsed, accepted, delivered))
        while self._marks[0][0] < elapsed - RATE_WINDOW_S:
            self._marks.popleft()
        then, accepted_then, delivered_then = self._marks[0]
        seconds = elapsed - then
        if seconds <= 0:
            return 0.0, 0.0
        return (accepted - accepted_then) / seconds, (delivered - delivered_then) / seconds
