"""Closing, faulting and opening as callers over HTTP see it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.domain.pair import Side
from shared.paired_sender import PairedSender
from tests.support.closing import states_in
from tests.support.closing_hosts import app_hosts, factories_of, until
from tests.support.send_services import PairOnBroker


async def test_a_closed_pair_refuses_messages_and_says_how_to_open_it(pair: PairOnBroker, tmp_path: Path) -> None:
    pair.create_entities("orders")
    async with app_hosts(pair, tmp_path) as [host]:
        assert 201 == (await host.send("orders")).status_code
        await host.post("pair/primary/close", {"reason": "maintenance"})
        assert 201 == (await host.send("orders")).status_code, "one side is down; the pair is not"
        await host.post("pair/secondary/close", {"reason": "maintenance"})
        refused = await host.send("orders")
        assert (409, "application/problem+json") == (refused.status_code, refused.headers["content-type"])
        problem = refused.json()
        assert "urn:paired-namespaces:problem:pair-closed" == problem["type"]
        assert "primary closed: maintenance; secondary closed: maintenance" in problem["detail"]
        assert "POST /api/pair/open" in problem["action"]
        await host.post("pair/open")
        assert 201 == (await host.send("orders")).status_code
    assert 3 == len(pair.in_primary("orders"))


async def test_the_status_shows_both_sides_and_how_the_coordination_stands(pair: PairOnBroker, tmp_path: Path) -> None:
    async with app_hosts(pair, tmp_path, PARTNER_GRACE="PT2S") as [host]:
        before = await host.status()
        assert (("open", "open"), "NotStarted") == (states_in(before), before["coordination"]["status"])
        await host.post("pair/secondary/fault", {"reason": "rehearsal", "by": "ann"})

        async def waiting() -> dict[str, Any] | None:
            status = await host.status()
            return status if status["coordination"]["status"] == "Running" else None

        during = await until(waiting, seconds=5, what="the coordination runs")
        factory = during["factories"]["secondary"]
        assert ("faulted", "rehearsal", "ann") == (factory["state"], factory["reason"], factory["by"])
        until_when = datetime.fromisoformat(during["coordination"]["waiting_until"])
        assert datetime.fromisoformat(factory["since"]) + timedelta(seconds=2) == until_when

        async def ended() -> dict[str, Any] | None:
            status = await host.status()
            return status if status["coordination"]["status"] == "Completed" else None

        after = await until(ended, seconds=10, what="the coordination ends")
        assert ("faulted", "faulted") == states_in(after)
        assert "The secondary side is faulted" in after["factories"]["primary"]["reason"]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("pair/tertiary/close", {}, 404, "no other"),
        ("pair/primary/fault", {}, 400, "A fault needs a reason"),
        ("pair/primary/fault", {"reason": "x" * 501}, 400, "at most 500"),
        ("pair/primary/close", {"reason": 1}, 400, "reason is not text"),
    ],
)
async def test_what_cannot_be_done_is_refused_and_changes_nothing(
    pair: PairOnBroker, tmp_path: Path, path: str, body: dict[str, Any], status: int, said: str
) -> None:
    async with app_hosts(pair, tmp_path) as [host]:
        answer = await host.client.post(f"/api/{path}", json=body)
        assert (status, "application/problem+json") == (answer.status_code, answer.headers["content-type"])
        assert said in answer.json()["detail"]
        assert ("open", "open") == states_in(await host.status())


@pytest.mark.parametrize("path", ["pair/primary/close", "pair/secondary/fault", "pair/open"])
async def test_only_an_admin_key_changes_the_pair(pair: PairOnBroker, tmp_path: Path, path: str) -> None:
    async with app_hosts(pair, tmp_path) as [host]:
        keys = json.loads((tmp_path / "host0" / "keys.json").read_text(encoding="utf-8"))
        for key in (keys["host"]["development"], "", "wrong"):
            answer = await host.client.post(f"/api/{path}", json={"reason": "x"}, headers={"x-functions-key": key})
            assert 401 == answer.status_code
        assert ("open", "open") == states_in(await host.status())


async def test_a_close_repeated_changes_nothing_and_keeps_the_first_reason(pair: PairOnBroker, tmp_path: Path) -> None:
    async with app_hosts(pair, tmp_path) as [host]:
        first = await host.post("pair/primary/close", {"reason": "first"})
        again = await host.post("pair/primary/fault", {"reason": "second"})
        assert (["primary"], []) == (first["changed"], again["changed"])
        assert first["factories"] == again["factories"]


@pytest.mark.timeout(90)
async def test_credentials_that_are_refused_fault_the_side_and_then_its_partner(
    pair: PairOnBroker, tmp_path: Path
) -> None:
    """Found by the app itself, while it sends: 502 for each caller until the pair is faulted, 409 from then on."""
    pair.create_entities("orders")
    async with app_hosts(pair, tmp_path, PARTNER_GRACE="PT1S") as [host], factories_of(pair) as look:
        first = await host.send("orders")
        assert 201 == first.status_code, first.text
        fault = await pair.broker.inject(kind="revoke", namespace="primary")
        answers: list[int] = []

        async def refused_for_good() -> bool:
            answers.append((await host.send("orders")).status_code)
            return answers[-1] == 409

        await until(refused_for_good, seconds=45, what="the pair is faulted")
        assert {502, 409} == set(answers)
        both = await look()
        assert ("the app itself", "partner coordination") == (both.primary.by, both.secondary.by)
        assert "refuses the app's credentials" in both.primary.reason
        assert both.secondary.since is not None
        assert both.primary.since is not None
        assert timedelta(seconds=1) <= both.secondary.since - both.primary.since < timedelta(seconds=2)
        await pair.broker.heal(fault)
        await host.post("pair/open", {"reason": "credentials are good again"})
        assert 201 == (await host.send("orders")).status_code


async def test_a_running_host_follows_up_what_another_program_faulted(pair: PairOnBroker, tmp_path: Path) -> None:
    """A program that only sends has no durable client; the guard's timer finds the side that is down."""
    async with app_hosts(pair, tmp_path, PARTNER_GRACE="PT0S") as [host], factories_of(pair) as look:
        async with PairedSender(pair.settings(), create_queues=False) as bus:
            await bus.runtime.closing.fault(Side.PRIMARY, reason="credentials refused", by="the app itself")
        answer = await host.client.post("/admin/functions/guard_pair", json={})
        assert 202 == answer.status_code

        async def faulted() -> bool:
            return (await look()).is_down

        await until(faulted, seconds=10, what="the partner is faulted")
