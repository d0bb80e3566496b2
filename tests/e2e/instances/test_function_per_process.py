"""Nothing relies on memory that functions share: with a process for each of them, the whole story holds.

A Flex Consumption plan gives every Service Bus function and every timer instances of their own, all HTTP functions
together theirs, and all durable functions together theirs. Here HTTP functions are taken apart as well.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shared.adapters.factories import TableFactoryStore
from shared.adapters.tables import TableStateStore
from shared.domain.factory import Cause, Factories, FactoryState, fault
from shared.domain.pair import Side
from tests.support.closing import states_in
from tests.support.closing_hosts import until as until_async
from tests.support.function_instances import DURABLE, FunctionInstances, function_instances
from tests.support.send_services import PairOnBroker, until

QUEUES = 2
SETTINGS = {
    "ENABLE_SYPHON": "true",
    "BACKLOG_QUEUE_COUNT": str(QUEUES),
    "FAILOVER_INTERVAL": "PT0S",
    "PING_PRIMARY_INTERVAL": "PT1S",
    # A refused connection fails at once; on a machine with more to do, a first send takes longer than usual.
    "PRIMARY_ATTEMPT_TIMEOUT": "PT15S",
    "PARTNER_GRACE": "PT1S",
}
#: Generous: many processes share few cores.
PATIENCE_S = 60.0
MESSAGES = 20


class Story:
    """A sender that keeps trying, and what it was told."""

    def __init__(self, pair: PairOnBroker, app: FunctionInstances) -> None:
        self.pair, self.app = pair, app
        self.accepted: Counter[str] = Counter()
        self.routes: Counter[str] = Counter()

    async def send(self, name: str) -> str:
        headers = {"BrokerProperties": json.dumps({"MessageId": name})}

        async def attempt() -> str | None:
            answer = await self.app.call("send", "POST", "bus/orders/messages", content=b"x", headers=headers)
            # Refused for a moment by an instance that has not seen yet that the pair is open again.
            assert answer.status_code in (201, 503, 409), answer.text
            return answer.headers["x-pair-route"] if answer.status_code == 201 else None

        route = await until_async(attempt, seconds=PATIENCE_S, what=f"{name} is accepted")
        self.accepted[name] += 1
        self.routes[route] += 1
        return route

    async def send_until(self, route: str, prefix: str) -> None:
        """Every message counts, on whichever way it went."""
        number = 0

        async def attempt() -> bool:
            nonlocal number
            number += 1
            return await self.send(f"{prefix}-{number}") == route

        await until_async(attempt, seconds=PATIENCE_S, what=f"sends go to the {route}")

    async def status(self) -> dict[str, Any]:
        return dict((await self.app.call("pair_status", "GET", "pair")).json())

    async def availability(self) -> str:
        entities = {entity["path"]: entity for entity in (await self.status())["entities"]}
        return str(entities.get("orders", {}).get("availability"))

    async def becomes(self, state: str) -> None:
        async def look() -> bool:
            return await self.availability() == state

        await until_async(look, seconds=PATIENCE_S, what=f"another instance sees orders {state}")

    async def factories_become(self, primary: str, secondary: str) -> None:
        async def look() -> bool:
            return states_in(await self.status()) == (primary, secondary)

        await until_async(look, seconds=PATIENCE_S, what=f"the factories are {primary} and {secondary}")

    async def refuses(self) -> None:
        async def look() -> bool:
            answer = await self.app.call("send", "POST", "bus/orders/messages", content=b"x")
            assert answer.status_code in (201, 409), answer.text
            if answer.status_code == 201:
                self.accepted["unnamed"] += 1
            return answer.status_code == 409

        await until_async(look, seconds=PATIENCE_S, what="sends are refused")

    async def drained(self) -> None:
        await until(lambda: not self.pair.in_backlog(), seconds=PATIENCE_S, what="an empty backlog")

    async def post(self, function: str, path: str, body: dict[str, str] | None = None) -> None:
        answer = await self.app.call(function, "POST", path, json=body or {})
        assert 200 == answer.status_code, answer.text


@pytest.mark.timeout(400)
async def test_the_whole_story_holds_with_a_process_for_each_function(pair: PairOnBroker, tmp_path: Path) -> None:
    pair.create_entities("orders", backlog=QUEUES)
    async with function_instances(tmp_path, pair.app_settings(**SETTINGS)) as app:
        assert app.groups == await app.listening()
        assert len(app.groups) == len(app.pids)
        assert {"send", "pair_status", "ping_primary", "guard_pair", "syphon_0", "syphon_1", DURABLE} <= set(app.groups)
        story = Story(pair, app)
        await an_outage(story)
        await a_rehearsal(story)
        await a_close(story)
        await a_fault_that_only_the_guard_finds(story)
        await story.drained()
    arrived = Counter(str(message.content.message_id) for message in pair.in_primary("orders"))
    named = {name: count for name, count in story.accepted.items() if name != "unnamed"}
    assert {} == {name: count for name, count in named.items() if arrived[name] != count}
    assert sum(story.accepted.values()) == arrived.total()
    assert story.routes["backlog"] >= MESSAGES


async def an_outage(story: Story) -> None:
    """Sent by one process, seen by another, ended by a third's ping, drained by two more."""
    assert "primary" == await story.send("before")
    await story.pair.broker.inject(namespace="primary", kind="refuse")
    for number in range(MESSAGES):
        assert "backlog" == await story.send(f"during-{number}")
    await story.becomes("unavailable")
    assert MESSAGES == len(story.pair.in_backlog("orders"))
    await story.pair.broker.heal()
    await story.send_until("primary", "after")
    await story.becomes("available")
    await story.drained()


async def a_rehearsal(story: Story) -> None:
    await story.post("mark_entity", "entities/orders/unavailable?reason=rehearsal")
    await story.send_until("backlog", "rehearsed")
    await story.post("mark_entity", "entities/orders/healthy")
    await story.send_until("primary", "rehearsed-after")
    await story.drained()


async def a_close(story: Story) -> None:
    """Asked for in one process, coordinated in another, obeyed by the rest."""
    await story.post("close_side", "pair/primary/close", {"reason": "maintenance"})
    await story.factories_become("closed", "faulted")
    await story.refuses()
    await story.post("open_pair", "pair/open")
    await story.factories_become("open", "open")
    await story.send_until("primary", "opened")
    await story.post("fault_side", "pair/secondary/fault", {"reason": "rehearsal"})
    await story.factories_become("faulted", "faulted")
    await story.refuses()
    await story.post("open_pair", "pair/open")
    await story.send_until("primary", "opened-again")


async def a_fault_that_only_the_guard_finds(story: Story) -> None:
    """A process that faults a side and has no durable client, or dies before it used it, leaves it to the guard."""
    settings = story.pair.settings(**SETTINGS)
    table = TableStateStore(settings.state_storage, settings.pair.name)

    cause = Cause(reason="found by the app itself", by="a test", at=datetime.now(UTC))

    def fault_primary(both: Factories) -> Factories:
        return both.having(Side.PRIMARY, fault(both.primary, cause))

    before, after = await TableFactoryStore(table).change(fault_primary)
    await table.close()
    assert (FactoryState.OPEN, FactoryState.FAULTED) == (before.primary.state, after.primary.state)
    await story.app.run_timer("guard_pair")
    await story.factories_become("faulted", "faulted")
    await story.post("open_pair", "pair/open")
    await story.send_until("primary", "at-last")
