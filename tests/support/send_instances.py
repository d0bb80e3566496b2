"""Instances of the sender over in-memory ports, any number of them over the same shared state."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta

from shared.domain.backlog import backlog_queue_paths
from shared.domain.pair import EntityPath, Namespace, Pair, Side
from shared.domain.partitions import Traits
from shared.services.backlog_sender import BacklogSender
from shared.services.entity_check import EntityCheck
from shared.services.entity_facts import EntityFacts
from shared.services.failover_sender import FailoverSender, SendOptions
from shared.services.journeys import Sent
from shared.services.lanes import Lanes
from shared.services.pair_state import PairState
from shared.services.pings import Pings
from tests.support.send_fakes import FakeClock, FakeLink, InMemoryStateStore, Post, SharedRows, letter
from tests.support.send_services import Recorder

PAIR = Pair(
    primary=Namespace(side=Side.PRIMARY, name="contoso"), secondary=Namespace(side=Side.SECONDARY, name="fabrikam")
)
QUEUES = backlog_queue_paths(PAIR.primary, 3)
ORDERS = EntityPath("orders")
PLAIN = Traits(partitioned=False)


class Offices:
    """A post office for each entity of either namespace."""

    def __init__(self) -> None:
        self._posts: dict[tuple[Side, str], Post] = {}

    def of(self, side: Side, path: str) -> Post:
        return self._posts.setdefault((side, path.lower()), Post())

    def to(self, side: Side, path: EntityPath) -> FakeLink:
        return self.of(side, path).new_link()

    @property
    def primary(self) -> Post:
        return self.of(Side.PRIMARY, ORDERS)

    def backlog_ids(self) -> list[str]:
        return [name for queue in QUEUES for name in self.of(Side.SECONDARY, queue).ids]


@dataclass
class SameFacts:
    """Every entity is like this."""

    found: Traits

    async def traits(self, path: EntityPath) -> Traits | None:
        return self.found


@dataclass
class Instance:
    """One instance of the app, as far as sending goes."""

    rows: SharedRows = field(default_factory=SharedRows)
    clock: FakeClock = field(default_factory=FakeClock)
    offices: Offices = field(default_factory=Offices)
    failover_interval: timedelta = timedelta(0)
    divert_while_suspect: bool = False
    attempt_timeout: timedelta = timedelta(seconds=0.3)
    seed: int = 1
    traits: Traits = PLAIN

    def __post_init__(self) -> None:
        self.telemetry = Recorder()
        self.store = InMemoryStateStore(self.rows)
        self.state = PairState(
            store=self.store,
            clock=self.clock,
            telemetry=self.telemetry,
            queues=QUEUES,
            failover_interval=self.failover_interval,
            refresh_every=timedelta(hours=1),
            instance=f"instance {self.seed}",
        )
        self.lanes = Lanes(self.offices)
        self.backlog = BacklogSender(
            state=self.state,
            lanes=self.lanes,
            links=self.offices,
            attempt_timeout=self.attempt_timeout,
            rng=random.Random(self.seed),
        )
        self.facts = EntityFacts(SameFacts(self.traits))
        self.check = EntityCheck(state=self.state, pings=Pings(self.offices), timeout=self.attempt_timeout)
        self.sender = FailoverSender(
            pair=PAIR,
            options=SendOptions(
                send_deadline=timedelta(seconds=1),
                attempt_timeout=self.attempt_timeout,
                partitioned_attempt_timeout=self.attempt_timeout,
                divert_while_suspect=self.divert_while_suspect,
            ),
            state=self.state,
            lanes=self.lanes,
            backlog=self.backlog,
            clock=self.clock,
            telemetry=self.telemetry,
            facts=self.facts,
            check=self.check,
        )

    async def send(self, name: str, path: EntityPath = ORDERS, *, key: str | None = None) -> Sent:
        return await self.sender.send(path, (letter(name, key=key),))

    async def close(self) -> None:
        await self.facts.close()
        await self.check.close()
        await self.backlog.close()
        await self.lanes.close()
        await self.state.close()
