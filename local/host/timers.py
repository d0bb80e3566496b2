"""Timer triggers: one loop per function, one host at a time, never two runs of one function at once."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from local.host.converters import Datum
from local.host.errors import one_line
from local.host.invoke import NO_RETRY, RetryContext
from local.host.leases import RENEW_EVERY_S, Leases
from local.host.model import FunctionSpec
from local.host.retries import RetryPolicy
from local.host.schedule import Schedule
from local.host.storage import StorageTrouble

log = logging.getLogger("local.host.timers")

STATUS_PARTITION = "timer"
STORAGE_RETRY_S = 2.0

Run = Callable[[FunctionSpec, Datum, RetryContext], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class TimerStatus:
    """What is remembered of a timer between starts."""

    last: datetime | None
    next: datetime
    schedule: str


@dataclass(frozen=True, kw_only=True)
class FirstRun:
    """What a timer does when its listener starts."""

    run_now: bool
    past_due: bool


def first_run(status: TimerStatus | None, schedule: Schedule, now: datetime, run_on_startup: bool) -> FirstRun:
    """Past due beats run-on-start-up; a schedule that was changed meanwhile is not past due."""
    if status is not None and status.schedule == schedule.text and now > status.next:
        return FirstRun(run_now=True, past_due=True)
    return FirstRun(run_now=run_on_startup, past_due=False)


def timer_datum(status: TimerStatus | None, past_due: bool, updated: datetime) -> Datum:
    """The JSON the host hands to the worker."""
    shown: dict[str, str] | None = None
    if status is not None:
        last = status.last or datetime.min.replace(tzinfo=UTC)
        shown = {"Last": last.isoformat(), "Next": status.next.isoformat(), "LastUpdated": updated.isoformat()}
    return Datum(
        json.dumps({"Schedule": {"AdjustForDST": True}, "ScheduleStatus": shown, "IsPastDue": past_due}), "json"
    )


class TimerStatusStore:
    """Timer status rows."""

    def __init__(self, table: TableClient, host_id: str) -> None:
        self._table = table
        self.host_id = host_id

    def _row(self, name: str) -> str:
        return f"{self.host_id}:{name}"

    async def read(self, name: str) -> TimerStatus | None:
        try:
            row = await self._table.get_entity(STATUS_PARTITION, self._row(name))
        except ResourceNotFoundError:
            return None
        last = row.get("Last")
        return TimerStatus(
            last=datetime.fromisoformat(last) if last else None,
            next=datetime.fromisoformat(row["Next"]),
            schedule=row["Schedule"],
        )

    async def write(self, name: str, status: TimerStatus) -> None:
        row: dict[str, Any] = {
            "PartitionKey": STATUS_PARTITION,
            "RowKey": self._row(name),
            "Last": status.last.isoformat() if status.last else "",
            "Next": status.next.isoformat(),
            "Schedule": status.schedule,
        }
        await self._table.upsert_entity(row, mode=UpdateMode.REPLACE)


class TimerListener:
    """Runs one timer function on its schedule while this host holds the function's lease."""

    def __init__(
        self, *, spec: FunctionSpec, schedule: Schedule, leases: Leases, statuses: TimerStatusStore, run: Run
    ) -> None:
        trigger: Mapping[str, Any] = spec.trigger
        self._spec = spec
        self._schedule = schedule
        self._leases = leases
        self._lease_name = f"timer:{statuses.host_id}:{spec.name}"
        self._statuses = statuses
        self._run = run
        self._retries = RetryPolicy.from_settings(spec.retry)
        self._run_on_startup = bool(trigger.get("runOnStartup"))
        self._monitored = trigger.get("useMonitor") is not False and schedule.monitored
        self._storage = StorageTrouble(log, f"timer '{spec.name}'")
        self._held = False
        self._calling = asyncio.Lock()

    async def serve(self) -> None:
        """Until cancelled: wait for the lease, then keep the schedule for as long as it is held."""
        try:
            while True:
                try:
                    if await self._leases.acquire(self._lease_name):
                        self._storage.well()
                        await self._keep_schedule()
                except AzureError as error:
                    self._storage.trouble(error)
                await asyncio.sleep(STORAGE_RETRY_S)
        finally:
            if self._held:
                await asyncio.wait_for(self._leases.release(self._lease_name), STORAGE_RETRY_S)

    async def _keep_schedule(self) -> None:
        self._held = True
        status = await self._statuses.read(self._spec.name) if self._monitored else None
        first = first_run(status, self._schedule, _now(), self._run_on_startup)
        self._run_on_startup = False
        if first.run_now:
            status = await self._call(status, past_due=first.past_due)
        due = status.next if status is not None and status.next > _now() and first.run_now else None
        due = due or self._schedule.next_after(_now())
        while await self._hold_until(due):
            status = await self._call(status, past_due=False)
            due = status.next
        self._held = False
        log.warning("timer '%s' is now run by another host", self._spec.name)

    async def _hold_until(self, due: datetime) -> bool:
        """Sleep until `due`, renewing the lease; False when it was lost."""
        while (left := (due - _now()).total_seconds()) > 0:
            await asyncio.sleep(min(left, RENEW_EVERY_S))
            if left > RENEW_EVERY_S and not await self._leases.acquire(self._lease_name):
                return False
        return await self._leases.acquire(self._lease_name)

    async def run_once(self) -> None:
        """One call outside the schedule, on request; waits for a running one."""
        await self._call(None, past_due=False)

    async def _call(self, status: TimerStatus | None, *, past_due: bool) -> TimerStatus:
        async with self._calling:
            started = _now()
            renewal = asyncio.create_task(self._renew())
            try:
                await self._attempts(timer_datum(status, past_due, started))
            finally:
                renewal.cancel()
        fresh = TimerStatus(last=started, next=self._schedule.next_after(_now()), schedule=self._schedule.text)
        if self._monitored:
            await self._statuses.write(self._spec.name, fresh)
        return fresh

    async def _attempts(self, datum: Datum) -> None:
        """The call, and again as the function's retry policy says; a failure is only logged."""
        attempt = 0
        context = NO_RETRY
        while True:
            try:
                await self._run(self._spec, datum, context)
            except Exception as error:
                log.error(
                    "function '%s' failed: %s: %s",
                    self._spec.name, type(error).__name__, one_line(error), exc_info=error,
                )  # fmt: skip
                attempt += 1
                delay = self._retries.delay(attempt)
                if delay is None:
                    return
                context = RetryContext(attempt, self._retries.max_retries, error)
                await asyncio.sleep(delay.total_seconds())
            else:
                return

    async def _renew(self) -> None:
        """Keep the lease during a long call."""
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            try:
                await self._leases.acquire(self._lease_name)
            except AzureError as error:
                log.warning("timer '%s' cannot renew its lease: %s", self._spec.name, one_line(error))


def _now() -> datetime:
    return datetime.now(UTC)
