"""What the app records about itself: one frozen dataclass for each kind of event, and no message bodies or secrets.

This module is the contract with whoever reads the records. A record is one line of JSON: the event's fields, and in
front of them the contract's version (`v`), the event's name (`event`), who wrote it (`instance`) and a number (`seq`)
that counts up by one within an instance, so that a reader can tell what is missing or there twice. Within a version
fields are only added, and a reader takes a field that is not there for null.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zlib
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from shared.domain.pair import EntityPath
from shared.domain.partitions import is_key_lane, without_key

SCHEMA_VERSION = 1
PARTITION_COUNT = 16
_KEY_HASH_BYTES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class SendAccepted:
    """A message was accepted: by its entity, or by a backlog queue on its behalf."""

    name: ClassVar[str] = "send.accepted"
    at: datetime
    path: EntityPath
    message_id: str
    #: The backlog queue, or None for the primary.
    backlog_queue: EntityPath | None
    seconds: float
    body_bytes: int
    #: An earlier attempt may have arrived as well: same message id, twice.
    possible_duplicate: bool = False
    #: Places tried until one took it: 2 for a message that the primary failed and the backlog took.
    attempt: int = 1
    #: Of the session id or partition key, never the key itself; see key_hash_of and partition_of.
    key_hash: str | None = None
    partition: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SendRefused:
    """A message was not accepted; the sender was told so."""

    name: ClassVar[str] = "send.refused"
    at: datetime
    path: EntityPath
    message_id: str
    reason: str
    seconds: float
    #: The message may have arrived at its entity all the same.
    indefinite: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureCounted:
    """A send to the primary failed in a way that counts towards failover."""

    name: ClassVar[str] = "failure.counted"
    at: datetime
    path: EntityPath
    failure: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AvailabilityChanged:
    name: ClassVar[str] = "availability.changed"
    at: datetime
    path: EntityPath
    before: str
    after: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RotationChanged:
    """A backlog queue left the rotation, or came back."""

    name: ClassVar[str] = "rotation.changed"
    at: datetime
    queue: EntityPath
    in_rotation: bool
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StateStorageChanged:
    """Shared state cannot be reached, or can again; meanwhile the instance goes on with what it knows."""

    name: ClassVar[str] = "state-storage.changed"
    at: datetime
    reachable: bool
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CredentialsRefused:
    """A namespace refused the app's credentials: the pair is configured wrongly."""

    name: ClassVar[str] = "credentials.refused"
    at: datetime
    side: str
    path: EntityPath
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinged:
    """An unavailable entity was pinged."""

    name: ClassVar[str] = "entity.pinged"
    at: datetime
    path: EntityPath
    succeeded: bool
    detail: str
    seconds: float
    #: How many pings were sent: a partitioned entity takes many.
    pings: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Forwarded:
    """The syphon delivered a backlog message to its entity."""

    name: ClassVar[str] = "syphon.forwarded"
    at: datetime
    path: EntityPath
    message_id: str
    backlog_queue: EntityPath
    #: Since it was enqueued in the backlog queue.
    waited_seconds: float
    #: It may have been delivered before, or come again: same message id, twice.
    possible_duplicate: bool = False
    body_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardInDoubt:
    """The syphon sent a backlog message on and got no answer: it may have arrived, and it will be sent again."""

    name: ClassVar[str] = "syphon.in-doubt"
    at: datetime
    path: EntityPath
    message_id: str
    backlog_queue: EntityPath
    failure: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SetAside:
    """Backlog messages wait without standing in others' way, because their entity takes none."""

    name: ClassVar[str] = "syphon.set-aside"
    at: datetime
    path: EntityPath
    backlog_queue: EntityPath
    messages: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLettered:
    """A backlog message can never be delivered; it is in the dead-letter queue of its backlog queue."""

    name: ClassVar[str] = "syphon.dead-lettered"
    at: datetime
    message_id: str
    backlog_queue: EntityPath
    reason: str
    description: str
    #: Where it was meant to go, where its envelope says so.
    path: EntityPath | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DestinationRested:
    """The syphon leaves an entity alone for a while after it failed or was busy."""

    name: ClassVar[str] = "syphon.destination-rested"
    at: datetime
    path: EntityPath
    failure: str
    detail: str
    until: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class FactoryChanged:
    """One side of the pair was closed, faulted or opened."""

    name: ClassVar[str] = "factory.changed"
    at: datetime
    side: str
    before: str
    after: str
    reason: str
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageReceived:
    """A receipt, written by a receiver or an audit: this message was seen in this entity, or waiting in this queue."""

    name: ClassVar[str] = "message.received"
    at: datetime
    #: The queue or topic, or the backlog queue where an audit saw it waiting.
    path: EntityPath
    message_id: str
    #: Tells two copies apart from one that was delivered twice; its top 16 bits are the partition it was found in.
    sequence_number: int | None = None
    subscription: str | None = None
    enqueued_at: datetime | None = None
    delivery_count: int = 0
    body_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditCompleted:
    """Every message that was in this entity or backlog queue before `since` has a receipt by now.

    What arrived there before `since` and has no receipt is lost. Without an audit the word of the broker, its
    acknowledgement, is all the proof there is.
    """

    name: ClassVar[str] = "audit.completed"
    at: datetime
    path: EntityPath
    since: datetime
    messages: int
    #: Of a topic, the one that was audited; it counts as audited once each that was audited at all is.
    subscription: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TelemetryStarted:
    """An instance began to write its records. One that never stopped was killed: its last seconds may be missing."""

    name: ClassVar[str] = "telemetry.started"
    at: datetime
    #: Longest time that a record waits to be written to a file.
    flush_seconds: float
    backlog_queue_count: int | None = None
    ping_primary_interval_seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TelemetryStopped:
    name: ClassVar[str] = "telemetry.stopped"
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class EventsDropped:
    """Records were made faster than they could be written, and the buffer was full."""

    name: ClassVar[str] = "telemetry.dropped"
    at: datetime
    events: int


TelemetryEvent = (
    SendAccepted
    | SendRefused
    | FailureCounted
    | AvailabilityChanged
    | RotationChanged
    | StateStorageChanged
    | CredentialsRefused
    | Pinged
    | Forwarded
    | ForwardInDoubt
    | SetAside
    | DeadLettered
    | DestinationRested
    | FactoryChanged
    | MessageReceived
    | AuditCompleted
    | TelemetryStarted
    | TelemetryStopped
    | EventsDropped
)


def is_plain_send(event: TelemetryEvent) -> bool:
    """A message that went straight to the primary: the many that only a sink which wants every send is given."""
    return type(event) is SendAccepted and event.backlog_queue is None and not event.possible_duplicate


def is_of_one_message(event: TelemetryEvent) -> bool:
    """An event there is one of for every message, or several: to be counted and recorded, not to be told to people."""
    return type(event) in _OF_ONE_MESSAGE


def key_hash_of(key: str | None) -> str | None:
    return None if key is None else hashlib.blake2b(key.encode(), digest_size=_KEY_HASH_BYTES).hexdigest()


def partition_of(key: str | None) -> int | None:
    """Where the embedded broker puts the key. The service keeps its own function to itself: receipts tell it."""
    return None if key is None else zlib.crc32(key.encode()) % PARTITION_COUNT


def as_line(event: TelemetryEvent, *, instance: str, sequence: int) -> str:
    """One record, with the line's end."""
    record: dict[str, object] = {"v": SCHEMA_VERSION, "event": event.name, "instance": instance, "seq": sequence}
    for name in _FIELDS[type(event)]:
        value = getattr(event, name)
        if value is not None:
            record[name] = value.isoformat() if isinstance(value, datetime) else value
    if is_key_lane(path := EntityPath(str(record.get("path", "")))):
        record["path"] = without_key(path)
    return json.dumps(record, separators=(",", ":")) + "\n"


_OF_ONE_MESSAGE = frozenset(
    {SendAccepted, SendRefused, FailureCounted, Forwarded, ForwardInDoubt, MessageReceived}
)
_FIELDS = {kind: tuple(field.name for field in dataclasses.fields(kind)) for kind in TelemetryEvent.__args__}
