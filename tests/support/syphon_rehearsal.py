"""An outage rehearsed through the running app: break the primary, keep sending, heal, count what real receivers get."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from tests.support.send_hosts import SendHost, send_hosts
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_journeys import ENTITIES, Ledger, as_sent, create_entities, receive_all, send_all
from tests.support.syphon_services import create_backlog

PING_S, REFRESH_S = 2.0, 0.5
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
}


#: A send whose answer never came may have arrived.
MAY_DUPLICATE = frozenset({"black-hole", "reset", "detached", "no token"})


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
    create_entities(pair)
    queues = create_backlog(pair, 3, lock_seconds=20)
    ledger = Ledger()
    async with send_hosts(pair, folder, count=1, **SETTINGS) as (host,):
        await send_all(host, ledger, [f"before-{n}" for n in range(50)])
        for one in FAULTS[fault]:
            await pair.broker.inject(namespace="primary", **one)
        await send_all(host, ledger, [f"during-{n}" for n in range(count)])
        await pair.broker.heal()
        times = await asyncio.gather(*(back_on_primary(host, path) for path in ENTITIES))
        await send_all(host, ledger, [f"after-{n}" for n in range(50)])
        await until(lambda: not pair.in_backlog(), seconds=240, what="an empty backlog")
    await receive_all(pair, ledger)
    ledger.received.pop("probe", None)
    assert [] == [queue for queue in queues if pair.secondary.core.queue(queue).dead_letters.message_count]
    return ledger, dict(zip(ENTITIES, times, strict=True))


def check_ledger(ledger: Ledger, times: dict[str, float], *, may_duplicate: bool) -> None:
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
    assert max(times.values()) <= PING_S + REFRESH_S + 1, times
