"""Closes, faults and opens the factories of the pair, and carries out what one of them owes the other.

Every change is decided on both sides as they are at that moment and written only if neither has changed since. It takes
effect in this instance at once, in others within STATE_REFRESH.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.domain.factory import Cause, Factories, Verdict, changed_sides, judge_partner, open_again
from shared.domain.factory import close as closed
from shared.domain.factory import fault as faulted
from shared.domain.factory import fault_partner as partner_faulted
from shared.domain.pair import Side
from shared.errors import StateUnreachable
from shared.ports import Clock, FactoryStore, StorageTrouble, Telemetry
from shared.services.pair_state import PairState
from shared.telemetry_events import FactoryChanged

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Changed:
    """The factories around one change; both are the same when there was nothing to change."""

    before: Factories
    after: Factories

    @property
    def sides(self) -> list[Side]:
        return changed_sides(self.before, self.after)


class Closing:
    """Every call may raise StateUnreachable; then nothing is changed."""

    def __init__(
        self, *, store: FactoryStore, state: PairState, clock: Clock, telemetry: Telemetry, grace: timedelta
    ) -> None:
        self._store = store
        self._state = state
        self._clock = clock
        self._telemetry = telemetry
        self.grace = grace

    async def look(self) -> Factories:
        try:
            return await self._store.load()
        except StorageTrouble as error:
            raise StateUnreachable(f"Shared state cannot be read: {error}.") from error

    async def close(self, side: Side, *, reason: str, by: str) -> Changed:
        cause = self._cause(reason, by)
        return await self._change(lambda both: both.having(side, closed(both.of(side), cause)))

    async def fault(self, side: Side, *, reason: str, by: str) -> Changed:
        cause = self._cause(reason, by)
        return await self._change(lambda both: both.having(side, faulted(both.of(side), cause)))

    async def open(self, *, reason: str, by: str) -> Changed:
        cause = self._cause(reason, by)
        return await self._change(lambda both: open_again(both, cause))

    async def fault_partner(self, now: datetime, grace: timedelta) -> Changed:
        """Judges once more, by what is true now: whoever followed or was opened meanwhile is left alone."""
        return await self._change(lambda both: partner_faulted(both, now, grace))

    def judge(self, both: Factories) -> Verdict:
        return judge_partner(both.primary, both.secondary, self._clock.now(), self.grace)

    def _cause(self, reason: str, by: str) -> Cause:
        return Cause(reason=reason, by=by, at=self._clock.now())

    async def _change(self, decide: Callable[[Factories], Factories]) -> Changed:
        try:
            before, after = await self._store.change(decide)
        except StorageTrouble as error:
            raise StateUnreachable(f"Shared state cannot be reached, so nothing was changed: {error}.") from error
        changed = Changed(before=before, after=after)
        self._state.set_factories({side: after.of(side) for side in Side})
        for side in changed.sides:
            self._announce(side, changed)
        return changed

    def _announce(self, side: Side, changed: Changed) -> None:
        before, after = changed.before.of(side), changed.after.of(side)
        names = (before.state.value, after.state.value)
        level = logging.INFO if after.is_open else logging.WARNING
        _LOGGER.log(level, "%s side: %s -> %s by %s: %s", side.value, *names, after.by, after.reason)
        self._telemetry.emit(
            FactoryChanged(
                at=after.since or self._clock.now(),
                side=side.value,
                before=names[0],
                after=names[1],
                reason=after.reason,
                by=after.by,
            )
        )
