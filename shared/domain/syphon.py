"""What the syphon does with one backlog message, and where it stands.

A message whose destination takes messages is forwarded; one whose destination does not, waits; one that can never be
delivered is dead-lettered with a reason. The rest of this file is about a backlog queue as a whole: which available
entity may still have messages in it, when a scan is worth its operations, and how long draining will take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from shared.domain.envelope import DESTINATION, SESSION_ID, TTL_EXPIRED, destination_of, unwrap
from shared.domain.factory import Factory
from shared.domain.failures import Blame, Failure
from shared.domain.message import Message
from shared.domain.pair import EntityPath, Side
from shared.domain.partitions import Keys, keys_of, partition_of
from shared.domain.ping import is_ping
from shared.errors import EnvelopeError

#: Marks the message that the syphon leaves in a queue to be woken by, when all others there are set aside.
BELL = "x-pair-bell"

INVALID_ENVELOPE = "InvalidTransferProperties"
DESTINATION_REFUSED = "DestinationRefused"
DESTINATION_NOT_FOUND = "DestinationNotFound"


@dataclass(frozen=True, kw_only=True)
class BacklogMessage:
    """A message of a backlog queue as a receiver sees it."""

    sequence_number: int
    enqueued_at: datetime
    message: Message
    #: None where it was only looked at.
    locked_until: datetime | None = None
    #: Set aside: no receiver gets it unless it asks for its sequence number.
    is_deferred: bool = False
    #: What the adapter settles it by.
    handle: object = None


@dataclass(frozen=True, kw_only=True)
class Forward:
    destination: EntityPath
    message: Message
    #: The trace that its delivery belongs to.
    trace: str | None = None


@dataclass(frozen=True, kw_only=True)
class Wait:
    destination: EntityPath


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    reason: str
    description: str


@dataclass(frozen=True)
class Discard:
    """It was never meant for anybody: a ping."""


@dataclass(frozen=True)
class Ring:
    """It is the syphon's own bell."""


Verdict: TypeAlias = Forward | Wait | DeadLetter | Discard | Ring


def judge(
    received: BacklogMessage,
    *,
    now: datetime,
    takes_messages: Callable[[EntityPath], bool],
    lane_of: Callable[[EntityPath, Keys], EntityPath] = lambda path, keys: path,
    restart_clock: bool = False,
) -> Verdict:
    """What to do with a backlog message. `restart_clock`: the time it waited does not count against its life.

    `lane_of` gives the path by which its destination is watched: the entity's own, or that of a key of its.
    """
    message = received.message
    if is_ping(message.properties.content_type):
        return Discard()
    if is_bell(message):
        return Ring()
    try:
        destination = lane_of(destination_of(message), waiting_keys(message))
        if not takes_messages(destination):
            return Wait(destination=destination)
        waited = timedelta(0) if restart_clock else max(now - received.enqueued_at, timedelta(0))
        unwrapped = unwrap(message, waited=waited)
    except EnvelopeError as error:
        return DeadLetter(reason=INVALID_ENVELOPE, description=error.message)
    if unwrapped.expired:
        description = f"The message expired while it waited for {destination}, for {_seconds(waited)} s in this queue."
        return DeadLetter(reason=TTL_EXPIRED, description=description)
    return Forward(destination=destination, message=unwrapped.message, trace=unwrapped.trace)


def waiting_keys(message: Message) -> Keys:
    """What may be the key of a message as it waits in a backlog queue."""
    names = message.application_properties
    return keys_of(message, names.get(SESSION_ID, names.get(SESSION_ID.encode())))


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f}"


def is_bell(message: Message) -> bool:
    """A message that is meant for somebody never is one, whatever properties its sender gave it."""
    names = message.application_properties
    is_for_somebody = DESTINATION in names or DESTINATION.encode() in names
    return not is_for_somebody and (BELL in names or BELL.encode() in names)


def bell_properties() -> dict[str, object]:
    return {BELL: True}


def may_work(factories: Mapping[Side, Factory]) -> bool:
    """The syphon works only while both factories are open."""
    return all(factory.is_open for factory in factories.values())


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What a failed send means for the messages of its transfer."""

    #: None: they stay where they are and the destination rests.
    dead_letter: DeadLetter | None = None
    is_throttle: bool = False


def refusal_of(failure: Failure, detail: str, *, destination: EntityPath, entity_is_known: bool) -> Refusal:
    """For good, or for now? An entity that has accepted messages before and is gone is an outage, as for senders."""
    if failure is Failure.ENTITY_NOT_FOUND:
        if entity_is_known:
            return Refusal()
        description = f"The primary namespace has no queue or topic {destination}: {detail}"
        return Refusal(dead_letter=DeadLetter(reason=DESTINATION_NOT_FOUND, description=description))
    if failure.judgement.blame is Blame.CALLER:
        description = f"{destination} will never take it ({failure.value}): {detail}"
        return Refusal(dead_letter=DeadLetter(reason=DESTINATION_REFUSED, description=description))
    return Refusal(is_throttle=failure is Failure.BUSY)


# -- destinations that rest

REST_FIRST = timedelta(seconds=1)
REST_MAX = timedelta(minutes=1)
#: Doublings after which a rest is as long as it gets; keeps the arithmetic bounded.
_DOUBLINGS_MAX = 10


@dataclass(frozen=True, kw_only=True)
class Rest:
    """After a failed send a destination is left alone for a while, the longer the more often it failed in a row."""

    until: datetime
    failures: int


def rest_after(last: Rest | None, *, now: datetime, jitter: float) -> Rest:
    """`jitter` is a random number of [0, 1): instances that failed together do not come back together."""
    failures = (last.failures if last is not None else 0) + 1
    longest = min(REST_FIRST * 2 ** min(failures - 1, _DOUBLINGS_MAX), REST_MAX)
    return Rest(until=now + longest * (0.75 + jitter / 4), failures=failures)


# -- what may still be in a queue


def has_come_to(target: int, batch: Iterable[BacklogMessage]) -> bool:
    """Whether what was taken is the target, or comes after it: order holds within a partition only."""
    numbers = [message.sequence_number for message in batch]
    return any(number >= target and partition_of(number) == partition_of(target) for number in numbers)


def horizon(recoveries: Iterable[datetime], *, slack: timedelta) -> datetime | None:
    """Nothing that was enqueued later can be for an entity that is available.

    Messages come to the backlog while their entity is unavailable to their sender: until it recovered, and for as long
    after as a sender may know no better and be busy sending (`slack`). Messages of other writers, whose entities we
    have no record of, are found by looking.
    """
    latest = max(recoveries, default=None)
    return None if latest is None else latest + slack


@dataclass(frozen=True, kw_only=True)
class Passes:
    """When a call that waits has gone through its queue to get the others out."""

    last: datetime | None = None
    #: Stragglers may have come after the last pass; one more at this time gets them.
    again_at: datetime | None = None


def next_pass(
    passes: Passes, *, oldest: datetime, recoveries: Iterable[datetime], slack: timedelta, now: datetime
) -> Passes | None:
    """The passes with one more, if it is time for one; `oldest` is when the oldest waiting message was enqueued."""
    latest = max(recoveries, default=None)
    if latest is None:
        return None
    if passes.last is None:
        is_due = oldest < latest + slack
    else:
        is_due = latest > passes.last or (passes.again_at is not None and now >= passes.again_at)
    if not is_due:
        return None
    return Passes(last=now, again_at=latest + slack if now < latest + slack else None)


# -- progress


@dataclass(frozen=True, kw_only=True)
class Drain:
    """How draining one backlog queue goes on."""

    queue: EntityPath
    at: datetime
    forwarded: int = 0
    dead_lettered: int = 0
    #: Messages a second, smoothed; 0 while nothing moves.
    rate: float = 0.0
    #: When messages were last forwarded; None if nobody here saw it.
    moved_at: datetime | None = None
    #: Destinations that do not take messages, as far as they were met.
    waiting_for: tuple[EntityPath, ...] = ()


#: Weight of the latest measurement a second after the one before; older ones fade.
_SMOOTHING_S = 10.0
#: A first batch is no measure of the speed: what was sent at once counts as sent in a second.
_FIRST_S = 1.0

#: After so long without a message, nothing moves: a rate that only fades would promise an end some day.
STILL_AFTER = timedelta(seconds=30)


def advance(drain: Drain, *, forwarded: int, now: datetime) -> Drain:
    """The drain with so many more messages forwarded since it was last looked at."""
    elapsed = (now - drain.at).total_seconds()
    moved_at = now if forwarded else drain.moved_at
    if elapsed <= 0:
        return replace(drain, forwarded=drain.forwarded + forwarded, moved_at=moved_at)
    weight = min(elapsed / _SMOOTHING_S, 1.0)
    is_first = drain.rate == 0.0
    rate_now = forwarded / max(elapsed, _FIRST_S if is_first else 0.0)
    rate = rate_now if is_first else (1 - weight) * drain.rate + weight * rate_now
    if moved_at is None or now - moved_at >= STILL_AFTER:
        rate = 0.0
    return replace(drain, at=now, forwarded=drain.forwarded + forwarded, rate=rate, moved_at=moved_at)


def as_of_now(drain: Drain, now: datetime) -> Drain:
    """As it was told some time ago: whoever drains tells often, so of an old word the rate does not hold any more."""
    return drain if now - drain.at < STILL_AFTER else replace(drain, rate=0.0)


#: Messages a second below which nothing moves, for all that people can tell.
SLOWEST_RATE = 0.001


def time_left(waiting: int, rate: float) -> timedelta | None:
    """None where nothing moves, so that nobody can tell."""
    if waiting == 0:
        return timedelta(0)
    return timedelta(seconds=waiting / rate) if rate >= SLOWEST_RATE else None
