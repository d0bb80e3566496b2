"""What a history says is still open: tasks, timers and sub-orchestrations that were asked for and not answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from local.host.durable.events import CREATED, Event, EventType, completes, parse_iso


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """A summary of one execution's history."""

    next_id: int
    steps_taken: int
    created: dict[int, Event]
    answered: frozenset[int]
    canceled: frozenset[int]
    started: bool

    def open(self, kind: EventType) -> list[Event]:
        """Requests of one kind without an answer, oldest first."""
        return [
            item
            for number, item in sorted(self.created.items())
            if item["EventType"] == kind and number not in self.answered and number not in self.canceled
        ]

    def due_timers(self, now: datetime) -> list[Event]:
        """Open timers whose time has come."""
        return [item for item in self.open(EventType.TIMER_CREATED) if parse_iso(item["FireAt"]) <= now]

    def next_timer(self) -> datetime | None:
        """When the next open timer fires."""
        return min((parse_iso(item["FireAt"]) for item in self.open(EventType.TIMER_CREATED)), default=None)

    def retries(self, number: int) -> dict[str, int] | None:
        """The retry note of a task or retry timer, if it is one."""
        created = self.created.get(number)
        return None if created is None else created.get("_retry")


def read_ledger(history: Sequence[Event]) -> Ledger:
    """Summarise a history."""
    created: dict[int, Event] = {}
    answered: set[int] = set()
    canceled: Iterable[int] = ()
    steps_taken = next_id = 0
    started = False
    for item in history:
        kind = item["EventType"]
        if kind in CREATED:
            created[item["EventId"]] = item
        elif kind == EventType.ORCHESTRATOR_COMPLETED:
            steps_taken, next_id, canceled = item["_steps"], item["_next_id"], item["_canceled"]
        elif kind == EventType.EXECUTION_STARTED:
            started = True
        elif (number := completes(item)) is not None:
            answered.add(number)
    return Ledger(
        next_id=next_id,
        steps_taken=steps_taken,
        created=created,
        answered=frozenset(answered),
        canceled=frozenset(canceled),
        started=started,
    )
