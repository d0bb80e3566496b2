"""The timer that pings what is unavailable; the host runs it on one instance at a time."""

from __future__ import annotations

import azure.functions as func

from shared import composition
from shared.domain.ping import schedule_of


def make_blueprint() -> func.Blueprint:
    """Made from the settings, since the ping interval is the timer's schedule."""
    blueprint = func.Blueprint()  # type: ignore[no-untyped-call]  # the library leaves its __init__ untyped
    schedule = schedule_of(composition.settings().ping_primary_interval)

    # Without a monitor: a tick that was missed while no instance ran is not made up for, the next one is soon.
    @blueprint.timer_trigger(arg_name="timer", schedule=schedule, use_monitor=False)
    async def ping_primary(timer: func.TimerRequest) -> None:
        runtime = composition.runtime()
        await runtime.pinger.ping_what_is_due()
        if runtime.gauge is not None:
            # Here because the host runs a timer on one instance only: one measurement is enough for all.
            await runtime.gauge.measure_if_due()

    return blueprint
