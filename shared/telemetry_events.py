"""What the app records about itself: one frozen dataclass for each kind of event, and no message bodies or secrets.

This module is the contract with whoever reads the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from shared.domain.pair import EntityPath


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
    | SetAside
    | DeadLettered
    | DestinationRested
    | FactoryChanged
)
