"""What services need of the world; adapters provide it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias

from shared.domain.availability import Available, Route, Unavailable
from shared.domain.backlog import BacklogQueueDescription
from shared.domain.factory import Factories, Factory
from shared.domain.failures import Failure
from shared.domain.message import Outgoing
from shared.domain.pair import EntityPath, Side
from shared.domain.partitions import Traits
from shared.domain.rotation import Outage
from shared.domain.syphon import BacklogMessage, Drain
from shared.telemetry_events import TelemetryEvent


class Clock(Protocol):
    def now(self) -> datetime:
        """The time of day, in UTC and aware of it."""
        ...


class SendFailed(Exception):
    """One attempt to send failed, and how. `indefinite`: the message may have arrived all the same.

    `tried`: it was under way, so that the failure may be about this very message or its key.
    """

    def __init__(
        self,
        failure: Failure,
        detail: str,
        *,
        indefinite: bool = False,
        bytes_over: int | None = None,
        tried: bool = True,
    ) -> None:
        super().__init__(f"{failure.value}: {detail}")
        self.failure = failure
        self.detail = detail
        self.indefinite = indefinite
        self.bytes_over = bytes_over
        self.tried = tried


class Packed(NamedTuple):
    """What one transfer can carry of the parcels offered."""

    #: As many of the first parcels as fit; those in `refused` count as taken.
    taken: int
    #: Parcels, by index, that can never be sent, and why.
    refused: dict[int, SendFailed]
    load: object


class Closable(Protocol):
    async def close(self) -> None: ...


class Link(Protocol):
    """A way to send to one entity. Not safe for concurrent use: whoever owns it makes one call at a time."""

    async def open(self) -> None: ...

    async def pack(self, parcels: Sequence[Sequence[Outgoing]]) -> Packed:
        """Parcels for one transfer; a parcel is never taken apart. Opens the link when it is not open."""
        ...

    async def send(self, packed: Packed) -> None:
        """All of it, or SendFailed."""
        ...

    async def send_one(self, message: Outgoing) -> None:
        """A message by itself, packed and sent, or SendFailed. What most sends are, so it costs as little as it can."""
        ...

    async def close(self) -> None: ...


class Links(Protocol):
    def to(self, side: Side, path: EntityPath) -> Link: ...


@dataclass(frozen=True, kw_only=True)
class QueueFacts:
    path: EntityPath
    #: How it differs from what pairing creates.
    differences: tuple[str, ...] = ()
    is_partitioned: bool = False


@dataclass(frozen=True, kw_only=True)
class QueueDepth:
    active: int
    dead_lettered: int
    scheduled: int = 0
    #: When the oldest waiting message was enqueued, where that can be known.
    oldest: datetime | None = None


class BacklogTrouble(Exception):
    """A backlog queue did not do what was asked; its connection is of no use any more, or may not be."""


class NotThere(Exception):
    """A message asked for by its number is not to be had: it is gone, or somebody else has it."""


class Unreadable(Exception):
    """A message cannot be decoded by this app's SDK."""


#: Told of each message as soon as its settling is over: whether it is settled, or its lock is lost and it comes again.
Told: TypeAlias = Callable[[BacklogMessage, bool], None]


def nobody(message: BacklogMessage, settled: bool) -> None:
    """For those who need not be told."""


class BacklogQueue(Protocol):
    """A backlog queue to be drained. Whoever owns it makes one call at a time, with one exception: while batches are
    settled, the next one may be taken.

    Every call may raise BacklogTrouble.
    """

    async def look(self, from_sequence_number: int, count: int) -> list[BacklogMessage]:
        """Messages from this number on, locked and set-aside ones included; nothing is locked by it. Or Unreadable."""
        ...

    def prepare(self) -> None:
        """Messages are about to be taken."""
        ...

    async def take(self, count: int, wait_seconds: float) -> list[BacklogMessage]:
        """Messages under lock, as many as come within the wait.

        After fewer came than were asked for, more may be on their way to the same receiver, which does one thing at a
        time: the next call waits for its settling, or its settling for the call.
        """
        ...

    async def take_aside(self, sequence_numbers: Sequence[int]) -> list[BacklogMessage]:
        """Messages that were set aside, under lock; NotThere if a single one of them is not to be had."""
        ...

    async def stop_taking(self) -> None:
        """Gives back what was asked for and has not come."""
        ...

    async def complete(self, messages: Sequence[BacklogMessage], told: Told = nobody) -> None: ...

    async def put_aside(self, messages: Sequence[BacklogMessage], told: Told = nobody) -> None:
        """They stay in the queue, and only `take_aside` gets them."""
        ...

    async def release(self, messages: Sequence[BacklogMessage], told: Told = nobody) -> None:
        """Back to their place, for whoever takes them next."""
        ...

    async def dead_letter(self, message: BacklogMessage, *, reason: str, description: str) -> bool:
        """Whether it is settled."""
        ...

    async def close(self) -> None: ...


class BacklogQueues(Protocol):
    def open(self, path: EntityPath) -> BacklogQueue: ...


class AdminRefused(Exception):
    """Credentials were refused by the administration API."""


class AdminFailed(Exception):
    """The administration API did not do what was asked."""


class QueueAdmin(Protocol):
    """Queues of the secondary namespace."""

    async def find(self, path: EntityPath) -> QueueFacts | None: ...

    async def create(self, path: EntityPath, description: BacklogQueueDescription) -> QueueFacts:
        """Creates it; one that exists by now is as good."""
        ...

    async def depth(self, path: EntityPath) -> QueueDepth: ...

    async def close(self) -> None: ...


class EntityAdmin(Protocol):
    """Entities of the primary namespace."""

    async def traits(self, path: EntityPath) -> Traits | None:
        """None where there is no such entity."""
        ...


@dataclass(frozen=True, kw_only=True)
class EntityRecord:
    """What all instances share about one entity."""

    path: EntityPath
    availability: Available | Unavailable
    changed_at: datetime
    #: The entity has accepted a message, ever: when it cannot be found any more, that is an outage.
    accepted: bool = False
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class QueueRecord:
    """What all instances share about one backlog queue."""

    path: EntityPath
    changed_at: datetime
    outage: Outage | None = None


@dataclass(frozen=True, kw_only=True)
class PairingRecord:
    """What pairing did last."""

    queues: tuple[EntityPath, ...]
    at: datetime
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SharedState:
    entities: tuple[EntityRecord, ...] = ()
    queues: tuple[QueueRecord, ...] = ()
    factories: dict[Side, Factory] = field(default_factory=dict)
    pairing: PairingRecord | None = None
    drains: tuple[Drain, ...] = ()


class StorageTrouble(Exception):
    """Shared state could not be read or written."""


class StateStore(Protocol):
    """State shared by all instances. A change is read, decided, and written only if nothing changed in between."""

    async def load(self) -> SharedState: ...

    async def change_entity(
        self, path: EntityPath, decide: Callable[[EntityRecord | None], EntityRecord | None]
    ) -> EntityRecord | None:
        """What the record is afterwards; `decide` returns None to leave it as it is."""
        ...

    async def forget_entity(self, path: EntityPath, *, until: datetime) -> None:
        """There is no more to say about it, unless somebody has said something later than that."""
        ...

    async def change_queue(
        self, path: EntityPath, decide: Callable[[QueueRecord | None], QueueRecord | None]
    ) -> QueueRecord | None: ...

    async def save_pairing(self, record: PairingRecord) -> None: ...

    async def save_drain(self, drain: Drain) -> None: ...

    async def close(self) -> None: ...


class FactoryStore(Protocol):
    """The factories of the pair, shared by all instances. Both sides change together, or neither."""

    async def load(self) -> Factories: ...

    async def change(self, decide: Callable[[Factories], Factories]) -> tuple[Factories, Factories]:
        """Before and after; `decide` may be called again when somebody else was faster. StorageTrouble when not."""
        ...


class SendSpan(Protocol):
    """One send on record in a trace, from its start to one of the two ends."""

    #: A W3C traceparent: what the message carries while it waits, so that its delivery joins the trace.
    context: str

    def accepted(self, *, via: Route, backlog_queue: EntityPath | None) -> None: ...

    def refused(self, reason: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A backlog message that the primary has accepted."""

    path: EntityPath
    message_id: str
    backlog_queue: EntityPath
    #: When the syphon took it up.
    started: datetime
    ended: datetime
    waited_seconds: float
    #: What its sender's span had as context.
    trace: str


class Instruments(Protocol):
    """Traces, and what can only be measured now and then. Nothing here blocks or raises."""

    def start_send(self, path: EntityPath, messages: Sequence[Outgoing], *, parent: str | None) -> SendSpan:
        """`parent` is the caller's traceparent; without one, the trace that this code runs in, or a new one."""
        ...

    def delivered(self, delivery: Delivery) -> None: ...

    def backlog_measured(self, queue: EntityPath, depth: QueueDepth, rate: float) -> None:
        """`rate`: messages a second that leave the queue for the primary."""
        ...


class Telemetry(Protocol):
    #: Whether sends that went straight to the primary are wanted as well: they are the many, and cost time.
    wants_every_send: bool

    def emit(self, event: TelemetryEvent) -> None:
        """Never blocks, never raises."""
        ...
