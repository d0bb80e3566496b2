"""Closing without a network: factories in memory, a clock that is moved by hand, and what was told about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from shared.domain.factory import Factories
from shared.domain.pair import EntityPath, Side
from shared.ports import StateStore, StorageTrouble
from shared.services.closing import Closing
from shared.services.factory_watch import FactoryWatch
from shared.services.pair_state import PairState
from shared.telemetry_events import FactoryChanged, TelemetryEvent

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
GRACE = timedelta(seconds=5)
QUEUES = (EntityPath("contoso/x-servicebus-transfer/0"),)


@dataclass
class GivenClock:
    time: datetime = NOON

    def now(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@dataclass
class MemoryFactories:
    """A FactoryStore. `rival` is called between a decision and its writing, as another instance may be."""

    both: Factories = field(default_factory=Factories)
    broken: bool = False
    rival: Callable[[], None] | None = None

    async def load(self) -> Factories:
        self._check()
        return self.both

    async def change(self, decide: Callable[[Factories], Factories]) -> tuple[Factories, Factories]:
        while True:
            self._check()
            before = self.both
            after = decide(before)
            rival, self.rival = self.rival, None
            if rival is not None:
                rival()
            if self.both == before:
                self.both = after
                return before, after

    def _check(self) -> None:
        if self.broken:
            raise StorageTrouble("no answer within 5 s")


@dataclass
class Recorder:
    wants_every_send: bool = True
    events: list[TelemetryEvent] = field(default_factory=list)

    def emit(self, event: TelemetryEvent) -> None:
        self.events.append(event)

    def changes(self) -> list[tuple[str, str, str]]:
        """Which side went from what to what."""
        return [(event.side, event.before, event.after) for event in self.events if isinstance(event, FactoryChanged)]


class ClosingParts:
    """The services around closing, wired together as the app does it."""

    def __init__(self, *, clock: GivenClock | None = None, store: MemoryFactories | None = None) -> None:
        self.clock = clock or GivenClock()
        self.store = store or MemoryFactories()
        self.telemetry = Recorder()
        self.state = PairState(
            store=cast(StateStore, None),  # nothing here refreshes
            clock=self.clock,
            telemetry=self.telemetry,
            queues=QUEUES,
            failover_interval=timedelta(minutes=1),
            refresh_every=timedelta(seconds=2),
            instance="test",
        )
        self.closing = Closing(
            store=self.store, state=self.state, clock=self.clock, telemetry=self.telemetry, grace=GRACE
        )
        self.watch = FactoryWatch(closing=self.closing, state=self.state, clock=self.clock)

    async def states(self) -> tuple[str, str]:
        return shown(await self.store.load())


def shown(both: Factories) -> tuple[str, str]:
    return both.primary.state.value, both.secondary.state.value


def states_in(value: dict[str, Any]) -> tuple[str, str]:
    """The same of an answer over HTTP, or of an orchestration's output."""
    primary, secondary = (value["factories"][side.value]["state"] for side in Side)
    return primary, secondary
