"""An orchestration driven turn by turn, at times that are given, with the local host's own rules of what a turn is.

Every turn is replayed: the orchestrator must answer to the same history with the same words.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from local.host.durable.events import Event, EventType, event
from local.host.durable.ledger import read_ledger
from local.host.durable.model import Instance, Loaded, Message, MessageKind, Status
from local.host.durable.outcomes import judge_turn, orchestrator_input, parse_answer, parse_failure
from local.host.durable.turns import plan_turn
from tests.support.closing import GivenClock

STEPS_MAX = 100

Activity = Callable[[Any], Awaitable[Any]]


class DurableRun:
    def __init__(
        self,
        orchestrator: Callable[[str], str],
        activities: Mapping[str, Activity],
        *,
        clock: GivenClock,
        request: Any,
    ) -> None:
        self._orchestrator = orchestrator
        self._activities = activities
        self._clock = clock
        now = clock.now()
        self.instance = Instance(
            instance_id="pair-contoso~fabrikam",
            execution_id="1",
            name="coordinate_pair",
            version=None,
            status=Status.PENDING,
            created=now,
            updated=now,
            input=json.dumps(request),
        )
        self.history: list[Event] = []
        self.messages: list[Message] = []
        #: What the orchestrator was given and what it answered, turn by turn.
        self.turns: list[tuple[str, str]] = []
        #: Activities that ran, in order.
        self.ran: list[str] = []

    @property
    def output(self) -> Any:
        return None if self.instance.output is None else json.loads(self.instance.output)

    @property
    def custom_status(self) -> Any:
        return None if self.instance.custom_status is None else json.loads(self.instance.custom_status)

    @property
    def is_running(self) -> bool:
        return not self.instance.status.finished

    def fire_at(self) -> datetime | None:
        """When the timer fires that is waited for, if one is."""
        return read_ledger(self.history).next_timer()

    def raise_event(self, name: str, data: Any = None) -> None:
        """As the library's client does it: JSON inside JSON."""
        self._post(
            Message(kind=MessageKind.EVENT, enqueued=self._clock.now(), name=name, input=json.dumps(json.dumps(data)))
        )

    async def settle(self) -> None:
        """Everything that can happen without more time or events."""
        for _ in range(STEPS_MAX):
            if not self.turn() and not await self.run_activity():
                return
        raise AssertionError(f"still busy after {STEPS_MAX} steps: a hot loop")

    def turn(self) -> bool:
        """The next turn, if there is one."""
        now = self._clock.now()
        turn = plan_turn(Loaded(instance=self.instance, history=self.history, messages=self.messages), now)
        if turn is None:
            return False
        self.messages = [message for message in self.messages if message.key not in turn.consumed]
        if not turn.run:
            return True
        history = [*self.history, event(EventType.ORCHESTRATOR_STARTED, now), *turn.events]
        answer = self._answer(json.dumps(orchestrator_input(self.instance, history)))
        outcome = judge_turn(self.instance, history, turn.events, answer, now, lambda kind, name: None)
        self.history = [*history, *outcome.events]
        self.instance = replace(
            self.instance,
            status=outcome.status,
            output=outcome.output,
            custom_status=outcome.custom_status,
            updated=now,
        )
        return True

    def _answer(self, given: str) -> Any:
        try:
            said = self._orchestrator(given)
        except Exception as error:
            return parse_failure(str(error))
        assert said == self._orchestrator(given), "a replay answered differently"
        self.turns.append((given, said))
        return parse_answer(said)

    async def run_activity(self, *, lose_answer: bool = False) -> bool:
        """The next activity that was asked for, if there is one; its answer may get lost with its process."""
        answered = [message.event["TaskScheduledId"] for message in self.messages if message.event is not None]
        waiting = [
            one for one in read_ledger(self.history).open(EventType.TASK_SCHEDULED) if one["EventId"] not in answered
        ]
        if not waiting or not self.is_running:
            return False
        (task, *_) = waiting
        now, number = self._clock.now(), task["EventId"]
        self.ran.append(task["Name"])
        try:
            result = json.dumps(await self._activities[task["Name"]](json.loads(task["Input"])))
            done = event(EventType.TASK_COMPLETED, now, TaskScheduledId=number, Result=result)
        except Exception as error:
            done = event(EventType.TASK_FAILED, now, TaskScheduledId=number, Reason=str(error), Details="")
        if not lose_answer:
            self._post(Message(kind=MessageKind.TASK, enqueued=now, event=done, execution_id="1"))
        return True

    def _post(self, message: Message) -> None:
        self.messages.append(replace(message, key=f"{len(self.history):04}-{len(self.messages):04}"))
