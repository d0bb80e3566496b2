"""In-memory stand-ins for the ports of sending; contract tests keep them honest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.domain.factory import Factory
from shared.domain.failures import Failure
from shared.domain.message import DataBody, Message, Outgoing, Properties, outgoing
from shared.domain.pair import EntityPath, Side
from shared.domain.syphon import Drain
from shared.ports import (
    EntityRecord,
    Packed,
    PairingRecord,
    QueueRecord,
    SendFailed,
    SharedState,
    StorageTrouble,
)
from tests.support.sending import NOON

Script = Callable[["FakeLink", list[Outgoing]], None]


def letter(name: str, *, key: str | None = None, body: bytes = b"x") -> Outgoing:
    annotations = {"x-opt-partition-key": key} if key is not None else {}
    properties = Properties(message_id=name)
    return outgoing(Message(body=DataBody((body,)), properties=properties, annotations=annotations))


@dataclass
class FakeClock:
    time: datetime = NOON

    def now(self) -> datetime:
        return self.time

    def advance(self, duration: timedelta) -> None:
        self.time += duration


@dataclass
class Post:
    """The world behind fake links: what arrived, and what happens to the next transfers."""

    arrived: list[list[str]] = field(default_factory=list)
    #: For each transfer to come: None lets it pass, a SendFailed refuses it, an Event holds it until it is set.
    script: list[SendFailed | asyncio.Event | None] = field(default_factory=list)
    #: Messages, by id, that are refused wherever they are.
    unwelcome: dict[str, SendFailed] = field(default_factory=dict)
    #: Messages, by id, whose transfer hangs until the event is set.
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    links: list[FakeLink] = field(default_factory=list)
    batch_max: int = 1000

    def to(self, side: Side, path: EntityPath) -> FakeLink:
        return self.new_link()

    def new_link(self) -> FakeLink:
        link = FakeLink(self)
        self.links.append(link)
        return link

    @property
    def ids(self) -> list[str]:
        return [name for transfer in self.arrived for name in transfer]


@dataclass(eq=False)
class FakeLink:
    post: Post
    in_call: bool = False
    is_closed: bool = False

    async def open(self) -> None:
        await asyncio.sleep(0)

    async def pack(self, parcels: Sequence[Sequence[Outgoing]]) -> Packed:
        self._enter()
        await asyncio.sleep(0)
        self.in_call = False
        room = self.post.batch_max
        taken: list[Outgoing] = []
        count = 0
        for parcel in parcels:
            if count and len(taken) + len(parcel) > room:
                break
            taken += parcel
            count += 1
        return Packed(taken=count, refused={}, load=taken)

    async def send(self, packed: Packed) -> None:
        self._enter()
        try:
            step = self.post.script.pop(0) if self.post.script else None
            if isinstance(step, asyncio.Event):
                await step.wait()
            await asyncio.sleep(0)
            if isinstance(step, SendFailed):
                raise step
            names = [message.message_id for message in packed.load]  # type: ignore[attr-defined]
            for name in names:
                if name in self.post.held:
                    await self.post.held[name].wait()
                if name in self.post.unwelcome:
                    raise self.post.unwelcome[name]
            self.post.arrived.append(names)
        finally:
            self.in_call = False

    async def send_one(self, message: Outgoing) -> None:
        await self.send(await self.pack([[message]]))

    async def close(self) -> None:
        self.is_closed = True

    def _enter(self) -> None:
        assert not self.in_call, "a link was used by two at once"
        assert not self.is_closed, "a closed link was used"
        self.in_call = True


def failed(failure: Failure, *, indefinite: bool = False) -> SendFailed:
    return SendFailed(failure, "as scripted", indefinite=indefinite)


@dataclass
class InMemoryStateStore:
    """Shared state of instances in one process; each has a store of its own over the same rows."""

    rows: SharedRows
    is_down: bool = False

    async def load(self) -> SharedState:
        await self._reach()
        return SharedState(
            entities=tuple(self.rows.entities.values()),
            queues=tuple(self.rows.queues.values()),
            factories=dict(self.rows.factories),
            pairing=self.rows.pairing,
            drains=tuple(self.rows.drains.values()),
        )

    async def change_entity(
        self, path: EntityPath, decide: Callable[[EntityRecord | None], EntityRecord | None]
    ) -> EntityRecord | None:
        await self._reach()
        before = self.rows.entities.get(path.lower())
        after = decide(before)
        if after is None:
            return before
        self.rows.entities[path.lower()] = after
        self.rows.writes += 1
        return after

    async def forget_entity(self, path: EntityPath, *, until: datetime) -> None:
        await self._reach()
        found = self.rows.entities.get(path.lower())
        if found is not None and found.changed_at <= until:
            del self.rows.entities[path.lower()]

    async def change_queue(
        self, path: EntityPath, decide: Callable[[QueueRecord | None], QueueRecord | None]
    ) -> QueueRecord | None:
        await self._reach()
        before = self.rows.queues.get(path.lower())
        after = decide(before)
        if after is None:
            return before
        self.rows.queues[path.lower()] = after
        self.rows.writes += 1
        return after

    async def save_pairing(self, record: PairingRecord) -> None:
        await self._reach()
        self.rows.pairing = record

    async def save_drain(self, drain: Drain) -> None:
        await self._reach()
        self.rows.drains[drain.queue] = drain

    async def close(self) -> None:
        return

    async def _reach(self) -> None:
        self.rows.reads += 1
        await asyncio.sleep(0)
        if self.is_down:
            raise StorageTrouble("the table is down")


@dataclass
class SharedRows:
    entities: dict[str, EntityRecord] = field(default_factory=dict)
    queues: dict[str, QueueRecord] = field(default_factory=dict)
    drains: dict[EntityPath, Drain] = field(default_factory=dict)
    factories: dict[Side, Factory] = field(default_factory=dict)
    pairing: PairingRecord | None = None
    reads: int = 0
    writes: int = 0
