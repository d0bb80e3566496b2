"""Both sides or neither: the whole app on the local host, closed, faulted, killed and opened in real time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from shared.domain.factory import Factories
from shared.domain.pair import Side
from shared.paired_sender import PairedSender
from tests.support.closing import shown, states_in
from tests.support.closing_hosts import AppHost, app_hosts, factories_of, until
from tests.support.send_services import PairOnBroker
from tests.support.syphon_services import count_operations, never_striking_fault

GRACE_S, LATEST_S = 5.0, 6.0
#: Three pings would be due in that time, and a message that comes back at once would come hundreds of times.
WATCHED_S = 3.5
HELD_OPERATIONS_MAX = 30
SHORT = {"PARTNER_GRACE": "PT1S"}
DOWN = {"close": "closed", "fault": "faulted"}
Look = Callable[[], Awaitable[Factories]]


def by_side(first: Side, of_first: str, of_other: str) -> tuple[str, str]:
    return (of_first, of_other) if first is Side.PRIMARY else (of_other, of_first)


async def states_become(look: Look, expected: tuple[str, str], *, seconds: float) -> Factories:
    async def as_expected() -> Factories | None:
        both = await look()
        return both if shown(both) == expected else None

    return await until(as_expected, seconds=seconds, what=f"factories {expected}")


async def coordination_ends(host: AppHost, *, seconds: float = 15) -> str:
    async def ended() -> str | None:
        status = str((await host.coordination()).get("runtimeStatus"))
        return status if status not in ("Pending", "Running") else None

    return await until(ended, seconds=seconds, what="the coordination ends")


async def test_in_real_time_the_partner_is_faulted_after_five_and_before_six_seconds(
    pair: PairOnBroker, tmp_path: Path
) -> None:
    async with app_hosts(pair, tmp_path) as [host], factories_of(pair) as look:
        started = time.monotonic()
        answer = await host.post("pair/primary/close", {"reason": "maintenance", "by": "ann"})
        closed = time.monotonic()
        assert (["primary"], ("closed", "open")) == (answer["changed"], states_in(answer))
        assert answer["coordination"]["waiting_until"] is not None
        both = await states_become(look, ("closed", "faulted"), seconds=10)
        ended = time.monotonic()
        assert (True, True) == (ended - started >= GRACE_S, ended - closed <= LATEST_S)
        assert both.primary.since is not None
        assert both.secondary.since is not None
        waited = both.secondary.since - both.primary.since
        assert timedelta(seconds=GRACE_S) <= waited < timedelta(seconds=LATEST_S)
        assert "The primary side is closed and this side did not follow within 5 s." in both.secondary.reason
        assert "Completed" == await coordination_ends(host)


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("verb", ["close", "fault"])
async def test_a_partner_that_does_not_follow_is_faulted(
    pair: PairOnBroker, tmp_path: Path, verb: str, side: Side
) -> None:
    async with app_hosts(pair, tmp_path, **SHORT) as [host], factories_of(pair) as look:
        await host.post(f"pair/{side.value}/{verb}", {"reason": "a reason"})
        both = await states_become(look, by_side(side, DOWN[verb], "faulted"), seconds=10)
        assert f"The {side.value} side is {DOWN[verb]}" in both.of(side.partner).reason
        assert "Completed" == await coordination_ends(host)


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("verb", ["close", "fault"])
async def test_a_partner_that_follows_within_the_grace_is_not_faulted(
    pair: PairOnBroker, tmp_path: Path, verb: str, side: Side
) -> None:
    async with app_hosts(pair, tmp_path) as [host], factories_of(pair) as look:
        await host.post(f"pair/{side.value}/{verb}", {"reason": "one"})
        answer = await host.post(f"pair/{side.partner.value}/{verb}", {"reason": "other"})
        assert "Completed" == await coordination_ends(host, seconds=GRACE_S)
        both = await look()
        assert (DOWN[verb], DOWN[verb]) == shown(both) == states_in(answer)
        assert ("one", "other") == (both.of(side).reason, both.of(side.partner).reason)


async def test_both_sides_closed_at_once_from_two_processes(pair: PairOnBroker, tmp_path: Path) -> None:
    async with app_hosts(pair, tmp_path, count=2, **SHORT) as [one, other], factories_of(pair) as look:
        for verb in ("close", "fault"):
            await asyncio.gather(
                one.post(f"pair/primary/{verb}", {"reason": "from one"}),
                other.post(f"pair/secondary/{verb}", {"reason": "from the other"}),
            )
            await coordination_ends(one)
            both = await look()
            assert (DOWN[verb], DOWN[verb]) == shown(both)
            assert ("from one", "from the other") == (both.primary.reason, both.secondary.reason)
            await one.post("pair/open")


async def test_one_side_closed_by_two_processes_at_once_is_coordinated_once(pair: PairOnBroker, tmp_path: Path) -> None:
    async with app_hosts(pair, tmp_path, count=2, **SHORT) as [one, other], factories_of(pair) as look:
        answers = await asyncio.gather(*(host.post("pair/primary/close") for host in (one, other, one, other)))
        assert 1 == sum(len(answer["changed"]) for answer in answers)
        both = await states_become(look, ("closed", "faulted"), seconds=10)
        assert "Completed" == await coordination_ends(other)
        assert (1, 1) == (both.primary.version, both.secondary.version)
        assert 1 == sum(host.log().count("secondary side: open -> faulted") for host in (one, other))


@pytest.mark.parametrize("away_s", [0.0, 3.0])
async def test_a_host_killed_within_the_grace_faults_the_partner_once_after_its_restart(
    pair: PairOnBroker, tmp_path: Path, away_s: float
) -> None:
    """Back while the grace still runs, and back after its end."""
    async with app_hosts(pair, tmp_path, PARTNER_GRACE="PT3S") as [host], factories_of(pair) as look:
        await host.post("pair/primary/close", {"reason": "maintenance"})
        await host.kill()
        if away_s:
            since = (await look()).primary.since
            assert since is not None
            await until(lambda: _is_past(since.timestamp() + away_s), seconds=10, what="the grace is over")
        assert ("closed", "open") == shown(await look())
        await host.start()
        both = await states_become(look, ("closed", "faulted"), seconds=10)
        assert "Completed" == await coordination_ends(host)
        assert (1, 1) == (both.primary.version, both.secondary.version)
        assert 1 == host.log().count("secondary side: open -> faulted")


async def _is_past(moment: float) -> bool:
    return time.time() > moment


async def test_a_side_that_went_down_with_nobody_to_start_the_coordination_is_found_at_the_next_start(
    pair: PairOnBroker, tmp_path: Path
) -> None:
    """The process may end between the two, and a program that only sends has no durable client at all."""
    async with PairedSender(pair.settings(), create_queues=False) as bus:
        await bus.runtime.closing.fault(Side.SECONDARY, reason="credentials refused", by="the app itself")
    async with app_hosts(pair, tmp_path, **SHORT) as [host], factories_of(pair) as look:
        await states_become(look, ("faulted", "faulted"), seconds=10)
        assert "Completed" == await coordination_ends(host)


async def test_the_history_holds_no_secret_and_nothing_people_wrote(pair: PairOnBroker, tmp_path: Path) -> None:
    async with app_hosts(pair, tmp_path, **SHORT) as [host], factories_of(pair) as look:
        await host.post("pair/primary/fault", {"reason": "private reason", "by": "private name"})
        await states_become(look, ("faulted", "faulted"), seconds=10)
        await coordination_ends(host)
        history = await host.history()
        key = pair.primary.connection_string.partition("SharedAccessKey=")[2]
        secrets = [key, "SharedAccessKey", "AccountKey", "private", "x-functions-key", "code="]
        assert "fault_partner" in history
        assert [] == [secret for secret in secrets if secret in history]
        assert key not in host.log()


@pytest.mark.timeout(180)
async def test_opened_again_pings_sends_and_the_drain_go_on_and_nothing_was_lost(
    pair: PairOnBroker, tmp_path: Path
) -> None:
    pair.create_entities("orders")
    app = {"ENABLE_SYPHON": "true", "PING_PRIMARY_INTERVAL": "PT1S", "FAILOVER_INTERVAL": "PT0S"}
    settings = pair.settings(FAILOVER_INTERVAL="PT0S", PRIMARY_ATTEMPT_TIMEOUT="PT1S")
    async with (
        app_hosts(pair, tmp_path, **app) as [host],
        PairedSender(settings, create_queues=False) as bus,
    ):
        outage = await pair.broker.inject(kind="refuse", namespace="primary")
        ids = [(await bus.send("orders", f"message {number}")).message_ids[0] for number in range(20)]
        assert 20 == len(pair.in_backlog("orders"))
        await host.post("pair/primary/close", {"reason": "rehearsal"})
        await host.post("pair/secondary/close", {"reason": "rehearsal"})
        await pair.broker.heal(outage)
        for namespace in ("primary", "secondary"):
            await never_striking_fault(pair, namespace)
        with count_operations(pair, "primary") as to_primary, count_operations(pair, "secondary") as to_secondary:
            closed_at = time.time()
            await until(
                lambda: _is_past(closed_at + WATCHED_S), seconds=10, what="time has passed in which nothing happens"
            )
            assert (20, []) == (len(pair.in_backlog("orders")), pair.in_primary("orders")), "nothing moves while closed"
            assert 0 == to_primary.total, "no ping, no send"
            assert to_secondary.total <= HELD_OPERATIONS_MAX, "what is held costs a constant, not a hot loop"

            await host.post("pair/open", {"reason": "rehearsal is over"})
            await until(lambda: _all_in_primary(pair, ids), seconds=60, what="the backlog is delivered")
            await until(lambda: _backlog_is_empty(pair), seconds=30, what="the backlog is empty")
            assert (True, True) == (to_primary.total > 0, to_secondary.total > 0), "the counts see what happens"
        sent = await bus.send("orders", "after the outage")
        assert "primary" == sent.via.value


async def _backlog_is_empty(pair: PairOnBroker) -> bool:
    return not pair.in_backlog()


async def _all_in_primary(pair: PairOnBroker, ids: list[str]) -> bool:
    return set(ids) <= {str(message.content.message_id) for message in pair.in_primary("orders")}
