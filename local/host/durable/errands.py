"""What follows from an instance's history: activities to run, timers to set, sub-orchestrations to start."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from azure.core.exceptions import AzureError

from local.host.converters import Datum
from local.host.durable.events import Event, EventType, event
from local.host.durable.ledger import Ledger, read_ledger
from local.host.durable.model import Instance, Loaded, Message, MessageKind, Parent, Status, new_instance
from local.host.durable.packing import TooLarge
from local.host.durable.store import InstanceExists, Store
from local.host.errors import one_line
from local.host.invoke import Invocation, Invoker
from local.host.model import FunctionSpec
from local.host.tasks import report_end

log = logging.getLogger("local.host.durable")

STORAGE_RETRY_S = 1.0
STORAGE_RETRY_MAX_S = 15.0
TIMER_WAIT_MAX_S = 3600.0

TaskKey = tuple[str, int]


class Errands:
    """Everything an orchestration waits for, set going once and again after a restart."""

    def __init__(
        self,
        *,
        store: Store,
        invoker: Invoker,
        activities: Mapping[str, FunctionSpec],
        slots: int,
        extra_inputs: Callable[[FunctionSpec], Callable[[], Mapping[str, Datum]]],
        on_outputs: Callable[[FunctionSpec, Invocation], Awaitable[None]],
        wake: Callable[[str], None],
    ) -> None:
        self.activities = activities
        self._store = store
        self._invoker = invoker
        self._slots = asyncio.Semaphore(slots)
        self._extra_inputs = extra_inputs
        self._on_outputs = on_outputs
        self._wake = wake
        self._tasks: set[asyncio.Task[None]] = set()
        # By instance: tasks that were set going here. They stay until the instance is forgotten, since a look at
        # storage may be older than the answer of a task that has just ended.
        self._started: dict[str, set[TaskKey]] = {}
        self._alarms: dict[str, asyncio.TimerHandle] = {}

    async def settle(self, timeout_s: float) -> None:
        """Let running activities come to an end."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=timeout_s)

    async def drop(self) -> None:
        """Forget everything; what matters is in storage."""
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()
        self._started.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(report_end)

    async def arrange(self, loaded: Loaded) -> None:
        """Make sure that everything an instance waits for is on its way."""
        instance = loaded.instance
        if instance.status.finished:
            if instance.parent is not None:
                await self.tell_parent(instance, instance.parent)
            return
        ledger = read_ledger(loaded.history)
        answered = {
            message.event["TaskScheduledId"]
            for message in loaded.messages
            if message.event is not None and message.execution_id == instance.execution_id
        }
        for scheduled in ledger.open(EventType.TASK_SCHEDULED):
            if scheduled["EventId"] not in answered:
                self._start_activity(instance, scheduled)
        for created in ledger.open(EventType.SUB_ORCHESTRATION_CREATED):
            if created["EventId"] not in answered:
                await self._ensure_child(instance, created)
        if instance.status != Status.SUSPENDED:
            self._set_alarm(instance.instance_id, ledger)

    def start_stragglers(self, instance: Instance, events: tuple[Event, ...]) -> None:
        """Activities asked for in an orchestration's very last turn run too, though nobody waits for them."""
        for item in events:
            if item["EventType"] == EventType.TASK_SCHEDULED:
                self._start_activity(instance, item)

    def _set_alarm(self, instance_id: str, ledger: Ledger) -> None:
        self._forget_alarm(instance_id)
        due = ledger.next_timer()
        if due is not None:
            wait = min(max((due - _now()).total_seconds(), 0.0), TIMER_WAIT_MAX_S)
            self._alarms[instance_id] = asyncio.get_running_loop().call_later(wait, self._wake, instance_id)

    def forget(self, instance_id: str) -> None:
        """Nothing more is to be done for an instance."""
        self._forget_alarm(instance_id)
        self._started.pop(instance_id, None)

    def _forget_alarm(self, instance_id: str) -> None:
        alarm = self._alarms.pop(instance_id, None)
        if alarm is not None:
            alarm.cancel()

    def _start_activity(self, instance: Instance, scheduled: Event) -> None:
        if self._is_new(instance, scheduled):
            self._spawn(self._run_activity(instance, scheduled), f"activity {scheduled['Name']}")

    def _is_new(self, instance: Instance, created: Event) -> bool:
        """Whether a task has not been set going here yet; from now on it has."""
        started = self._started.setdefault(instance.instance_id, set())
        key = (instance.execution_id, int(created["EventId"]))
        if key in started:
            return False
        started.add(key)
        return True

    async def _run_activity(self, instance: Instance, scheduled: Event) -> None:
        async with self._slots:
            answer = await self._call_activity(scheduled, int(scheduled["EventId"]))
        message = Message(
            kind=MessageKind.TASK, enqueued=_now(), event=answer, execution_id=instance.execution_id
        )
        await self._post_surely(instance.instance_id, message)
        self._wake(instance.instance_id)

    async def _call_activity(self, scheduled: Event, number: int) -> Event:
        name = scheduled["Name"]
        spec = self.activities.get(name)
        if spec is None:
            # Known when the orchestration asked for it; the app has changed since.
            reason = why_unknown(name, self.activities, "an activity function") or ""
            log.error("activity '%s' cannot run: %s", name, reason)
            return _task_failed(number, reason, reason)
        try:
            inputs = {spec.trigger_name: Datum(scheduled["Input"] or "null", "string"), **self._extra_inputs(spec)()}
            invocation = await self._invoker.invoke(spec, inputs)
            await self._on_outputs(spec, invocation)
            result = None if invocation.returned is None else invocation.returned.value
            return event(EventType.TASK_COMPLETED, _now(), TaskScheduledId=number, Result=result)
        except Exception as error:
            log.error("activity '%s' failed: %s: %s", name, type(error).__name__, one_line(error), exc_info=error)
            reason = f"Activity function '{name}' failed: {error}"
            return _task_failed(number, reason, f"{type(error).__name__}: {error}")

    async def _post_surely(self, instance_id: str, message: Message) -> None:
        """Store an answer, however long storage takes; a too large one becomes a failure."""
        delay = STORAGE_RETRY_S
        while True:
            try:
                return await self._store.post(instance_id, message)
            except TooLarge as error:
                number = (message.event or {})["TaskScheduledId"]
                message = replace(message, event=_task_failed(number, str(error), str(error)))
            except AzureError as error:
                log.warning("an answer for %s waits for storage: %s", instance_id, one_line(error))
                await asyncio.sleep(delay)
                delay = min(delay * 2, STORAGE_RETRY_MAX_S)

    async def _ensure_child(self, parent: Instance, created: Event) -> None:
        """Start a sub-orchestration that is not there yet, or pass on the end of one that is over."""
        if not self._is_new(parent, created):
            return
        try:
            await self._start_child(parent, created)
        except AzureError:
            self._started[parent.instance_id].discard((parent.execution_id, int(created["EventId"])))
            raise
        self._wake(created["InstanceId"])

    async def _start_child(self, parent: Instance, created: Event) -> None:
        number = int(created["EventId"])
        link = Parent(instance_id=parent.instance_id, execution_id=parent.execution_id, task_id=number)
        child = await self._store.get(created["InstanceId"])
        if child is None or (child.parent != link and child.status.finished):
            await self._create_child(created, link)
        elif child.parent != link:
            reason = f"An instance with the ID {child.instance_id} is already running."
            await self._answer_parent(link, _sub_failed(number, created["Name"], reason))
        elif child.status.finished:
            await self.tell_parent(child, link)

    async def _create_child(self, created: Event, link: Parent) -> None:
        child = new_instance(
            name=created["Name"],
            instance_id=created["InstanceId"],
            text=created["Input"],
            version=created.get("Version"),
            parent=link,
        )
        try:
            await self._store.create(child)
        except InstanceExists:
            log.info("sub-orchestration %s is already there", child.instance_id)

    async def tell_parent(self, child: Instance, link: Parent) -> None:
        if child.status == Status.COMPLETED:
            answer = event(
                EventType.SUB_ORCHESTRATION_COMPLETED, _now(), TaskScheduledId=link.task_id, Result=child.output
            )
        else:
            reason = json.loads(child.output or '""')
            answer = _sub_failed(link.task_id, child.name, str(reason))
        await self._answer_parent(link, answer)

    async def _answer_parent(self, link: Parent, answer: Event) -> None:
        parent = await self._store.get(link.instance_id)
        if parent is None or parent.execution_id != link.execution_id or parent.status.finished:
            return
        message = Message(kind=MessageKind.TASK, enqueued=_now(), event=answer, execution_id=link.execution_id)
        await self._post_surely(link.instance_id, message)
        self._wake(link.instance_id)


def why_unknown(name: str, known: Mapping[str, FunctionSpec], what: str) -> str | None:
    """What is wrong with the name of a function to call, in the words of the real extension; None: nothing is."""
    if name in known:
        return None
    return (
        f"The function '{name}' doesn't exist, is disabled, or is not {what}. "
        f"Additional info: the following are the known ones: {', '.join(repr(n) for n in sorted(known)) or 'none'}."
    )


def _task_failed(number: int, reason: str, details: str) -> Event:
    return event(EventType.TASK_FAILED, _now(), TaskScheduledId=number, Reason=reason, Details=details)


def _sub_failed(number: int, name: str, reason: str) -> Event:
    text = f"The sub-orchestrator function '{name}' failed: \"{reason}\""
    return event(
        EventType.SUB_ORCHESTRATION_FAILED, _now(), TaskScheduledId=number, Reason=text, Details=reason
    )


def _now() -> datetime:
    return datetime.now(UTC)
