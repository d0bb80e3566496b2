"""The action log an orchestrator returns, flattened to the steps that take a task number.

The log is append-only and the library numbers its tasks in the same order, so what is new at the end of the
log is what the orchestrator asks for now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any

from local.host.durable.events import parse_iso


class ActionType(IntEnum):
    """Action numbers of the out-of-process protocol."""

    CALL_ACTIVITY = 0
    CALL_ACTIVITY_WITH_RETRY = 1
    CALL_SUB_ORCHESTRATOR = 2
    CALL_SUB_ORCHESTRATOR_WITH_RETRY = 3
    CONTINUE_AS_NEW = 4
    CREATE_TIMER = 5
    WAIT_FOR_EXTERNAL_EVENT = 6
    CALL_ENTITY = 7
    CALL_HTTP = 8
    SIGNAL_ENTITY = 9
    SCHEDULED_SIGNAL_ENTITY = 10
    WHEN_ANY = 11
    WHEN_ALL = 12


REFUSED = {
    ActionType.CALL_ENTITY: "call_entity",
    ActionType.CALL_HTTP: "call_http",
    ActionType.SIGNAL_ENTITY: "signal_entity",
    ActionType.SCHEDULED_SIGNAL_ENTITY: "a scheduled signal_entity",
}


class UnsupportedAction(Exception):
    """The orchestrator asks for something this host does not do."""


@dataclass(frozen=True, kw_only=True)
class Retry:
    """Retry options of a with-retry call."""

    first_ms: int
    max_attempts: int


@dataclass(frozen=True, kw_only=True)
class Step:
    """One leaf of the action log."""

    kind: ActionType
    name: str = ""
    input: str | None = None
    instance_id: str | None = None
    version: str | None = None
    fire_at: datetime | None = None
    canceled: bool = False
    retry: Retry | None = None

    @property
    def takes_number(self) -> bool:
        """Waiting for an external event has no number; it is matched by name."""
        return self.kind != ActionType.WAIT_FOR_EXTERNAL_EVENT


def flatten(actions: Sequence[Any]) -> list[Step]:
    """All leaves of an action log, in the order the library numbered them."""
    steps: list[Step] = []
    for action in actions:
        if isinstance(action, list):
            steps.extend(flatten(action))
            continue
        kind = ActionType(action["actionType"])
        if kind in (ActionType.WHEN_ANY, ActionType.WHEN_ALL):
            steps.extend(flatten(action.get("compoundActions") or ()))
        elif kind in REFUSED:
            raise UnsupportedAction(f"{REFUSED[kind]} is not supported by the local host")
        else:
            steps.append(_step(kind, action))
    return steps


def _step(kind: ActionType, action: dict[str, Any]) -> Step:
    options = action.get("retryOptions")
    fire_at = action.get("fireAt")
    return Step(
        kind=kind,
        name=str(action.get("functionName") or action.get("externalEventName") or ""),
        input=action.get("input"),
        instance_id=action.get("instanceId"),
        version=action.get("version"),
        fire_at=parse_iso(fire_at) if fire_at else None,
        canceled=bool(action.get("isCanceled")),
        retry=None
        if options is None
        else Retry(
            first_ms=int(options["firstRetryIntervalInMilliseconds"]), max_attempts=int(options["maxNumberOfAttempts"])
        ),
    )
