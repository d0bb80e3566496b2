"""An outage rehearsed through the running app: break the primary, keep sending, heal, count what real receivers get."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.support.send_crash import CrashingPrimary
from tests.support.send_hosts import SendHost, send_hosts
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_journeys import (
    ENTITIES,
    QUEUES,
    SESSION_QUEUE,
    SUBSCRIPTION,
    TOPICS,
    Ledger,
    as_sent,
    create_entities,
    receive_all,
    send_all,
)
from tests.support.syphon_services import create_backlog

PING_S, REFRESH_S = 2.0, 0.5
#: How soon every entity is to be back: asserted where a run has the machine for itself.
BACK_S = PING_S + REFRESH_S + 1
SETTINGS = {
    "ENABLE_SYPHON": "true",
    "BACKLOG_QUEUE_COUNT": "3",
    "FAILOVER_INTERVAL": "PT0S",
    "PING_PRIMARY_INTERVAL": f"PT{PING_S:g}S",
    "STATE_REFRESH": f"PT{REFRESH_S}S",
    "PRIMARY_ATTEMPT_TIMEOUT": "PT2S",
}
FAULTS: dict[str, list[dict[str, Any]]] = {
    "refuse": [{"kind": "refuse"}],
    "black-hole": [{"kind": "black-hole"}],
    "reset": [{"kind": "reset"}],
    "internal error": [{"kind": "error"}],
    "disabled": [{"kind": "disable"}],
    "full": [{"kind": "full"}],
    "detached": [{"kind": "detach"}],
    "throttled": [{"kind": "throttle"}],
    "no token": [{"kind": "drop-cbs"}, {"kind": "reset"}],
    "answer lost": [{"kind": "lose-acknowledgement"}],
    "delay of 30 s": [{"kind": "delay", "delay_s": 30.0}],
}
#: The primary's broker is killed and started again with its data.
CRASH = "crash and restart"


#: A send whose answer never came may have arrived.
MAY_DUPLICATE = frozenset({"black-hole", "reset", "detached", "no token", "answer lost", "delay of 30 s", CRASH})


async def back_on_primary(host: SendHost, path: str) -> float:
    """When, in seconds from now, a send to this entity goes to the primary again."""
    started = time.monotonic()
    headers = {"BrokerProperties": '{"MessageId": "probe", "SessionId": "probe"}'}
    while True:
        answer = await host.send(path, b"probe", **headers)
        if answer.status_code == 201 and answer.headers["x-pair-route"] == "primary":
            return time.monotonic() - started
        assert time.monotonic() - started < 30, f"{path} does not return to the primary"
        await asyncio.sleep(0.05)


async def rehearse(pair: PairOnBroker, folder: Path, fault: str, count: int) -> tuple[Ledger, dict[str, float]]:
    if fault == CRASH:
        return await _rehearse_crash(pair, folder, count)
    create_entities(pair)

    async def break_it() -> None:
        for one in FAULTS[fault]:
            await pair.broker.inject(namespace="primary", **one)

    ledger, times = await _journey(pair, folder, count, break_it, pair.broker.heal)
    await receive_all(pair.primary.connection_string, ledger)
    ledger.received.pop("probe", None)
    return ledger, times


async def _rehearse_crash(pair: PairOnBroker, folder: Path, count: int) -> tuple[Ledger, dict[str, float]]:
    with CrashingPrimary(folder / "primary") as primary:
        topics = {path: SUBSCRIPTION for path in TOPICS}
        await asyncio.to_thread(primary.create, queues=QUEUES, session_queues=[SESSION_QUEUE], topics=topics)

        async def kill() -> None:
            await asyncio.to_thread(primary.kill)

        async def restart() -> None:
            await asyncio.to_thread(primary.start)

        trusted = _joined(folder / "authorities.pem", Path(primary.authority), Path(pair.broker.authority_file))
        settings = {"ServiceBusPrimary": primary.connection_string, "SSL_CERT_FILE": str(trusted)}
        ledger, times = await _journey(pair, folder, count, kill, restart, **settings)
        await receive_all(primary.connection_string, ledger)
    ledger.received.pop("probe", None)
    return ledger, times


def _joined(target: Path, *sources: Path) -> Path:
    target.write_text("".join(source.read_text(encoding="utf-8") for source in sources), encoding="utf-8")
    return target


async def _journey(
    pair: PairOnBroker,
    folder: Path,
    count: int,
    break_it: Callable[[], Awaitable[None]],
    heal: Callable[[], Awaitable[None]],
    **settings: str,
) -> tuple[Ledger, dict[str, float]]:
    queues = create_backlog(pair, 3, lock_seconds=20)
    ledger = Ledger()
    async with send_hosts(pair, folder, count=1, **SETTINGS, **settings) as (host,):
        await send_all(host, ledger, [f"before-{n}" for n in range(50)])
        await break_it()
        await send_all(host, ledger, [f"during-{n}" for n in range(count)])
        await heal()
        times = await asyncio.gather(*(back_on_primary(host, path) for path in ENTITIES))
        await send_all(host, ledger, [f"after-{n}" for n in range(50)])
        await until(lambda: not pair.in_backlog(), seconds=240, what="an empty backlog")
    assert [] == [queue for queue in queues if pair.secondary.core.queue(queue).dead_letters.message_count]
    return ledger, dict(zip(ENTITIES, times, strict=True))


def check_ledger(ledger: Ledger, *, may_duplicate: bool) -> None:
    assert set() == ledger.lost
    assert set() == set(ledger.received) - set(ledger.accepted)
    assert set() == ledger.astray
    problems = [
        problem
        for name, copies in ledger.received.items()
        for path, message in copies
        for problem in as_sent(name, path, message)
    ]
    assert [] == problems[:10]
    if not may_duplicate:
        assert set() == ledger.duplicates
