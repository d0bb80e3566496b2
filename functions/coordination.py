"""One durable orchestration for the pair: a side that is down has its partner follow it, or be faulted.

It is started by whoever closed or faulted a side, and by a timer that finds what nobody could start: the process ended
in between, or the app faulted a side where there was no durable client at hand. It decides with the domain's judge and
its own time alone, so that a replay decides the same. Activities do the reading and writing. Events only wake it: their
payload is not read, and each has a name that is waited for once.

Its history holds states, times and versions; reasons, which people write, stay in the table.
"""

# mypy: disallow-untyped-decorators=False
# The durable library ships no type information, so its decorators have none.

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from datetime import datetime, timedelta
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from functions.coordinator import COORDINATE, Coordinator, change_event
from shared import composition
from shared.domain.factory import (
    Factories,
    Factory,
    FactoryState,
    FaultPartner,
    Nothing,
    WaitUntil,
    judge_partner,
)
from shared.domain.pair import Side

#: Times that a partner may be judged in one run; every one follows a change or the end of a wait.
ROUNDS_MAX = 100
#: Tries of one activity while storage does not answer.
ACTIVITY_TRIES_MAX = 5
ACTIVITY_RETRY_MS = 1_000
#: Once a minute: often enough for what should not happen, and far below what a plan grants for free.
GUARD_SCHEDULE = "0 * * * * *"

blueprint = df.Blueprint()


@blueprint.orchestration_trigger(context_name="context", orchestration=COORDINATE)
def coordinate_pair(context: df.DurableOrchestrationContext) -> Generator[Any, Any, dict[str, Any]]:
    """Ends when both sides are open, or neither."""
    grace_seconds = _json(context.get_input())["grace_seconds"]
    both = yield from _activity(context, "read_factories", None)
    heard: set[str] = set()
    for _ in range(ROUNDS_MAX):
        now = context.current_utc_datetime
        match judge_partner(both.primary, both.secondary, now, timedelta(seconds=grace_seconds)):
            case Nothing():
                return {"ended": "both sides are open, or neither", "factories": written(both)}
            case WaitUntil(at=at, partner=partner):
                context.set_custom_status({"waiting_until": at.isoformat(), "factories": written(both)})
                event = change_event(partner, both.of(partner))
                if (yield from _wait(context, at, event, heard)):
                    both = yield from _activity(context, "read_factories", None)
            case FaultPartner():
                request = {"now": now.isoformat(), "grace_seconds": grace_seconds}
                both = yield from _activity(context, "fault_partner", request)
    return {"ended": f"the factories changed more than {ROUNDS_MAX} times", "factories": written(both)}


def _activity(
    context: df.DurableOrchestrationContext, name: str, request: dict[str, Any] | None
) -> Generator[Any, Any, Factories]:
    retry = df.RetryOptions(ACTIVITY_RETRY_MS, ACTIVITY_TRIES_MAX)
    return read((yield context.call_activity_with_retry(name, retry, request)))


def _wait(
    context: df.DurableOrchestrationContext, until: datetime, event: str, heard: set[str]
) -> Generator[Any, Any, bool]:
    """Whether the event came before the time was up.

    One that came although its state is not over is somebody's mistake, and is waited for no more: the library hands an
    event that came early to every later wait of its name.
    """
    timer = context.create_timer(until)
    if event in heard:
        yield timer
        return False
    changed = context.wait_for_external_event(event)
    winner = yield context.task_any([changed, timer])
    if winner == timer:
        return False
    heard.add(event)
    timer.cancel()  # an orchestration is not over while a timer of its own is running
    return True


@blueprint.activity_trigger(input_name="request")
async def read_factories(request: str) -> dict[str, Any]:
    return written(await composition.runtime().closing.look())


@blueprint.activity_trigger(input_name="request")
async def fault_partner(request: dict) -> dict[str, Any]:  # type: ignore[type-arg]  # the worker takes no generics
    """Judges again, on both sides as they are now; faulting a partner twice changes nothing."""
    now, grace = datetime.fromisoformat(request["now"]), timedelta(seconds=request["grace_seconds"])
    changed = await composition.runtime().closing.fault_partner(now, grace)
    return written(changed.after)


@blueprint.timer_trigger(schedule=GUARD_SCHEDULE, arg_name="timer", run_on_startup=True)
@blueprint.durable_client_input(client_name="client")
async def guard_pair(timer: func.TimerRequest, client: df.DurableOrchestrationClient) -> None:
    """Starts the coordination where it is due and nobody has: level by level, whatever was missed."""
    await Coordinator.with_client(client).look_after()


def written(both: Factories) -> dict[str, Any]:
    return {
        side.value: {
            "state": both.of(side).state.value,
            "since": _iso(both.of(side).since),
            "version": both.of(side).version,
        }
        for side in Side
    }


def read(value: Any) -> Factories:
    sides = _json(value)
    return Factories(primary=_factory(sides["primary"]), secondary=_factory(sides["secondary"]))


def _factory(value: Mapping[str, Any]) -> Factory:
    since = value["since"]
    return Factory(
        state=FactoryState(value["state"]),
        since=datetime.fromisoformat(since) if since else None,
        version=int(value["version"]),
    )


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _json(value: Any) -> Any:
    """Inputs and results come as values, or as the JSON text of them, depending on who encoded them."""
    return json.loads(value) if isinstance(value, str) else value
