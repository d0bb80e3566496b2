"""Deciding an orchestration's next turn: which events its orchestrator is shown. Pure.

The library hands out task numbers while it replays, and a failed with-retry call takes numbers too (for its
timer and its next try) that never show in the action log. To give new steps the same numbers as the library,
an event that moves a retry along must come first in its turn: then its numbers come before all others.
At most one external event is shown per turn, so that none is lost when the orchestrator continues as new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from local.host.durable.events import FAILED_TASK, Event, EventType, completes, event, parse_iso
from local.host.durable.ledger import Ledger, read_ledger
from local.host.durable.model import Instance, Loaded, Message, MessageKind, Status

EVENTS_PER_TURN = 50
MESSAGES_PER_TURN = 80


@dataclass(frozen=True, kw_only=True)
class Turn:
    """New events, the messages they came from, and whether the orchestrator runs on them."""

    events: tuple[Event, ...] = ()
    consumed: tuple[str, ...] = ()
    run: bool = False
    status: Status | None = None
    output_reason: str | None = None


def plan_turn(loaded: Loaded, now: datetime) -> Turn | None:
    """The next turn of an instance, or None when there is nothing to do."""
    instance = loaded.instance
    if instance.status.finished:
        return None
    ledger = read_ledger(loaded.history)
    messages = sorted(loaded.messages, key=lambda message: (message.enqueued, message.key))[:MESSAGES_PER_TURN]
    control = _plan_control(instance, messages, now)
    if control is not None or instance.status == Status.SUSPENDED:
        return control
    return _plan_events(instance, ledger, messages, now)


def _plan_control(instance: Instance, messages: Sequence[Message], now: datetime) -> Turn | None:
    """Terminate, suspend and resume act without the orchestrator."""
    suspended = instance.status == Status.SUSPENDED
    for message in messages:
        if message.kind == MessageKind.TERMINATE:
            ended = event(EventType.EXECUTION_TERMINATED, now, Input=message.input)
            return Turn(
                events=(ended,), consumed=(message.key,), status=Status.TERMINATED, output_reason=message.input or ""
            )
    for message in messages:
        if message.kind == MessageKind.SUSPEND and not suspended:
            noted = event(EventType.EXECUTION_SUSPENDED, now, Reason=message.input)
            return Turn(events=(noted,), consumed=(message.key,), status=Status.SUSPENDED)
        if message.kind == MessageKind.RESUME and suspended:
            noted = event(EventType.EXECUTION_RESUMED, now, Reason=message.input)
            return Turn(events=(noted,), consumed=(message.key,), status=Status.RUNNING)
        if message.kind in (MessageKind.SUSPEND, MessageKind.RESUME):
            return Turn(consumed=(message.key,))
    return None


def _plan_events(instance: Instance, ledger: Ledger, messages: Sequence[Message], now: datetime) -> Turn | None:
    arrived: list[tuple[datetime, str, Event]] = []
    consumed: list[str] = []
    for message in messages:
        shown = _message_event(instance, ledger, message)
        if shown is None:
            consumed.append(message.key)
        else:
            arrived.append((message.enqueued, message.key, shown))
    for timer in ledger.due_timers(now):
        fired = event(EventType.TIMER_FIRED, now, TimerId=timer["EventId"], FireAt=timer["FireAt"])
        arrived.append((parse_iso(timer["FireAt"]), "", fired))
    arrived.sort(key=lambda item: (item[0], item[1]))
    chosen = _choose(arrived, ledger)
    events = [shown for _, _, shown in chosen]
    if not ledger.started:
        events.insert(0, execution_started(instance, now))
    consumed.extend(key for _, key, _ in chosen if key)
    if not events and not consumed:
        return None
    return Turn(events=tuple(events), consumed=tuple(consumed), run=bool(events))


def _message_event(instance: Instance, ledger: Ledger, message: Message) -> Event | None:
    """The event a message becomes, or None when it came too late to matter."""
    if message.kind == MessageKind.EVENT:
        return event(EventType.EVENT_RAISED, message.enqueued, Name=message.name, Input=message.input)
    if message.event is None or message.execution_id != instance.execution_id:
        return None
    number = completes(message.event)
    if number is None or number in ledger.answered or number not in ledger.created:
        return None
    return message.event


def _choose(arrived: list[tuple[datetime, str, Event]], ledger: Ledger) -> list[tuple[datetime, str, Event]]:
    chosen: list[tuple[datetime, str, Event]] = []
    external = 0
    for item in arrived[:EVENTS_PER_TURN]:
        shown = item[2]
        if chosen and moves_retry(ledger, shown):
            break
        if shown["EventType"] == EventType.EVENT_RAISED:
            external += 1
            if external > 1:
                break
        chosen.append(item)
    return chosen


def moves_retry(ledger: Ledger, item: Event) -> bool:
    """Whether an event makes the library take a number for a retry."""
    number = completes(item)
    if number is None or ledger.retries(number) is None:
        return False
    return item["EventType"] in FAILED_TASK or item["EventType"] == EventType.TIMER_FIRED


def execution_started(instance: Instance, now: datetime) -> Event:
    """The first event of an execution."""
    parent = instance.parent
    return event(
        EventType.EXECUTION_STARTED,
        now,
        Name=instance.name,
        Version=instance.version or "",
        Input=instance.input,
        OrchestrationInstance={"InstanceId": instance.instance_id, "ExecutionId": instance.execution_id},
        ParentInstance=None
        if parent is None
        else {"OrchestrationInstance": {"InstanceId": parent.instance_id}, "TaskScheduleId": parent.task_id},
        Tags=None,
    )
