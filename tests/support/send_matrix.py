"""One cell of the fault matrix: fifty senders, a fault in their midst, and a ledger of what became of every message."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from azure.servicebus import ServiceBusMessage

from shared.domain.availability import Event, Route, Unavailable
from shared.domain.durations import format_duration
from shared.domain.pair import EntityPath
from shared.errors import PairingError, SendError
from shared.paired_sender import PairedSender
from tests.support.send_crash import CrashingPrimary
from tests.support.send_services import PairOnBroker

ORDERS, OTHERS = EntityPath("orders"), EntityPath("others")
SENDERS = 50
SEND_DEADLINE_S = 10.0
#: Well above the second that the SDK takes to tell of refused credentials, and what a busy machine adds to it.
ATTEMPT_S = 3.0
PAUSE_S = 0.4
#: A busy machine wakes a task a little late; the deadline itself is not stretched by it.
SLACK_S = 0.5
WARM_S = 1.0
LOOK_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong with the primary; faults of an entity leave the others alone."""

    name: str
    spec: Mapping[str, object]
    #: The service's fault, so that failover engages.
    fails_over: bool = True
    #: Attempts can end without an answer, so that a message may be there twice.
    loses_answers: bool = False
    spares_others: bool = True


@dataclass(frozen=True, kw_only=True)
class Config:
    interval: timedelta
    divert: bool

    @property
    def seconds(self) -> float:
        """How long the fault lasts: until after failover, attempts under way included."""
        return self.interval.total_seconds() + ATTEMPT_S + 1.5


@dataclass
class Ledger:
    """Every call and how it ended."""

    accepted: dict[str, Route] = field(default_factory=dict)
    possible_duplicates: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    indefinite: set[str] = field(default_factory=set)
    longest_s: float = 0.0

    async def send(self, bus: PairedSender, path: str, message_id: str) -> None:
        started = time.monotonic()
        try:
            sent = await bus.send(path, ServiceBusMessage(b"x" * 100, message_id=message_id))
        except PairingError as error:
            self.refused[message_id] = type(error).__name__
            if isinstance(error, SendError) and error.indefinite:
                self.indefinite.add(message_id)
        else:
            self.accepted[message_id] = sent.via
            if sent.possible_duplicate:
                self.possible_duplicates.add(message_id)
        self.longest_s = max(self.longest_s, time.monotonic() - started)


@dataclass(kw_only=True)
class Row:
    """What one cell showed, and what was wrong with it."""

    fault: str
    config: Config
    accepted: int = 0
    primary: int = 0
    backlog: int = 0
    refused: int = 0
    duplicates: int = 0
    longest_s: float = 0.0
    problems: list[str] = field(default_factory=list)
    #: What was wrong and may be the machine's doing: attempts have their time, whoever uses it.
    late: list[str] = field(default_factory=list)
    #: By how much the machine woke a task too late, at worst.
    lag_s: float = 0.0

    @property
    def is_starved(self) -> bool:
        """Nothing can be said of what depends on time."""
        return bool(self.late) and self.lag_s > SLACK_S

    def text(self) -> str:
        divert = "on" if self.config.divert else "off"
        return (
            f"{self.fault:<24}{self.config.interval.total_seconds():>5.0f} s  {divert:<7}{self.accepted:>8}"
            f"{self.primary:>9}{self.backlog:>9}{self.refused:>9}{self.duplicates:>7}{self.longest_s:>10.2f} s"
            f"  {'; '.join([*self.problems, *self.late]) or 'ok'}"
        )


HEADING = (
    f"{'fault on the primary':<24}{'after':>7}  {'divert':<7}{'accepted':>8}{'primary':>9}{'backlog':>9}{'refused':>9}"
    f"{'twice':>7}{'longest':>12}"
)


def settings(config: Config) -> dict[str, str]:
    return {
        "FAILOVER_INTERVAL": format_duration(config.interval),
        "DIVERT_WHILE_SUSPECT": str(config.divert).lower(),
        "SEND_DEADLINE": f"PT{SEND_DEADLINE_S:g}S",
        "PRIMARY_ATTEMPT_TIMEOUT": f"PT{ATTEMPT_S:g}S",
        "STATE_REFRESH": "PT2S",
    }


async def storm(
    bus: PairedSender, ledger: Ledger, others: Ledger, break_it: Callable[[], Awaitable[None]], seconds: float
) -> float:
    """Senders that never pause for an answer of their neighbours; the fault comes while all of them are at work.

    By how much the machine woke a task too late, at worst.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + WARM_S + seconds
    numbers = itertools.count()

    async def sender(target: Ledger, path: str) -> None:
        rng = random.Random(next(numbers))
        while loop.time() < end:
            await target.send(bus, path, f"{path}-{next(numbers)}")
            await asyncio.sleep(PAUSE_S * rng.uniform(0.5, 1.5))

    async def worst_lag() -> float:
        worst = 0.0
        while (looked := loop.time()) < end:
            await asyncio.sleep(LOOK_S)
            worst = max(worst, loop.time() - looked - LOOK_S)
        return worst

    tasks = [asyncio.create_task(sender(ledger, ORDERS)) for _ in range(SENDERS)]
    tasks += [asyncio.create_task(sender(others, OTHERS)) for _ in range(3)]
    lag = asyncio.create_task(worst_lag())
    await asyncio.sleep(WARM_S)
    await break_it()
    await asyncio.gather(*tasks)
    return await lag


async def run_cell(pair: PairOnBroker, fault: Fault, config: Config) -> Row:
    pair.create_entities(ORDERS, OTHERS)
    ledger, others = Ledger(), Ledger()

    async def break_it() -> None:
        await pair.broker.inject(**{"namespace": "primary", **fault.spec})

    async with PairedSender(pair.settings(**settings(config)), create_queues=False) as bus:
        for target, path in ((ledger, ORDERS), (others, OTHERS)):
            await target.send(bus, path, f"{path}-first")
        lag_s = await storm(bus, ledger, others, break_it, config.seconds)
        failed_over = isinstance(bus.runtime.state.availability(ORDERS), Unavailable)
        # What was held back arrives now, as it would after an outage.
        await pair.broker.heal()
    row = judge(fault, config, ledger, *pair.where(ORDERS))
    row.lag_s = lag_s
    if failed_over is not fault.fails_over:
        row.late.append("failed over" if failed_over else "did not fail over")
    if fault.spares_others and {Route.PRIMARY} != set(others.accepted.values()) | {Route.PRIMARY}:
        row.late.append("others were diverted")
    if fault.spares_others and others.refused:
        row.late.append(f"others were refused: {Counter(others.refused.values())}")
    return row


async def run_crash(pair: PairOnBroker, folder: Path, fault: Fault, config: Config) -> Row:
    """The primary's broker is a process of its own, is killed in mid-storm and started again with its data."""
    pair.create_entities()
    ledger, others = Ledger(), Ledger()
    with CrashingPrimary(folder) as primary:
        await asyncio.to_thread(primary.create, queues=[ORDERS, OTHERS])
        chosen = pair.app_settings(**settings(config), ServiceBusPrimary=primary.connection_string)

        async def break_it() -> None:
            await asyncio.to_thread(primary.kill)

        async with PairedSender(chosen, create_queues=False) as bus:
            for target, path in ((ledger, ORDERS), (others, OTHERS)):
                await target.send(bus, path, f"{path}-first")
            lag_s = await storm(bus, ledger, others, break_it, config.seconds)
            failed_over = isinstance(bus.runtime.state.availability(ORDERS), Unavailable)
            await asyncio.to_thread(primary.start)
            await bus.runtime.state.mark(ORDERS, Event.MARKED_HEALTHY, "restarted")
            await ledger.send(bus, ORDERS, "after-restart")
        in_primary = Counter(await primary.message_ids(ORDERS))
    row = judge(fault, config, ledger, in_primary, pair.where(ORDERS, primary=False)[1])
    row.lag_s = lag_s
    if not failed_over:
        row.late.append("did not fail over")
    if ledger.accepted.get("after-restart") is not Route.PRIMARY:
        row.problems.append("did not return to the primary")
    return row


def judge(fault: Fault, config: Config, ledger: Ledger, primary: Counter[str], backlog: Counter[str]) -> Row:
    """The ledger against what is stored: nothing accepted is missing, nothing is there that should not be."""
    stored = primary + backlog
    twice = {name for name, count in stored.items() if count > 1}
    row = Row(
        fault=fault.name,
        config=config,
        accepted=len(ledger.accepted),
        primary=sum(route is Route.PRIMARY for route in ledger.accepted.values()),
        backlog=sum(route is Route.BACKLOG for route in ledger.accepted.values()),
        refused=len(ledger.refused),
        duplicates=len(twice),
        longest_s=ledger.longest_s,
    )
    lost = [
        name
        for name, via in ledger.accepted.items()
        if not (primary if via is Route.PRIMARY else backlog)[name]
    ]
    checks = {
        f"{len(lost)} accepted messages are missing": bool(lost),
        "twice without having been told": bool(twice - ledger.possible_duplicates - ledger.indefinite),
        "twice where no answer was lost": bool(twice) and not fault.loses_answers,
        "stored though refused for good": bool(stored.keys() & ledger.refused.keys() - ledger.indefinite),
        "stored though never sent": bool(stored.keys() - ledger.accepted.keys() - ledger.refused.keys()),
        "nothing was accepted": not ledger.accepted,
    }
    in_time = {
        "a call outlasted its deadline": ledger.longest_s > SEND_DEADLINE_S + SLACK_S,
        "refused while failover was engaged": fault.fails_over and config.divert and bool(ledger.refused),
        "diverted for no fault of the service": not fault.fails_over and bool(backlog),
    }
    row.problems = [text for text, is_wrong in checks.items() if is_wrong]
    row.late = [text for text, is_wrong in in_time.items() if is_wrong]
    return row
