"""History events, in the JSON form the durable library replays.

Keys that start with an underscore are this host's own notes; they are left out of what the library is given.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

Event = dict[str, Any]


class EventType(IntEnum):
    """DurableTask.Core's event types, as numbered on the wire."""

    EXECUTION_STARTED = 0
    EXECUTION_COMPLETED = 1
    EXECUTION_FAILED = 2
    EXECUTION_TERMINATED = 3
    TASK_SCHEDULED = 4
    TASK_COMPLETED = 5
    TASK_FAILED = 6
    SUB_ORCHESTRATION_CREATED = 7
    SUB_ORCHESTRATION_COMPLETED = 8
    SUB_ORCHESTRATION_FAILED = 9
    TIMER_CREATED = 10
    TIMER_FIRED = 11
    ORCHESTRATOR_STARTED = 12
    ORCHESTRATOR_COMPLETED = 13
    EVENT_RAISED = 15
    CONTINUE_AS_NEW = 16
    EXECUTION_SUSPENDED = 19
    EXECUTION_RESUMED = 20


CREATED = frozenset({EventType.TASK_SCHEDULED, EventType.SUB_ORCHESTRATION_CREATED, EventType.TIMER_CREATED})
COMPLETED_TASK = frozenset(
    {
        EventType.TASK_COMPLETED,
        EventType.TASK_FAILED,
        EventType.SUB_ORCHESTRATION_COMPLETED,
        EventType.SUB_ORCHESTRATION_FAILED,
    }
)
FAILED_TASK = frozenset({EventType.TASK_FAILED, EventType.SUB_ORCHESTRATION_FAILED})


def iso(moment: datetime) -> str:
    """UTC with microseconds and Z, the form the library writes and reads."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_iso(text: str) -> datetime:
    """Read such a time; one without a zone is UTC."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def event(kind: EventType, now: datetime, event_id: int = -1, **fields: Any) -> Event:
    """A new history event."""
    return {"EventType": int(kind), "EventId": event_id, "IsPlayed": False, "Timestamp": iso(now), **fields}


def public(item: Event, *, played: bool) -> Event:
    """An event as the library may see it."""
    shown = {key: value for key, value in item.items() if not key.startswith("_")}
    shown["IsPlayed"] = played
    return shown


def completes(item: Event) -> int | None:
    """The id of the task or timer that an event completes, if it does."""
    kind = item["EventType"]
    if kind in COMPLETED_TASK:
        return int(item["TaskScheduledId"])
    if kind == EventType.TIMER_FIRED:
        return int(item["TimerId"])
    return None
