"""A call of send on its way: what is known of it, what its caller gets, and what is told about it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from shared.domain.availability import Route
from shared.domain.message import Outgoing
from shared.domain.pair import EntityPath
from shared.services.parcels import Delivered
from shared.services.waiting_room import common_key
from shared.telemetry_events import SendAccepted, SendRefused, key_hash_of, partition_of


class Sent(NamedTuple):
    """The messages are accepted; a detour is a result like any other."""

    via: Route
    message_ids: tuple[str, ...]
    backlog_queue: EntityPath | None = None
    possible_duplicate: bool = False


@dataclass(slots=True)
class Journey:
    """One call of send on its way."""

    path: EntityPath
    messages: Sequence[Outgoing]
    #: What decides the partition of each message, as far as it is known.
    keys: tuple[str | None, ...]
    started: float
    deadline: float
    indefinite: bool = False
    #: Places tried so far besides the one that is being tried.
    failed_places: int = 0
    #: What the messages carry if they have to wait, so that their delivery joins the trace of this call.
    trace: str | None = None
    #: How often its turn did not come in time.
    turns_missed: int = 0

    @property
    def key(self) -> Hashable:
        """What its messages have in common."""
        return common_key(self.keys)


def sent_by(journey: Journey, delivered: Delivered, queue: EntityPath | None = None) -> Sent:
    return Sent(
        Route.PRIMARY if queue is None else Route.BACKLOG,
        ids_of(journey.messages),
        queue,
        journey.indefinite or delivered.possible_duplicate,
    )


def ids_of(messages: Sequence[Outgoing]) -> tuple[str, ...]:
    return (messages[0].message_id,) if len(messages) == 1 else tuple(message.message_id for message in messages)


def accepted_events(journey: Journey, sent: Sent, at: datetime, seconds: float) -> Iterator[SendAccepted]:
    for message, key in zip(journey.messages, journey.keys, strict=True):
        yield SendAccepted(
            at=at,
            path=journey.path,
            message_id=message.message_id,
            backlog_queue=sent.backlog_queue,
            seconds=seconds,
            body_bytes=message.body_bytes,
            possible_duplicate=sent.possible_duplicate,
            attempt=1 + journey.failed_places,
            key_hash=key_hash_of(key),
            partition=partition_of(key),
        )


def refused_events(journey: Journey, reason: str, at: datetime, seconds: float) -> Iterator[SendRefused]:
    for message in journey.messages:
        yield SendRefused(
            at=at,
            path=journey.path,
            message_id=message.message_id,
            reason=reason,
            seconds=seconds,
            indefinite=journey.indefinite,
        )
