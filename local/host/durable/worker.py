"""Runs the orchestrations of one task hub while this host holds the hub's lease.

Nothing that matters lives in memory only: which activities are to run, which timers are to fire and which
sub-orchestrations are to start is read from each instance's history. A host that dies at any point leaves a
history from which the next one goes on; an activity whose answer was not stored runs again (at least once).
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from azure.core.exceptions import AzureError

from local.host.converters import Datum
from local.host.durable.actions import ActionType
from local.host.durable.errands import STORAGE_RETRY_MAX_S, STORAGE_RETRY_S, Errands, why_unknown
from local.host.durable.events import Event, EventType, event
from local.host.durable.model import Instance, Loaded, Status
from local.host.durable.outcomes import Answer, Outcome, judge_turn, orchestrator_input, parse_answer, parse_failure
from local.host.durable.packing import TooLarge
from local.host.durable.store import Store
from local.host.durable.turns import Turn, plan_turn
from local.host.errors import one_line
from local.host.host_json import DurableOptions
from local.host.invoke import Invocation, Invoker
from local.host.leases import RENEW_EVERY_S, Leases
from local.host.model import FunctionSpec
from local.host.storage import StorageTrouble
from local.host.tasks import report_end

log = logging.getLogger("local.host.durable")

DOORBELL_EVERY_S = 0.5
TURNS_IN_A_ROW = 1000
STOP_GRACE_S = 5.0
STALLED = (Status.PENDING, Status.RUNNING, Status.SUSPENDED)


class DurableWorker:
    """Drives instances, runs activities, fires timers, starts sub-orchestrations."""

    def __init__(
        self,
        *,
        store: Store,
        leases: Leases,
        invoker: Invoker,
        options: DurableOptions,
        orchestrators: Mapping[str, FunctionSpec],
        activities: Mapping[str, FunctionSpec],
        extra_inputs: Callable[[FunctionSpec], Callable[[], Mapping[str, Datum]]],
        on_outputs: Callable[[FunctionSpec, Invocation], Awaitable[None]],
    ) -> None:
        self.store = store
        self.options = options
        self.orchestrators = orchestrators
        self._leases = leases
        self._lease_name = f"durable:{options.hub_name}"
        self._invoker = invoker
        self._orchestrator_slots = asyncio.Semaphore(options.max_concurrent_orchestrators)
        self._driving: set[str] = set()
        self._again: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._errands = Errands(
            store=store,
            invoker=invoker,
            activities=activities,
            slots=options.max_concurrent_activities,
            extra_inputs=extra_inputs,
            on_outputs=on_outputs,
            wake=self.wake,
        )
        self._storage = StorageTrouble(log, f"task hub {options.hub_name}")
        self.active = False

    # The hub's lease

    async def serve(self) -> None:
        """Until cancelled: run the hub whenever no other host does."""
        try:
            while True:
                try:
                    await self._serve_turn()
                    self._storage.well()
                except AzureError as error:
                    self._storage.trouble(error)
                    await asyncio.sleep(STORAGE_RETRY_S)
        finally:
            await self._stop()

    async def _serve_turn(self) -> None:
        if not await self._leases.acquire(self._lease_name):
            if self.active:
                log.warning("task hub %s is now run by another host", self.options.hub_name)
                await self._drop_work()
            await asyncio.sleep(DOORBELL_EVERY_S)
            return
        if not self.active:
            self.active = True
            await self._recover()
        until = asyncio.get_running_loop().time() + RENEW_EVERY_S
        while asyncio.get_running_loop().time() < until:
            for instance_id in await self.store.rung():
                self.wake(instance_id)
            await asyncio.sleep(DOORBELL_EVERY_S)

    async def _recover(self) -> None:
        """Take up every instance that is not finished."""
        instances = await self.store.find(STALLED)
        if instances:
            log.info("task hub %s: going on with %d instances", self.options.hub_name, len(instances))
        for instance in instances:
            self.wake(instance.instance_id)

    async def _drop_work(self) -> None:
        self.active = False
        self._again.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._errands.drop()

    async def _stop(self) -> None:
        """Let running activities end for a moment, then give the lease back; the rest is in storage."""
        was_active, self.active = self.active, False
        await self._errands.settle(STOP_GRACE_S)
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=STOP_GRACE_S)
        await self._drop_work()
        if was_active:
            try:
                await asyncio.wait_for(self._leases.release(self._lease_name), STOP_GRACE_S)
            except (AzureError, TimeoutError) as error:
                log.warning("the lease of task hub %s stays until it expires: %s", self._lease_name, one_line(error))

    async def notify(self, instance_id: str) -> None:
        """Something was stored for an instance: go on with it, here or on the host that runs the hub."""
        if self.active:
            self.wake(instance_id)
        else:
            await self.store.ring(instance_id)

    def wake(self, instance_id: str) -> None:
        """Look at an instance soon."""
        if not self.active:
            return
        if instance_id in self._driving:
            self._again.add(instance_id)
            return
        self._driving.add(instance_id)
        self._spawn(self._drive(instance_id), f"orchestration {instance_id}")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(report_end)

    # One instance

    async def _drive(self, instance_id: str) -> None:
        delay = STORAGE_RETRY_S
        try:
            while self.active:
                self._again.discard(instance_id)
                try:
                    async with self._orchestrator_slots:
                        await self._take_turns(instance_id)
                    delay = STORAGE_RETRY_S
                except AzureError as error:
                    log.warning("instance %s waits for storage: %s", instance_id, one_line(error))
                    await asyncio.sleep(delay)
                    delay = min(delay * 2, STORAGE_RETRY_MAX_S)
                    continue
                if instance_id not in self._again:
                    return
        finally:
            self._driving.discard(instance_id)
            # A wake between the last look and here must not be lost.
            if instance_id in self._again and self.active:
                self._again.discard(instance_id)
                self.wake(instance_id)

    async def _take_turns(self, instance_id: str) -> None:
        for _ in range(TURNS_IN_A_ROW):
            loaded = await self.store.load(instance_id)
            if loaded is None:
                self._errands.forget(instance_id)
                return
            turn = plan_turn(loaded, _now())
            if turn is None:
                await self._errands.arrange(loaded)
                return
            if not await self._take_turn(loaded, turn) and not self.active:
                return
        self._again.add(instance_id)

    async def _take_turn(self, loaded: Loaded, turn: Turn) -> bool:
        instance = loaded.instance
        now = _now()
        if not turn.run:
            after = replace(instance, updated=now, status=turn.status or instance.status)
            if turn.status is not None and turn.status.finished:
                after = replace(after, output=json.dumps(turn.output_reason))
            if not await self.store.commit(instance, after, turn.events, turn.consumed):
                return False
            return await self._after_commit(after, after.status.finished)
        started = event(EventType.ORCHESTRATOR_STARTED, now)
        history = [*loaded.history, started, *turn.events]
        answer = await self._run_orchestrator(instance, history)
        outcome = judge_turn(instance, history, turn.events, answer, _now(), self._check_name)
        after = _standing(instance, outcome, _now())
        fresh = (started, *turn.events, *outcome.events)
        if outcome.continues_as_new:
            return await self._continue_as_new(instance, after, turn)
        try:
            committed = await self.store.commit(instance, after, fresh, turn.consumed)
        except TooLarge as error:
            after = _too_large(instance, error)
            committed = await self.store.commit(instance, after, (), turn.consumed)
        if not committed:
            return False
        if after.status.finished:
            self._errands.start_stragglers(after, outcome.events)
        return await self._after_commit(after, after.status.finished)

    async def _continue_as_new(self, instance: Instance, after: Instance, turn: Turn) -> bool:
        """A new execution with an empty history; messages not shown yet stay for it."""
        if not await self.store.commit(instance, after, (), turn.consumed):
            return False
        self._errands.forget(instance.instance_id)
        await self.store.forget_execution(instance.instance_id, instance.execution_id)
        return True

    async def _after_commit(self, instance: Instance, finished: bool) -> bool:
        if not finished:
            return True
        if instance.status == Status.FAILED:
            log.error("orchestration '%s' (%s) failed: %s", instance.name, instance.instance_id, instance.output)
        self._errands.forget(instance.instance_id)
        if instance.parent is not None:
            await self._errands.tell_parent(instance, instance.parent)
        return True

    async def _run_orchestrator(self, instance: Instance, history: list[Event]) -> Answer:
        spec = self.orchestrators.get(instance.name)
        if spec is None:
            return Answer(actions=(), error=self._check_name(ActionType.CALL_SUB_ORCHESTRATOR, instance.name))
        datum = Datum(json.dumps(orchestrator_input(instance, history)), "string")
        try:
            invocation = await self._invoker.invoke(spec, {spec.trigger_name: datum})
            return parse_answer(invocation.returned.value if invocation.returned else "{}")
        except Exception as error:
            return parse_failure(str(error) or type(error).__name__)

    def _check_name(self, kind: ActionType, name: str) -> str | None:
        if kind in (ActionType.CALL_ACTIVITY, ActionType.CALL_ACTIVITY_WITH_RETRY):
            return why_unknown(name, self._errands.activities, "an activity function")
        return why_unknown(name, self.orchestrators, "an orchestrator function")


def _standing(instance: Instance, outcome: Outcome, now: datetime) -> Instance:
    after = replace(
        instance,
        status=outcome.status,
        output=outcome.output,
        custom_status=outcome.custom_status,
        updated=now,
    )
    if outcome.continues_as_new:
        return replace(after, execution_id=uuid.uuid4().hex, input=outcome.continue_with)
    return after


def _too_large(instance: Instance, error: TooLarge) -> Instance:
    output = json.dumps(f"Orchestrator function '{instance.name}' failed: {error}")
    return replace(instance, status=Status.FAILED, output=output, custom_status=None, updated=_now())


def _now() -> datetime:
    return datetime.now(UTC)
