"""Brings keys of partitioned entities back to the primary: pings with the keys themselves, then a look at the backlog.

A key that is diverted goes home in two steps. A ping with that very key shows that its partition takes messages again:
from then on the syphon may forward what waits of it, while new messages still follow into the backlog. When nothing of
it is left there, new messages go to the primary again: none of them can overtake an older one.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.domain.availability import Event, Route, Unavailable, route
from shared.domain.envelope import destination_of
from shared.domain.pair import EntityPath
from shared.domain.partitions import entity_of, key_lane, read_key_lane
from shared.domain.syphon import BacklogMessage, waiting_keys
from shared.errors import EnvelopeError
from shared.ports import BacklogQueue, BacklogQueues, BacklogTrouble, Clock, Unreadable
from shared.services.entity_facts import EntityFacts
from shared.services.pair_state import PairState
from shared.services.pings import Pings
from shared.services.retired import Retired

_LOGGER = logging.getLogger(__name__)

#: Keys of one entity pinged in a round while none of them answers; the next round goes on with others.
PINGS_A_ROUND = 16
#: Keys, of all entities, pinged at the same time.
AT_ONCE_MAX = 16
#: How long a round may begin pings; the next one goes on where it ended.
ROUND_SECONDS_MAX = 30.0
FACTS_SECONDS_MAX = 5.0
LOOK_MAX = 250
#: Looks at one backlog queue in a round; keys stay diverted while more than this is left in it.
LOOKS_MAX = 40
LOOK_SECONDS_MAX = 10.0
#: With no more than this of a key left in the backlog, its sends are held back for a moment while that goes home.
HOLD_FROM = 250
HOLD_SECONDS = 4.0
LOOK_AGAIN_SECONDS = 0.25


@dataclass(frozen=True, kw_only=True)
class _Look:
    """What a look through backlog queues found."""

    #: How many messages of each key, in lower case.
    lanes: Counter[str]
    is_complete: bool


class _Round(NamedTuple):
    """What bounds one round of pings."""

    at_once: asyncio.Semaphore
    #: In the loop's time.
    until: float


_Queues = dict[EntityPath, BacklogQueue]


class KeyReturns:
    def __init__(
        self,
        *,
        state: PairState,
        pings: Pings,
        facts: EntityFacts,
        queues: BacklogQueues,
        clock: Clock,
        ping_timeout: timedelta,
    ) -> None:
        self._state = state
        self._pings = pings
        self._facts = facts
        self._queues = queues
        self._clock = clock
        self._ping_timeout_s = ping_timeout.total_seconds()
        self._retired = Retired()
        #: Where the next round of pings begins, by entity; who was asked last is at the end.
        self._turns: dict[str, int] = {}

    async def tend(self) -> list[EntityPath]:
        """One round; the key lanes that are on their old way again."""
        sick: dict[str, list[EntityPath]] = {}
        for lane, state in self._state.key_lanes():
            if isinstance(state, Unavailable) and state.healed_at is None:
                sick.setdefault(entity_of(lane), []).append(lane)
        waiting_longest = {name: place for place, name in enumerate(self._turns)}
        turn = sorted(sick.items(), key=lambda item: waiting_longest.get(item[0].lower(), -1))
        round_ = _Round(asyncio.Semaphore(AT_ONCE_MAX), asyncio.get_running_loop().time() + ROUND_SECONDS_MAX)
        await asyncio.gather(
            *(
                self._ping(EntityPath(path), sorted(lanes), round_)
                for path, lanes in turn
                if route(self._state.availability(EntityPath(path))) is Route.PRIMARY
            )
        )
        return await self._return_drained()

    # -- pings

    async def _ping(self, path: EntityPath, lanes: list[EntityPath], round_: _Round) -> None:
        """A few keys in turn; where one answers, all others are asked as well, since partitions come back whole."""
        start = self._turns.get(path.lower(), 0) % len(lanes)
        turn = lanes[start:] + lanes[:start]
        asked, healed = await self._ask(path, turn[:PINGS_A_ROUND], round_)
        if healed:
            asked += (await self._ask(path, turn[PINGS_A_ROUND:], round_))[0]
        if asked:
            self._turns.pop(path.lower(), None)
            self._turns[path.lower()] = start + asked

    async def _ask(self, path: EntityPath, lanes: Sequence[EntityPath], round_: _Round) -> tuple[int, bool]:
        """How many could be asked in this round, and whether any of them answered."""
        answers = await asyncio.gather(*(self._answers(path, lane, round_) for lane in lanes))
        return sum(answer is not None for answer in answers), any(answers)

    async def _answers(self, path: EntityPath, lane: EntityPath, round_: _Round) -> bool | None:
        """Whether its partition takes messages again; None when the round was over before it could be asked."""
        # A key of which only the digest is known: any will do, and a failed forward sends it back here.
        key = read_key_lane(lane).key or str(uuid.uuid4())
        async with round_.at_once:
            if asyncio.get_running_loop().time() >= round_.until:
                return None
            problem = await self._pings.all_pass(path, [key], seconds=self._ping_timeout_s)
        if problem is None:
            self._state.happened(lane, Event.KEY_HEALED, "")
        else:
            _LOGGER.info("ping of %s failed: %s", lane, problem.detail)
        return problem is None

    # -- the look

    async def _return_drained(self) -> list[EntityPath]:
        healed = [
            lane
            for lane, state in self._state.key_lanes()
            if isinstance(state, Unavailable) and state.healed_at is not None
        ]
        # Whose message it is that waits can be told only where it is known what its entity goes by.
        entities = {entity_of(lane) for lane in healed}
        await asyncio.gather(*(self._facts.learnt(path, seconds=FACTS_SECONDS_MAX) for path in entities))
        healed = [lane for lane in healed if self._facts.is_told(entity_of(lane))]
        if not healed:
            return []
        queues = {path: self._queues.open(path) for path in self._state.rotation.queues}
        try:
            returned, waiting = await self._return_what_is_gone(healed, queues)
            few = [] if waiting is None else [lane for lane in healed if waiting[lane.lower()] <= HOLD_FROM]
            return returned + await self._return_held([lane for lane in few if lane not in returned], queues)
        finally:
            for queue in queues.values():
                self._retired.take(queue)

    async def _return_held(self, lanes: list[EntityPath], queues: _Queues) -> list[EntityPath]:
        """Keys that are never quiet would never come home: their sends wait for the last of their backlog, briefly."""
        returned: list[EntityPath] = []
        until = asyncio.get_running_loop().time() + HOLD_SECONDS
        for lane in lanes:
            self._state.hold(lane)
        try:
            while lanes and asyncio.get_running_loop().time() < until:
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
                gone, _ = await self._return_what_is_gone(lanes, queues)
                returned += gone
                lanes = [lane for lane in lanes if lane not in gone]
        finally:
            for lane in lanes:
                self._state.let_go(lane)
        return returned

    async def _return_what_is_gone(
        self, lanes: list[EntityPath], queues: _Queues
    ) -> tuple[list[EntityPath], Counter[str] | None]:
        """Of these keys, those that went home; and how much waits of each, None where that cannot be told."""
        looked_at = self._clock.now()
        looks = await asyncio.gather(*(self._look_through(path, queue) for path, queue in queues.items()))
        if not all(look.is_complete for look in looks):
            return [], None
        waiting = sum((look.lanes for look in looks), Counter[str]())
        return self._returned((lane for lane in lanes if lane.lower() not in waiting), looked_at), waiting

    def _returned(self, lanes: Iterable[EntityPath], looked_at: datetime) -> list[EntityPath]:
        return [lane for lane in lanes if self._state.key_drained(lane, looked_at=looked_at)]

    async def _look_through(self, path: EntityPath, queue: BacklogQueue) -> _Look:
        try:
            async with asyncio.timeout(LOOK_SECONDS_MAX):
                return await self._look(queue)
        except (BacklogTrouble, Unreadable, TimeoutError) as error:
            _LOGGER.info("what waits in %s cannot be told: %s", path, error)
            return _Look(lanes=Counter(), is_complete=False)

    async def _look(self, queue: BacklogQueue) -> _Look:
        lanes: Counter[str] = Counter()
        cursor = 1
        for _ in range(LOOKS_MAX):
            page = await queue.look(cursor, LOOK_MAX)
            if not page:
                return _Look(lanes=lanes, is_complete=True)
            lanes.update(lane for message in page if (lane := self._lane(message)) is not None)
            cursor = page[-1].sequence_number + 1
        return _Look(lanes=lanes, is_complete=False)

    def _lane(self, message: BacklogMessage) -> str | None:
        try:
            destination = destination_of(message.message)
        except EnvelopeError:
            return None
        key = self._facts.key_of(destination, waiting_keys(message.message))
        return None if key is None else key_lane(destination, key).lower()

    async def close(self) -> None:
        await self._retired.settled()
