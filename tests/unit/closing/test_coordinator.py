"""Starting and waking the orchestration, while other processes do the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from functions import coordinator as module
from functions.coordination import written
from functions.coordinator import COORDINATE, TRIES_MAX, Coordinator
from shared.domain.pair import Side
from tests.support.closing import NOON, ClosingParts


@dataclass
class ScriptedClient:
    """A durable client on an instance in memory; `before` is what happens before each call, by its name."""

    status: str | None = None
    custom_status: Any = None
    calls: list[tuple[str, ...]] = field(default_factory=list)
    before: dict[str, Callable[[], None]] = field(default_factory=dict)

    def _called(self, *call: str) -> None:
        self.calls.append(call)
        self.before.pop(call[0], lambda: None)()

    async def get_status(self, instance_id: str) -> Any:
        self.before.pop("get_status", lambda: None)()
        if self.status is None:
            return None
        return SimpleNamespace(
            runtime_status=SimpleNamespace(value=self.status), custom_status=self.custom_status, last_updated_time=NOON
        )

    async def start_new(self, name: str, instance_id: str, request: Any) -> str:
        self._called("start", name, instance_id, str(request["grace_seconds"]))
        if self.status in ("Pending", "Running"):
            raise Exception(f"An Orchestration instance with the ID {instance_id} already exists.")
        self.status = "Pending"
        return instance_id

    async def raise_event(self, instance_id: str, name: str, data: Any) -> None:
        self._called("event", name)
        if self.status not in ("Pending", "Running"):
            raise Exception(f"Instance with ID {instance_id} is gone: either completed or failed")

    def becomes(self, status: str | None, custom_status: Any = None) -> Callable[[], None]:
        def change() -> None:
            self.status, self.custom_status = status, custom_status

        return change


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


@pytest.fixture
def coordinator(parts: ClosingParts, client: ScriptedClient, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    monkeypatch.setattr(module, "NOTICE_SECONDS_MAX", 0.3)
    monkeypatch.setattr(module, "NOTICE_POLL_S", 0.01)
    return Coordinator(client=client, closing=parts.closing, pair="contoso~fabrikam")


START = ("start", COORDINATE, "pair-contoso~fabrikam", "5.0")


@pytest.mark.parametrize("earlier", [None, "Completed", "Failed", "Terminated"])
async def test_a_change_starts_the_coordination_that_is_not_running(
    parts: ClosingParts, client: ScriptedClient, coordinator: Coordinator, earlier: str | None
) -> None:
    client.status = earlier
    await coordinator.look_after(await parts.closing.close(Side.PRIMARY, reason="", by=""))
    assert [START] == client.calls


async def test_nothing_is_started_where_nothing_is_owed(
    parts: ClosingParts, client: ScriptedClient, coordinator: Coordinator
) -> None:
    await coordinator.look_after()
    await parts.closing.close(Side.PRIMARY, reason="", by="")
    await coordinator.look_after(await parts.closing.close(Side.SECONDARY, reason="", by=""))
    await coordinator.look_after(await parts.closing.open(reason="", by=""))
    assert [] == client.calls


async def test_a_running_coordination_is_woken_and_seen_to_know(
    parts: ClosingParts, client: ScriptedClient, coordinator: Coordinator
) -> None:
    client.status = "Running"
    changed = await parts.closing.close(Side.PRIMARY, reason="", by="")
    client.before["event"] = client.becomes("Running", {"factories": written(changed.after)})
    await coordinator.look_after(changed)
    assert [("event", "primary-0-is-over")] == client.calls


async def test_one_that_ends_on_what_it_knew_before_is_followed_by_another(
    parts: ClosingParts, client: ScriptedClient, coordinator: Coordinator
) -> None:
    """It took the event and ended all the same: what it had read was older than the change."""
    client.status = "Running"
    changed = await parts.closing.close(Side.PRIMARY, reason="", by="")
    client.before["event"] = lambda: client.before.update(get_status=client.becomes("Completed"))
    await coordinator.look_after(changed)
    assert [("event", "primary-0-is-over"), START] == client.calls


async def test_one_that_ended_before_it_could_be_woken_is_followed_by_another(
    parts: ClosingParts, client: ScriptedClient, coordinator: Coordinator
) -> None:
    client.status = "Running"
    changed = await parts.closing.close(Side.PRIMARY, reason="", by="")
    client.before["event"] = client.becomes("Completed")
    await coordinator.look_after(changed)
    assert START == client.calls[-1]


async def test_a_start_that_another_process_was_faster_with_becomes_a_wake(
    parts: ClosingParts, client: ScriptedClient, coordinator: Coordinator
) -> None:
    changed = await parts.closing.close(Side.PRIMARY, reason="", by="")
    client.before["start"] = client.becomes("Running", {"factories": written(changed.after)})
    await coordinator.look_after(changed)
    assert [START, ("event", "primary-0-is-over")] == client.calls


async def test_opening_wakes_for_both_sides(
    parts: ClosingParts, client: ScriptedClient, coordinator: Coordinator
) -> None:
    await parts.closing.close(Side.PRIMARY, reason="", by="")
    client.status = "Running"
    client.before["event"] = client.becomes("Running")
    changed = await parts.closing.open(reason="", by="")
    client.custom_status = {"factories": written(changed.after)}
    await coordinator.look_after(changed)
    assert {("event", "primary-1-is-over"), ("event", "secondary-0-is-over")} == set(client.calls)


async def test_it_does_not_wait_forever_for_one_that_does_not_notice(
    parts: ClosingParts, client: ScriptedClient, coordinator: Coordinator
) -> None:
    client.status, client.custom_status = "Running", {"factories": written(parts.store.both)}
    await coordinator.look_after(await parts.closing.close(Side.PRIMARY, reason="", by=""))
    assert [("event", "primary-0-is-over")] == client.calls


async def test_the_guard_lets_a_running_one_be(
    parts: ClosingParts, client: ScriptedClient, coordinator: Coordinator
) -> None:
    client.status = "Running"
    await parts.closing.close(Side.PRIMARY, reason="", by="")
    await coordinator.look_after()
    assert [] == client.calls


async def test_a_start_that_fails_for_another_reason_is_told(
    parts: ClosingParts, client: ScriptedClient, coordinator: Coordinator
) -> None:
    async def fails(*_: Any) -> str:
        raise Exception("storage is away")

    client.start_new = fails  # type: ignore[method-assign]
    changed = await parts.closing.close(Side.PRIMARY, reason="", by="")
    with pytest.raises(Exception, match="storage is away"):
        await coordinator.look_after(changed)


async def test_starts_that_keep_crossing_are_given_up_and_left_to_the_guard(
    parts: ClosingParts, client: ScriptedClient, coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    async def crossed(*_: Any) -> str:
        client.calls.append(("start",))
        client.status = "Running"
        raise Exception("already exists")

    async def gone(*_: Any) -> None:
        client.status = "Completed"
        raise Exception("gone")

    client.start_new, client.raise_event = crossed, gone  # type: ignore[method-assign]
    await coordinator.look_after(await parts.closing.close(Side.PRIMARY, reason="", by=""))
    assert 0 < len(client.calls) <= TRIES_MAX
    assert "the guard will look after it" in caplog.text


async def test_the_state_is_told_for_people(
    parts: ClosingParts, client: ScriptedClient, coordinator: Coordinator
) -> None:
    assert "NotStarted" == (await coordinator.state()).status
    await parts.closing.close(Side.PRIMARY, reason="", by="")
    client.status = "Running"
    running = await coordinator.state()
    assert ("Running", parts.clock.now() + parts.closing.grace) == (running.status, running.waiting_until)
    client.status = "Completed"
    ended = await coordinator.state()
    assert ("Completed", None, NOON) == (ended.status, ended.waiting_until, ended.ended_at)
