"""Sends a message to its entity, or, while that is unavailable, to a backlog queue on its behalf."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shared.domain.availability import Available, Event, Route, Suspect, Unavailable, route
from shared.domain.backlog import is_backlog_path
from shared.domain.envelope import refuse_transfer_properties
from shared.domain.factory import FactoryState
from shared.domain.failures import Failure, counts
from shared.domain.keys import check_keys
from shared.domain.message import Outgoing
from shared.domain.pair import EntityPath, Pair, Side
from shared.domain.partitions import entity_of, is_key_lane, key_lane, may_be_a_partitions_fault
from shared.errors import (
    EntityNotFound,
    MessageTooLarge,
    Misconfigured,
    Overloaded,
    PairClosed,
    PairFaulted,
    PrimaryFailed,
    Rejected,
    SendError,
)
from shared.ports import Clock, Instruments, SendFailed, Telemetry
from shared.services.backlog_sender import BacklogSender
from shared.services.entity_check import EntityCheck
from shared.services.entity_facts import EntityFacts
from shared.services.journeys import Journey, Sent, accepted_events, ids_of, refused_events, sent_by
from shared.services.lane import Lane
from shared.services.lanes import Lanes
from shared.services.pair_state import TOO_MANY_ENTITIES, PairState
from shared.services.parcels import Delivered, Flushed, LaneFull
from shared.telemetry_events import CredentialsRefused, FailureCounted, TelemetryEvent

_LOGGER = logging.getLogger(__name__)

#: Entities whose largest message is remembered; anybody may name any number of them.
PATHS_MAX = 10_000
#: How long a send of a key that is about to come home may be held back; half its deadline where that is shorter.
HOLD_SECONDS_MAX = 5.0
#: How often a message of a partitioned entity gets in line again, after its turn did not come in time.
TURNS_MAX = 4
#: How long a failed send waits to be told whether its entity is partitioned, if that is not known yet.
FACTS_SECONDS_MAX = 2.0
# Looking up a member of an enumeration takes as long as a call.
_PRIMARY, _STRAIGHT, _DETOUR = Side.PRIMARY, Route.PRIMARY, Route.BACKLOG


@dataclass(frozen=True, kw_only=True)
class SendOptions:
    send_deadline: timedelta
    attempt_timeout: timedelta
    partitioned_attempt_timeout: timedelta
    divert_while_suspect: bool


class FailoverSender:
    def __init__(
        self,
        *,
        pair: Pair,
        options: SendOptions,
        state: PairState,
        lanes: Lanes,
        backlog: BacklogSender,
        clock: Clock,
        telemetry: Telemetry,
        facts: EntityFacts,
        check: EntityCheck,
        instruments: Instruments | None = None,
    ) -> None:
        self._pair = pair
        self._instruments = instruments
        self._send_deadline_s = options.send_deadline.total_seconds()
        self._attempt_s = min(options.attempt_timeout.total_seconds(), self._send_deadline_s)
        self._partitioned_attempt_s = options.partitioned_attempt_timeout.total_seconds()
        self._hold_s = min(HOLD_SECONDS_MAX, self._send_deadline_s / 2)
        self._diverts_while_suspect = options.divert_while_suspect
        self._state = state
        self._lanes = lanes
        self._backlog = backlog
        self._clock = clock
        self._telemetry = telemetry
        self._facts = facts
        self._check_entity = check
        #: Largest body sent to each entity, for the warning that its messages may not fit the backlog.
        self.largest_body_bytes: dict[EntityPath, int] = {}
        #: Messages accepted since the start, by route. An addition for each send is all that counting them costs.
        self.sent_to_primary = self.sent_to_backlog = 0
        state.on_unavailable = self._stop_sending_to_primary

    def send(
        self, path: EntityPath, messages: Sequence[Outgoing], *, trace: str | None = None
    ) -> Coroutine[Any, Any, Sent]:
        """Sends the messages as one: all are accepted, or none, or an error of shared.errors says why not.

        `trace` is the caller's traceparent. Where no traces are collected, asking is all they cost.
        """
        if self._instruments is None:
            return self._send(path, messages, None)
        return self._traced_send(self._instruments, path, messages, trace)

    async def _traced_send(
        self, instruments: Instruments, path: EntityPath, messages: Sequence[Outgoing], parent: str | None
    ) -> Sent:
        span = instruments.start_send(path, messages, parent=parent)
        try:
            sent = await self._send(path, messages, span.context)
        except BaseException as error:
            span.refused(type(error).__name__)
            raise
        span.accepted(via=sent.via, backlog_queue=sent.backlog_queue)
        return sent

    async def _send(self, path: EntityPath, messages: Sequence[Outgoing], trace: str | None) -> Sent:
        self._check(path, messages)
        now = asyncio.get_running_loop().time()
        entity = self._state.untroubled(path, now)
        if entity is None or self._facts.is_partitioned(path) is not False:
            if not self._state.is_fresh(now):
                await self._state.in_use()
            self._refuse_when_closed()
            return await self._travel(self._journey(path, messages, now, trace))
        # Nearly always: nothing is to be decided and nothing to be learnt, so nothing is prepared for either.
        lane = self._lanes.to(_PRIMARY, path)
        lane.mixes_keys = True
        try:
            delivered = await lane.send(messages, deadline=now + self._attempt_s)
        except Exception as failed:
            return await self._travel(self._journey(path, messages, now, trace), failed)
        if not isinstance(entity.availability, Available):
            self._state.succeeded(path)
        if delivered.possible_duplicate or self._telemetry.wants_every_send:
            journey = self._journey(path, messages, now, trace)
            sent = sent_by(journey, delivered)
            self._record(journey, sent)
            return sent
        self.sent_to_primary += len(messages)
        return Sent(_STRAIGHT, ids_of(messages))

    def _journey(self, path: EntityPath, messages: Sequence[Outgoing], started: float, trace: str | None) -> Journey:
        keys = self._facts.keys_of(path, messages)
        return Journey(path, messages, keys, started, started + self._send_deadline_s, trace=trace)

    async def _travel(self, journey: Journey, failed: Exception | None = None) -> Sent:
        """All the way, or what is left of it after it failed at the primary."""
        try:
            if failed is not None:
                sent = await self._not_sent_to_primary(journey, failed)
            elif (lane := self._diverted_lane(journey)) is not None:
                if self._state.is_held(lane):
                    await self._state.while_held(lane, self._hold_s)
                    lane = self._diverted_lane(journey)
                sent = await (self._send_to_primary(journey) if lane is None else self._divert(journey, lane))
            else:
                sent = await self._send_to_primary(journey)
        except Exception as error:
            if isinstance(error, SendError):
                error.indefinite |= journey.indefinite
            self._record_refusal(journey, error)
            raise
        self._record(journey, sent)
        return sent

    async def _send_to_primary(self, journey: Journey) -> Sent:
        lane, deadline = self._primary_lane(journey)
        try:
            delivered = await lane.send(journey.messages, deadline=deadline, key=journey.key)
        except (SendFailed, Flushed, LaneFull) as failed:
            return await self._not_sent_to_primary(journey, failed)
        return self._arrived(journey, delivered)

    def _check(self, path: EntityPath, messages: Sequence[Outgoing]) -> None:
        largest = self.largest_body_bytes
        if path not in largest:
            if is_backlog_path(self._pair.primary, path):
                raise Rejected("This path is reserved: backlog queues are filled by the pair alone.", path=path)
            if len(largest) < PATHS_MAX:
                largest[path] = 0
        for message in messages:
            check_keys(message.message_id, message.session_id, message.partition_key)
            if message.property_names:
                refuse_transfer_properties(message.property_names)
            size = message.body_bytes
            if size > largest.get(path, size):
                largest[path] = size

    def _refuse_when_closed(self) -> None:
        if self._state.is_open:
            return
        factories = self._state.factories
        reasons = "; ".join(f"{side.value} {one.state.value}: {one.reason}" for side, one in factories.items())
        faulted = any(factory.state is FactoryState.FAULTED for factory in factories.values())
        error = PairFaulted if faulted else PairClosed
        raise error(f"The pair takes no messages until it is opened again ({reasons}).", pair=self._pair.name)

    # -- the primary

    def _diverted_lane(self, journey: Journey) -> EntityPath | None:
        """The entity, or the lane of a key, if that is what sends the messages to the backlog."""
        path = journey.path
        if route(self._state.availability(path)) is _DETOUR:
            return path
        for key in journey.keys:
            lane = self._state.lane_of(path, key)
            if lane is not path and route(self._state.availability(lane)) is _DETOUR:
                return lane
        return None

    async def _blamed(self, journey: Journey, failed: SendFailed, reason: str) -> EntityPath | None:
        """Whom the failure counts against: of a partitioned entity it may be one key's alone, or nobody's (None).

        A message whose turn did not come was late for others' sake: then only the entity itself can tell.
        """
        path = journey.path
        if not may_be_a_partitions_fault(failed.failure):
            return path
        left_s = journey.deadline - asyncio.get_running_loop().time()
        if not self._facts.is_told(path):
            # An instance that has just started: one sick key of its first messages is no reason to fail over all.
            await self._facts.learnt(path, seconds=min(left_s / 4, FACTS_SECONDS_MAX))
        # Since it set out, somebody else may have been told.
        journey.keys = self._facts.keys_of(path, journey.messages)
        if not self._facts.is_partitioned(path):
            return path
        if failed.tried:
            key = journey.keys[0]
            return path if key is None else self._check_entity.blame(path, key, reason)
        answers = await self._check_entity.answers(path, reason, seconds=left_s / 2)
        return path if answers is False else None

    def _arrived(self, journey: Journey, delivered: Delivered) -> Sent:
        self._state.succeeded(journey.path)
        self._state.key_succeeded(journey.path, journey.keys[0])
        self._facts.learn(journey.path)
        return sent_by(journey, delivered)

    def _primary_lane(self, journey: Journey) -> tuple[Lane, float]:
        partitioned = self._facts.is_partitioned(journey.path)
        attempt_s = self._partitioned_attempt_s if partitioned else self._attempt_s
        lane = self._lanes.to(Side.PRIMARY, journey.path)
        # Of an entity that nobody could ask about, batches keep to one key each.
        lane.mixes_keys = partitioned is False
        # From now on, since what came before, such as the first look at shared state, was not the primary's doing.
        return lane, min(journey.deadline, asyncio.get_running_loop().time() + attempt_s)

    async def _not_sent_to_primary(self, journey: Journey, failed: Exception) -> Sent:
        match failed:
            case LaneFull():
                raise Overloaded(path=journey.path) from None
            case SendFailed():
                return await self._primary_failed(journey, failed)
            case Flushed():
                journey.indefinite |= failed.indefinite
                return await self._divert(journey, self._diverted_lane(journey) or journey.path)
            case _:
                raise failed

    async def _primary_failed(self, journey: Journey, failed: SendFailed) -> Sent:
        path = journey.path
        journey.indefinite |= failed.indefinite
        if not counts(failed.failure, entity_is_known=self._state.has_accepted(path)):
            raise self._refusal(Side.PRIMARY, path, failed)
        reason = f"{failed.failure.value}: {failed.detail}"
        self._facts.learn(path)
        blamed = await self._blamed(journey, failed, reason)
        if blamed is None:
            return await self._try_again(journey)
        journey.failed_places += 1
        self._telemetry.emit(
            FailureCounted(at=self._clock.now(), path=path, failure=failed.failure.value, detail=failed.detail)
        )
        if not self._state.has_room_for(blamed):
            raise Overloaded(TOO_MANY_ENTITIES, path=path, indefinite=journey.indefinite)
        state = self._state.happened(blamed, Event.SEND_FAILED, reason)
        diverts = isinstance(state, Unavailable) or (isinstance(state, Suspect) and self._diverts_while_suspect)
        if diverts:
            return await self._divert(journey, blamed)
        text = f"The primary failed ({reason}) and failover is not engaged; send again."
        raise PrimaryFailed(text, path=path, indefinite=journey.indefinite)

    async def _try_again(self, journey: Journey) -> Sent:
        """The entity is well and the message was not tried: again, with half of the time that is left."""
        diverted = self._diverted_lane(journey)
        if diverted is not None:
            return await self._divert(journey, diverted)
        journey.turns_missed += 1
        if journey.turns_missed >= TURNS_MAX:
            raise Overloaded(path=journey.path, indefinite=journey.indefinite)
        lane, deadline = self._primary_lane(journey)
        half_way = (asyncio.get_running_loop().time() + journey.deadline) / 2
        try:
            delivered = await lane.send(journey.messages, deadline=min(deadline, half_way), key=journey.key)
        except (SendFailed, Flushed, LaneFull) as failed:
            return await self._not_sent_to_primary(journey, failed)
        return self._arrived(journey, delivered)

    def _refusal(self, side: Side, path: EntityPath, failed: SendFailed) -> Exception:
        """What the caller is told about a failure that is not the service's."""
        match failed.failure:
            case Failure.ENTITY_NOT_FOUND:
                self._lanes.drop(side, path)
                return EntityNotFound(path=path)
            case Failure.UNAUTHORIZED:
                return self._misconfigured(side, path, failed)
            case Failure.MESSAGE_TOO_LARGE:
                return MessageTooLarge(f"The message is too large: {failed.detail}.", path=path)
            case Failure.MESSAGE_REJECTED:
                return Rejected(f"The message was rejected: {failed.detail}", path=path)
            case _:
                return PrimaryFailed(f"{failed.failure.value}: {failed.detail}", path=path)

    def _misconfigured(self, side: Side, path: EntityPath, failed: SendFailed) -> Misconfigured:
        if side is Side.PRIMARY:
            self._state.happened(path, Event.CREDENTIALS_REFUSED, "")
        _LOGGER.critical(
            "the %s namespace refuses this app's credentials for %s; nothing fails over for that: %s",
            side.value,
            path,
            failed.detail,
        )
        self._telemetry.emit(
            CredentialsRefused(at=self._clock.now(), side=side.value, path=path, detail=failed.detail)
        )
        return Misconfigured(f"The {side.value} namespace refused the app's credentials.", path=path)

    def _stop_sending_to_primary(self, path: EntityPath) -> None:
        entity = entity_of(path)
        lane = self._lanes.find(Side.PRIMARY, entity)
        if lane is None:
            return
        if not is_key_lane(path):
            lane.flush()
            return

        def is_of_the_lane(key: Hashable) -> bool:
            return isinstance(key, str) and key_lane(entity, key).lower() == path.lower()

        lane.flush(is_of_the_lane)

    # -- the backlog

    async def _divert(self, journey: Journey, lane: EntityPath) -> Sent:
        self._state.diverting(lane, 1)
        try:
            queue, delivered = await self._backlog.send(
                journey.path,
                journey.messages,
                started=journey.started,
                deadline=journey.deadline,
                lane=lane,
                trace=journey.trace,
            )
        except SendFailed as failed:
            raise self._refusal(Side.SECONDARY, journey.path, failed) from failed
        except LaneFull:
            raise Overloaded(path=journey.path) from None
        finally:
            self._state.diverting(lane, -1)
        return sent_by(journey, delivered, queue)

    # -- records

    def _record(self, journey: Journey, sent: Sent) -> None:
        if sent.backlog_queue is None:
            self.sent_to_primary += len(journey.messages)
        else:
            self.sent_to_backlog += len(journey.messages)
        if sent.backlog_queue is None and not sent.possible_duplicate and not self._telemetry.wants_every_send:
            return
        loop = asyncio.get_running_loop()
        # Not on the caller's time, nor at its risk: what is accepted is not to fail for want of a record.
        loop.call_soon(self._tell, accepted_events(journey, sent, self._clock.now(), loop.time() - journey.started))

    def _record_refusal(self, journey: Journey, error: Exception) -> None:
        journey.indefinite |= isinstance(error, SendError) and error.indefinite
        seconds = asyncio.get_running_loop().time() - journey.started
        self._tell(refused_events(journey, type(error).__name__, self._clock.now(), seconds))

    def _tell(self, events: Iterable[TelemetryEvent]) -> None:
        for event in events:
            self._telemetry.emit(event)

    async def settled(self) -> None:
        """Returns when all that was accepted is told; for the end of a program."""
        await asyncio.sleep(0)
