"""The factories of a pair: one for each side, open, closed or faulted, and what one owes the other.

A side that is down stays as it is, with its first cause, until the pair is opened again. When one side goes down, its
partner has the partner grace to follow; one that does not is faulted, with a reason that names the other side. So both
are open in the end, or neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeAlias

from shared.domain.pair import Side

#: What people and programs may say about a close or a fault.
REASON_LENGTH_MAX = 500
#: Who did it, in a few words.
BY_LENGTH_MAX = 100
#: Who faults a partner.
COORDINATOR = "partner coordination"


class FactoryState(Enum):
    OPEN = "open"
    CLOSED = "closed"
    FAULTED = "faulted"


@dataclass(frozen=True, kw_only=True)
class Factory:
    state: FactoryState = FactoryState.OPEN
    since: datetime | None = None
    reason: str = ""
    by: str = ""
    #: Counts the changes, so that two states of one side are never taken for each other.
    version: int = 0

    @property
    def is_open(self) -> bool:
        return self.state is FactoryState.OPEN


@dataclass(frozen=True, kw_only=True)
class Factories:
    """Both sides, as they were at one moment."""

    primary: Factory = Factory()
    secondary: Factory = Factory()

    def of(self, side: Side) -> Factory:
        return self.primary if side is Side.PRIMARY else self.secondary

    def having(self, side: Side, factory: Factory) -> Factories:
        return replace(self, primary=factory) if side is Side.PRIMARY else replace(self, secondary=factory)

    @property
    def is_down(self) -> bool:
        """Neither side is open: the pair is closed, or faulted."""
        return not self.primary.is_open and not self.secondary.is_open


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why a factory changes, by whom, and when."""

    reason: str
    by: str
    at: datetime


def close(factory: Factory, cause: Cause) -> Factory:
    return _down(factory, FactoryState.CLOSED, cause)


def fault(factory: Factory, cause: Cause) -> Factory:
    return _down(factory, FactoryState.FAULTED, cause)


def _down(factory: Factory, state: FactoryState, cause: Cause) -> Factory:
    """The first cause is the one to know: whoever is down already stays as it is."""
    return _changed(factory, state, cause) if factory.is_open else factory


def open_again(factories: Factories, cause: Cause) -> Factories:
    """Both sides, also the one that is open: the other's grace is over with that, whatever was decided about it."""
    if factories.primary.is_open and factories.secondary.is_open:
        return factories
    return Factories(
        primary=_changed(factories.primary, FactoryState.OPEN, cause),
        secondary=_changed(factories.secondary, FactoryState.OPEN, cause),
    )


def _changed(factory: Factory, state: FactoryState, cause: Cause) -> Factory:
    return Factory(
        state=state,
        since=cause.at,
        reason=_cut(cause.reason, REASON_LENGTH_MAX),
        by=_cut(cause.by, BY_LENGTH_MAX),
        version=factory.version + 1,
    )


@dataclass(frozen=True)
class Nothing:
    """Both are open, or neither."""


@dataclass(frozen=True, kw_only=True)
class WaitUntil:
    """The partner may still follow by itself."""

    at: datetime
    partner: Side


@dataclass(frozen=True, kw_only=True)
class FaultPartner:
    side: Side
    reason: str


Verdict: TypeAlias = Nothing | WaitUntil | FaultPartner


def judge_partner(primary: Factory, secondary: Factory, now: datetime, grace: timedelta) -> Verdict:
    """What is to be done so that both sides are open, or neither."""
    if primary.is_open is secondary.is_open:
        return Nothing()
    down, factory = (Side.SECONDARY, secondary) if primary.is_open else (Side.PRIMARY, primary)
    # A side that is down since nobody knows when has been so for long enough.
    due = factory.since + grace if factory.since is not None else now
    if now < due:
        return WaitUntil(at=due, partner=down.partner)
    return FaultPartner(side=down.partner, reason=_reason(down, factory, grace))


def _reason(down: Side, factory: Factory, grace: timedelta) -> str:
    waited = f"{grace.total_seconds():g} s"
    text = f"The {down.value} side is {factory.state.value} and this side did not follow within {waited}."
    return _cut(f"{text} Reason given there: {factory.reason}" if factory.reason else text, REASON_LENGTH_MAX)


def fault_partner(factories: Factories, now: datetime, grace: timedelta) -> Factories:
    """The pair after the verdict was carried out, judged by the states as they are at this moment."""
    verdict = judge_partner(factories.primary, factories.secondary, now, grace)
    if not isinstance(verdict, FaultPartner):
        return factories
    cause = Cause(reason=verdict.reason, by=COORDINATOR, at=now)
    return factories.having(verdict.side, fault(factories.of(verdict.side), cause))


def changed_sides(before: Factories, after: Factories) -> list[Side]:
    return [side for side in Side if before.of(side) != after.of(side)]


def both(factories: Mapping[Side, Factory]) -> Factories:
    """From a mapping, in which a side that never changed may be missing."""
    return Factories(primary=factories.get(Side.PRIMARY, Factory()), secondary=factories.get(Side.SECONDARY, Factory()))


def _cut(text: str, length: int) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= length else f"{one_line[: length - 3]}..."
