"""What can go wrong with a send, whose fault it is, and whether it counts towards failover.

The adapter gives every exception of the SDK one of these names, once; everything else decides by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Blame(Enum):
    SERVICE = "service"
    CALLER = "caller"
    CONFIGURATION = "configuration"


class Counts(Enum):
    """Whether a failure is a reason to fail over."""

    YES = "yes"
    NEVER = "never"
    #: Only for an entity that has accepted a message before: otherwise its name is the caller's mistake.
    IF_ENTITY_IS_KNOWN = "if the entity is known"


@dataclass(frozen=True)
class Judgement:
    blame: Blame
    counts: Counts
    #: Trying the same entity again within the attempt's time can help.
    retry: bool = False
    #: The connection is of no use any more, or may not be.
    rebuild: bool = False


class Failure(Enum):
    TIMEOUT = "time-out"
    CONNECTION = "connection refused, reset or lost"
    SERVICE_ERROR = "error inside the service"
    NAMESPACE_NOT_FOUND = "namespace not found"
    ENTITY_DISABLED = "entity disabled"
    ENTITY_FULL = "entity full"
    BUSY = "server busy"
    ENTITY_NOT_FOUND = "entity not found"
    UNAUTHORIZED = "unauthorized"
    MESSAGE_TOO_LARGE = "message too large"
    MESSAGE_REJECTED = "message rejected"

    @property
    def judgement(self) -> Judgement:
        return JUDGEMENTS[self]


JUDGEMENTS = {
    Failure.TIMEOUT: Judgement(Blame.SERVICE, Counts.YES, rebuild=True),
    Failure.CONNECTION: Judgement(Blame.SERVICE, Counts.YES, retry=True, rebuild=True),
    Failure.SERVICE_ERROR: Judgement(Blame.SERVICE, Counts.YES, retry=True, rebuild=True),
    # Its name does not resolve: to a caller no different from a namespace that cannot be reached.
    Failure.NAMESPACE_NOT_FOUND: Judgement(Blame.SERVICE, Counts.YES, retry=True, rebuild=True),
    Failure.ENTITY_DISABLED: Judgement(Blame.SERVICE, Counts.YES, rebuild=True),
    Failure.ENTITY_FULL: Judgement(Blame.SERVICE, Counts.YES),
    # Not by itself: whoever is still busy when the attempt's time is up has timed out, and is reported so.
    Failure.BUSY: Judgement(Blame.SERVICE, Counts.NEVER, retry=True),
    Failure.ENTITY_NOT_FOUND: Judgement(Blame.CALLER, Counts.IF_ENTITY_IS_KNOWN, rebuild=True),
    Failure.UNAUTHORIZED: Judgement(Blame.CONFIGURATION, Counts.NEVER, rebuild=True),
    Failure.MESSAGE_TOO_LARGE: Judgement(Blame.CALLER, Counts.NEVER),
    Failure.MESSAGE_REJECTED: Judgement(Blame.CALLER, Counts.NEVER),
}


def counts(failure: Failure, *, entity_is_known: bool) -> bool:
    match failure.judgement.counts:
        case Counts.YES:
            return True
        case Counts.NEVER:
            return False
        case Counts.IF_ENTITY_IS_KNOWN:
            return entity_is_known


def is_about_one_message(failure: Failure) -> bool:
    """Whether the neighbours in a batch may still be welcome."""
    return failure in (Failure.MESSAGE_TOO_LARGE, Failure.MESSAGE_REJECTED)


def is_about_the_entity(failure: Failure) -> bool:
    """Whether everybody who waits for the same entity would get the same answer."""
    return failure in (Failure.UNAUTHORIZED, Failure.ENTITY_NOT_FOUND, Failure.ENTITY_DISABLED)
