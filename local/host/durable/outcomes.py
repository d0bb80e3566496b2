"""Reading what an orchestrator answered: which steps are new, and how the instance stands now. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from local.host.durable.actions import ActionType, Step, UnsupportedAction, flatten
from local.host.durable.events import FAILED_TASK, Event, EventType, completes, event, iso, public
from local.host.durable.ledger import Ledger, read_ledger
from local.host.durable.model import Instance, Status

FAILURE_MARK = "\n\n$OutOfProcData$:"

#: Given an activity's or orchestrator's name: what is wrong with calling it, or None.
CheckName = Callable[[ActionType, str], str | None]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An orchestrator's answer: its action log, and its end if it came to one."""

    actions: Sequence[Any]
    done: bool = False
    output: Any = None
    error: str | None = None
    custom_status: Any = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one turn adds to the history, and the instance's new standing."""

    events: tuple[Event, ...]
    status: Status
    output: str | None = None
    custom_status: str | None = None
    continue_with: str | None = None
    continues_as_new: bool = False


def parse_answer(text: str) -> Answer:
    """What the handler returned."""
    values = json.loads(text)
    return Answer(
        actions=values.get("actions") or (),
        done=bool(values.get("isDone")),
        output=values.get("output"),
        error=values.get("error"),
        custom_status=values.get("customStatus"),
    )


def parse_failure(message: str) -> Answer:
    """What the handler raised: the library appends its state to the error text."""
    text, mark, state = message.partition(FAILURE_MARK)
    if mark:
        try:
            values = json.loads(state)
        except json.JSONDecodeError:
            values = {}
        return Answer(
            actions=values.get("actions") or (),
            error=values.get("error") or text,
            custom_status=values.get("customStatus"),
        )
    return Answer(actions=(), error=text or "unknown error")


def judge_turn(
    instance: Instance, history: Sequence[Event], fresh: Sequence[Event], answer: Answer, now: datetime,
    check_name: CheckName,
) -> Outcome:  # fmt: skip
    """Compare an answer with the history (already holding this turn's `fresh` events) and say what follows."""
    ledger = read_ledger(history)
    custom_status = None if answer.custom_status is None else json.dumps(answer.custom_status)
    try:
        steps = flatten(answer.actions)
        _check_same_steps(ledger, steps, failed=answer.error is not None)
        retried = _follow_retries(ledger, fresh, now)
        number = ledger.next_id + len(retried)
        created = _create(instance, steps, ledger.steps_taken, number, now, check_name)
    except (UnsupportedAction, StepRefused) as refused:
        return _failed(instance, str(refused), ledger, now, custom_status)
    if answer.error is not None:
        return _failed(instance, answer.error, ledger, now, custom_status)
    taken = sum(step.takes_number for step in steps[ledger.steps_taken :])
    closing = _turn_completed(ledger, steps, number + taken, now, [*ledger.created.values(), *created])
    events = (*retried, *created, closing)
    last = steps[-1] if steps else None
    if answer.done and last is not None and last.kind == ActionType.CONTINUE_AS_NEW:
        return Outcome(
            events=events, status=Status.RUNNING, continues_as_new=True, continue_with=last.input,
            custom_status=custom_status,
        )  # fmt: skip
    if answer.done and not read_ledger([*history, *events]).open(EventType.TIMER_CREATED):
        output = json.dumps(answer.output)
        ended = event(EventType.EXECUTION_COMPLETED, now, Result=output, OrchestrationStatus=str(Status.COMPLETED))
        return Outcome(
            events=(*events, ended), status=Status.COMPLETED, output=output, custom_status=custom_status
        )
    return Outcome(events=events, status=Status.RUNNING, custom_status=custom_status)


class StepRefused(Exception):
    """A step cannot be carried out, which fails the orchestration."""


def _check_same_steps(ledger: Ledger, steps: Sequence[Step], *, failed: bool) -> None:
    """A replay must ask for the same things as before, otherwise its numbers mean something else."""
    if failed and len(steps) < ledger.steps_taken:
        return
    wrong = len(steps) < ledger.steps_taken
    for item in ledger.created.values():
        position = item.get("_step")
        if position is None or wrong:
            continue
        step = steps[position]
        wrong = item["EventType"] != _EVENT_OF.get(step.kind) or (step.name or None) != item.get("Name")
    if wrong:
        raise StepRefused(
            "Non-Deterministic workflow detected: the orchestrator asked for other steps than its history holds. "
            "Was its code changed while the instance was running?"
        )


def _follow_retries(ledger: Ledger, fresh: Sequence[Event], now: datetime) -> list[Event]:
    """The retry timer after a failure, or the next try after the timer: numbers come before new steps."""
    for item in fresh:
        number = completes(item)
        note = None if number is None else ledger.retries(number)
        if number is None or note is None:
            continue
        created = ledger.created[number]
        carried = {key: value for key, value in created.items() if key.startswith("_") and key != "_step"}
        if item["EventType"] in FAILED_TASK:
            fire_at = now + timedelta(milliseconds=note["first_ms"])
            again = {**carried, "_again": {key: created.get(key) for key in _AGAIN}}
            return [event(EventType.TIMER_CREATED, now, ledger.next_id, FireAt=iso(fire_at), **again)]
        if item["EventType"] == EventType.TIMER_FIRED and note["attempt"] < note["max_attempts"]:
            again = created["_again"]
            carried["_retry"] = {**note, "attempt": note["attempt"] + 1}
            carried.pop("_again")
            fields = {key: value for key, value in again.items() if key not in ("EventType",) and value is not None}
            if "InstanceId" in fields and carried.get("_own_id"):
                fields["InstanceId"] = f"{carried['_own_id']}:{ledger.next_id:04x}"
            return [event(EventType(again["EventType"]), now, ledger.next_id, **fields, **carried)]
    return []


_AGAIN = ("EventType", "Name", "Version", "Input", "InstanceId")

_EVENT_OF = {
    ActionType.CALL_ACTIVITY: EventType.TASK_SCHEDULED,
    ActionType.CALL_ACTIVITY_WITH_RETRY: EventType.TASK_SCHEDULED,
    ActionType.CALL_SUB_ORCHESTRATOR: EventType.SUB_ORCHESTRATION_CREATED,
    ActionType.CALL_SUB_ORCHESTRATOR_WITH_RETRY: EventType.SUB_ORCHESTRATION_CREATED,
    ActionType.CREATE_TIMER: EventType.TIMER_CREATED,
}


def _create(
    instance: Instance, steps: Sequence[Step], taken: int, number: int, now: datetime, check_name: CheckName
) -> list[Event]:
    """Events for the steps that are new since the last turn."""
    created: list[Event] = []
    for position, step in enumerate(steps[taken:], start=taken):
        if step.kind in _EVENT_OF:
            created.append(_created(instance, step, position, number, now, check_name))
        number += step.takes_number
    return created


def _created(
    instance: Instance, step: Step, position: int, number: int, now: datetime, check_name: CheckName
) -> Event:
    kind = _EVENT_OF[step.kind]
    notes: dict[str, Any] = {"_step": position}
    if step.retry is not None:
        notes["_retry"] = {"first_ms": step.retry.first_ms, "max_attempts": step.retry.max_attempts, "attempt": 1}
    if kind == EventType.TIMER_CREATED:
        return event(kind, now, number, FireAt=iso(step.fire_at or now), **notes)
    wrong = check_name(step.kind, step.name)
    if wrong is not None:
        raise StepRefused(wrong)
    if kind == EventType.TASK_SCHEDULED:
        return event(kind, now, number, Name=step.name, Input=step.input, **notes)
    if not step.instance_id:
        notes["_own_id"] = instance.execution_id
    child = step.instance_id or f"{instance.execution_id}:{number:04x}"
    return event(
        kind, now, number, Name=step.name, Version=step.version, Input=step.input, InstanceId=child, **notes
    )


def _turn_completed(
    ledger: Ledger, steps: Sequence[Step], next_id: int, now: datetime, created: Sequence[Event]
) -> Event:
    canceled = [
        item["EventId"]
        for item in created
        if item["EventType"] == EventType.TIMER_CREATED
        and item.get("_step") is not None
        and steps[item["_step"]].canceled
        and item["EventId"] not in ledger.answered
    ]
    return event(
        EventType.ORCHESTRATOR_COMPLETED, now, _steps=len(steps), _next_id=next_id, _canceled=canceled
    )


def _failed(
    instance: Instance, reason: str, ledger: Ledger, now: datetime, custom_status: str | None
) -> Outcome:
    output = f"Orchestrator function '{instance.name}' failed: {reason}"
    closing = event(
        EventType.ORCHESTRATOR_COMPLETED,
        now,
        _steps=ledger.steps_taken,
        _next_id=ledger.next_id,
        _canceled=sorted(ledger.canceled),
    )
    ended = event(EventType.EXECUTION_COMPLETED, now, Result=output, OrchestrationStatus=str(Status.FAILED))
    return Outcome(
        events=(closing, ended), status=Status.FAILED, output=json.dumps(output), custom_status=custom_status
    )


def orchestrator_input(instance: Instance, history: Sequence[Event]) -> dict[str, Any]:
    """What the orchestrator's trigger is given (the extension's JSON, for replay schema 2)."""
    starts = [index for index, item in enumerate(history) if item["EventType"] == EventType.ORCHESTRATOR_STARTED]
    boundary = starts[-1]
    return {
        "history": [public(item, played=index < boundary) for index, item in enumerate(history)],
        "input": instance.input,
        "instanceId": instance.instance_id,
        "isReplaying": boundary > 0,
        "parentInstanceId": None if instance.parent is None else instance.parent.instance_id,
        "upperSchemaVersion": 1,
        "upperSchemaVersionNew": 2,
        "longRunningTimerIntervalDuration": "3.00:00:00",
        "maximumShortTimerDuration": "6.00:00:00",
        "defaultHttpAsyncRequestSleepTimeMillseconds": 30000,
    }
