"""The engine and the durable library must agree on every task's number, whatever the order of completions.

Orchestrators run through the library itself; storage is a list. Completions come in random order and in random
lots. Were a number wrong, the library would warn of a duplicate completion (an error here), hang, or mix results up.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Generator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import azure.durable_functions as df
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local.host.durable.events import Event, EventType, event
from local.host.durable.ledger import read_ledger
from local.host.durable.model import Instance, Loaded, Message, MessageKind, Status
from local.host.durable.outcomes import judge_turn, orchestrator_input, parse_answer, parse_failure
from local.host.durable.turns import Turn, plan_turn

START = datetime(2026, 11, 18, tzinfo=UTC)
TURNS_MAX = 500
Orchestrator = Callable[[df.DurableOrchestrationContext], Generator[Any, Any, Any]]


class Engine:
    """Turns of one instance, with activities that answer when the test says so."""

    def __init__(self, orchestrator: Orchestrator, value: Any, rng: random.Random) -> None:
        self.handle = df.Orchestrator.create(orchestrator)
        self.instance = Instance(
            instance_id="i", execution_id="e0", name="o", version=None, status=Status.PENDING,
            created=START, updated=START, input=json.dumps(value),
        )  # fmt: skip
        self.history: list[Event] = []
        self.messages: list[Message] = []
        self.answered: set[tuple[str, int]] = set()
        self.now = START
        self.rng = rng
        self.fails: dict[str, int] = {}
        self.calls: list[str] = []

    def run(self) -> Any:
        """Until the orchestration is over; its output, or an error."""
        for _ in range(TURNS_MAX):
            loaded = Loaded(instance=self.instance, history=self.history, messages=self.messages)
            turn = plan_turn(loaded, self.now)
            if turn is not None:
                self.take(turn)
            elif self.instance.status.finished:
                return json.loads(self.instance.output or "null")
            else:
                self.go_on()
        raise AssertionError("the orchestration does not come to an end")

    def take(self, turn: Turn) -> None:
        self.messages = [message for message in self.messages if message.key not in turn.consumed]
        if not turn.run:
            return
        history = [*self.history, event(EventType.ORCHESTRATOR_STARTED, self.now), *turn.events]
        text = json.dumps(orchestrator_input(self.instance, history))
        try:
            answer = parse_answer(self.handle(text))
        except Exception as error:
            answer = parse_failure(str(error))
        outcome = judge_turn(self.instance, history, turn.events, answer, self.now, lambda kind, name: None)
        self.history = [*history, *outcome.events]
        self.instance = replace(self.instance, status=outcome.status, output=outcome.output)
        if outcome.continues_as_new:
            number = int(self.instance.execution_id[1:]) + 1
            self.instance = replace(self.instance, execution_id=f"e{number}", input=outcome.continue_with)
            self.history = []

    def go_on(self) -> None:
        """Answer some of what is open, in any order; else let the next timer fire."""
        ledger = read_ledger(self.history)
        execution = self.instance.execution_id
        open_ = [
            item
            for kind in (EventType.TASK_SCHEDULED, EventType.SUB_ORCHESTRATION_CREATED)
            for item in ledger.open(kind)
            if (execution, item["EventId"]) not in self.answered
        ]
        due = ledger.next_timer()
        if not open_ and due is not None:
            self.now = max(self.now, due)
            return
        assert open_, "nothing is open and nothing will fire: the orchestration is stuck"
        for item in self.rng.sample(open_, self.rng.randint(1, len(open_))):
            self.answered.add((execution, item["EventId"]))
            self.post(self.answer(item))

    def answer(self, item: Event) -> Event:
        sub = item["EventType"] == EventType.SUB_ORCHESTRATION_CREATED
        number, name = item["EventId"], item["Name"]
        self.calls.append(name)
        if self.fails.get(name, 0) > 0:
            self.fails[name] -= 1
            kind = EventType.SUB_ORCHESTRATION_FAILED if sub else EventType.TASK_FAILED
            return event(kind, self.now, TaskScheduledId=number, Reason=f"{name} failed", Details="on purpose")
        kind = EventType.SUB_ORCHESTRATION_COMPLETED if sub else EventType.TASK_COMPLETED
        result = json.dumps(f"{name}({json.loads(item['Input'] or 'null')})")
        return event(kind, self.now, TaskScheduledId=number, Result=result)

    def post(self, item: Event) -> None:
        self.now += timedelta(milliseconds=1)
        self.messages.append(
            Message(
                kind=MessageKind.TASK, enqueued=self.now, key=f"m{len(self.answered)}", event=item,
                execution_id=self.instance.execution_id,
            )
        )  # fmt: skip

    def raise_event(self, name: str, value: Any) -> None:
        self.now += timedelta(milliseconds=1)
        key = f"event {self.now.isoformat()}"
        self.messages.append(
            Message(kind=MessageKind.EVENT, enqueued=self.now, key=key, name=name, input=json.dumps(value))
        )


RETRY = df.RetryOptions(first_retry_interval_in_milliseconds=50, max_number_of_attempts=3)


def fan_of_everything(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Plain and retried activities and sub-orchestrations side by side, then again, then in a row."""
    first = yield context.task_all(
        [
            context.call_activity_with_retry("r1", RETRY, 1),
            context.call_activity("a1", 2),
            context.call_sub_orchestrator_with_retry("s1", RETRY, 3),
            context.call_activity_with_retry("r2", RETRY, 4),
            context.call_sub_orchestrator("s2", 5),
        ]
    )
    yield context.create_timer(context.current_utc_datetime + timedelta(seconds=1))
    second = yield context.task_all([context.call_activity("a2", n) for n in range(3)])
    third = yield context.call_activity_with_retry("r3", RETRY, 6)
    fourth = yield context.call_activity("a3", 7)
    return [first, second, third, fourth]


@settings(max_examples=80)
@given(
    seed=st.integers(0, 2**32),
    fails=st.fixed_dictionaries({name: st.integers(0, 2) for name in ("r1", "r2", "r3", "s1")}),
)
def test_numbers_agree_whatever_fails_and_whatever_comes_first(seed: int, fails: dict[str, int]) -> None:
    engine = Engine(fan_of_everything, None, random.Random(seed))
    engine.fails = dict(fails)
    expected = [
        ["r1(1)", "a1(2)", "s1(3)", "r2(4)", "s2(5)"],
        ["a2(0)", "a2(1)", "a2(2)"],
        "r3(6)",
        "a3(7)",
    ]
    assert expected == engine.run()
    assert {name: count + 1 for name, count in fails.items()} == {name: engine.calls.count(name) for name in fails}


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_winners_are_taken_one_by_one_and_losers_are_not_asked_for_twice(seed: int) -> None:
    def race(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
        tasks = [context.call_activity(f"t{n}", n) for n in range(4)]
        winners = []
        while tasks:
            winner = yield context.task_any(tasks)
            tasks.remove(winner)
            winners.append(winner.result)
        last = yield context.call_activity("last", None)
        return [sorted(winners), last]

    engine = Engine(race, None, random.Random(seed))
    assert [["t0(0)", "t1(1)", "t2(2)", "t3(3)"], "last(None)"] == engine.run()
    assert sorted(engine.calls) == ["last", "t0", "t1", "t2", "t3"]


@pytest.mark.filterwarnings("ignore:Potential duplicate Task completion")
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), values=st.lists(st.integers(0, 9), max_size=12))
def test_events_that_wait_their_turn_outlive_continue_as_new(seed: int, values: list[int]) -> None:
    """One that arrives while nobody waits for it goes with its execution, as in the real extension."""

    def counter(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
        total = context.get_input()
        value = yield context.wait_for_external_event("add")
        if value == "end":
            return total
        context.continue_as_new(total + value)

    engine = Engine(counter, 0, random.Random(seed))
    for value in (*values, "end"):
        engine.raise_event("add", value)
    assert sum(values) == engine.run()


def test_a_long_timer_is_split_and_still_fires_on_time() -> None:
    def wait(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
        yield context.create_timer(context.current_utc_datetime + timedelta(days=10))
        result = yield context.call_activity("after", None)
        return result

    engine = Engine(wait, None, random.Random(1))
    assert "after(None)" == engine.run()
    assert timedelta(days=10) <= engine.now - START < timedelta(days=10, seconds=1)
    timers = [item for item in engine.history if item["EventType"] == EventType.TIMER_CREATED]
    assert len(timers) > 1


def test_retries_that_are_used_up_fail_the_orchestration() -> None:
    def once(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
        yield context.call_activity_with_retry("r", RETRY, 1)

    engine = Engine(once, None, random.Random(1))
    engine.fails = {"r": 99}
    assert "Orchestrator function 'o' failed: r failed" in engine.run()
    assert ["r", "r", "r"] == engine.calls


def test_changed_code_is_recognised() -> None:
    name = "before"

    def changing(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
        yield context.call_activity(name, None)
        yield context.call_activity("second", None)

    engine = Engine(changing, None, random.Random(1))
    turn = plan_turn(Loaded(instance=engine.instance, history=[], messages=[]), engine.now)
    assert turn is not None
    engine.take(turn)
    name = "after"
    assert "Non-Deterministic workflow detected" in engine.run()


def test_answers_that_come_twice_or_too_late_are_dropped() -> None:
    def chain(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
        first = yield context.call_activity("a", 1)
        second = yield context.call_activity("b", 2)
        return [first, second]

    engine = Engine(chain, None, random.Random(1))
    stray = event(EventType.TASK_COMPLETED, START, TaskScheduledId=0, Result='"again"')
    for number in range(3):
        engine.messages.append(
            Message(kind=MessageKind.TASK, enqueued=START + timedelta(hours=number), key=f"late{number}",
                    event=stray, execution_id="another" if number == 1 else "e0")
        )  # fmt: skip
    output = engine.run()
    assert output in (["a(1)", "b(2)"], ["again", "b(2)"])
