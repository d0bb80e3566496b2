"""Moves batches of backlog messages: each to its entity, aside, to the dead-letter queue, or back to its place.

A backlog message is completed only after the primary has accepted it. Whatever happens in between, it comes again:
delivered twice perhaps, with the same message id, but never lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.domain.aside import Aside
from shared.domain.envelope import destination_of
from shared.domain.failures import Failure
from shared.domain.message import AmqpValue, Outgoing, outgoing
from shared.domain.pair import EntityPath
from shared.domain.partitions import entity_of, is_key_lane, key_lane
from shared.domain.syphon import (
    BacklogMessage,
    DeadLetter,
    Discard,
    Forward,
    Ring,
    Wait,
    judge,
    refusal_of,
)
from shared.errors import EnvelopeError
from shared.ports import BacklogQueue, Delivery, SendFailed
from shared.services.syphon_desk import Desk
from shared.services.syphon_forwarder import Forwarder, Outcome
from shared.telemetry_events import DeadLettered, Forwarded, ForwardInDoubt, SetAside

_LOGGER = logging.getLogger(__name__)

BATCH_MAX = 100
#: Destinations sent to at the same time.
DESTINATIONS_AT_ONCE_MAX = 8
#: With less than this left of its lock, a message is not sent any more: it might come again while it is under way.
#: Of a lock that is short as a whole, a third.
LOCK_MARGIN = timedelta(seconds=15)
#: A slow pace takes small batches, so that no lock runs out while its message waits for its turn.
PACED_BATCH_SECONDS = 10.0


@dataclass(slots=True)
class Ready:
    """A message that can go."""

    backlog: BacklogMessage
    outgoing: Outgoing
    outcome: Outcome | None = None
    #: The trace of its send, and when it was taken up, for those who follow it.
    trace: str | None = None
    started: datetime | None = None


@dataclass(slots=True)
class Handled:
    """What became of a batch."""

    forwarded: int = 0
    waiting: int = 0
    #: Not forwarded because the destination failed just now.
    failed: int = 0
    bells: list[BacklogMessage] = field(default_factory=list)
    #: The youngest of those that wait.
    youngest_waiting: datetime | None = None


@dataclass(slots=True)
class _Sorted:
    forwards: dict[EntityPath, list[Ready]] = field(default_factory=dict)
    waits: dict[EntityPath, list[BacklogMessage]] = field(default_factory=dict)
    dead: list[tuple[BacklogMessage, DeadLetter]] = field(default_factory=list)
    discards: list[BacklogMessage] = field(default_factory=list)
    bells: list[BacklogMessage] = field(default_factory=list)


@dataclass(slots=True)
class _Sent:
    accepted: list[tuple[EntityPath, Ready]] = field(default_factory=list)
    dead: list[tuple[BacklogMessage, DeadLetter]] = field(default_factory=list)
    #: Not accepted for now.
    left: dict[EntityPath, list[BacklogMessage]] = field(default_factory=dict)


class Drainer:
    """Works on one queue, for one call."""

    def __init__(
        self,
        *,
        path: EntityPath,
        queue: BacklogQueue,
        forwarder: Forwarder,
        desk: Desk,
        restart_clock: bool,
        before_aside: Callable[[], Awaitable[None]],
    ) -> None:
        self._path = path
        self._queue = queue
        self._forwarder = forwarder
        self._desk = desk
        self._restart_clock = restart_clock
        #: Called before messages are put aside, so that somebody will come for them.
        self._before_aside = before_aside
        #: What is known to be aside in this queue.
        self.aside = Aside()
        #: Keys, in lower case, of which that is everything: other calls put messages aside before, which go first.
        self.found_lanes: set[str] = set()
        #: Batches with messages that wait and are not where they are to wait yet, by destination.
        self._on_their_way: Counter[EntityPath] = Counter()
        self._at_once = asyncio.Semaphore(DESTINATIONS_AT_ONCE_MAX)
        self._margin = LOCK_MARGIN
        #: The id of a copy that is to be dead-lettered, and whether it has been.
        self.copy_id: str | None = None
        self.copy_is_buried = False

    @property
    def batch_size(self) -> int:
        rate = self._desk.pace(self._path).rate
        return BATCH_MAX if rate is None else max(1, min(BATCH_MAX, int(rate * PACED_BATCH_SECONDS)))

    async def handle(self, batch: Sequence[BacklogMessage], *, past_waiting: bool) -> Handled:
        """`past_waiting`: messages that wait are put aside to get past them; otherwise they go back to their place."""
        handled, settling = await self.send(batch, past_waiting=past_waiting)
        await settling
        return handled

    async def send(
        self, batch: Sequence[BacklogMessage], *, past_waiting: bool
    ) -> tuple[Handled, Coroutine[None, None, None]]:
        """The same up to what is left to do once the primary has answered: settling, while the next batch is sent."""
        self._margin = _margin(batch, self._desk.clock.now())
        sorted_ = self._sort(batch)
        handled = Handled(bells=sorted_.bells)
        is_patient = len(sorted_.forwards) == 1
        sending = [
            asyncio.create_task(self._deliver(path, ready, is_patient=is_patient), name=f"syphon to {path}")
            for path, ready in sorted_.forwards.items()
        ]
        if sending:
            await asyncio.wait(sending)
        for task in sending:
            task.result()
        sent = self._conclude(sorted_.forwards)
        handled.waiting, handled.youngest_waiting = _count_waits(sorted_.waits)
        handled.forwarded, handled.failed = len(sent.accepted), sum(map(len, sent.left.values()))
        self._desk.moved(self._path, forwarded=handled.forwarded)
        self._on_their_way.update([*sorted_.waits, *sent.left])
        return handled, self._settle_rest(sorted_, sent, past_waiting=past_waiting)

    def _sort(self, batch: Sequence[BacklogMessage]) -> _Sorted:
        sorted_, now = _Sorted(), self._desk.clock.now()
        for message in batch:
            verdict = judge(
                message,
                now=now,
                takes_messages=self._desk.takes_messages,
                lane_of=self._desk.lane_of,
                restart_clock=self._restart_clock,
            )
            if isinstance(verdict, Forward) and self._would_overtake(message, verdict.destination):
                verdict = Wait(destination=verdict.destination)
            match verdict:
                case Forward(destination=destination):
                    sorted_.forwards.setdefault(destination, []).append(self.ready(message, verdict))
                case Wait(destination=destination):
                    sorted_.waits.setdefault(destination, []).append(message)
                case DeadLetter():
                    sorted_.dead.append((message, verdict))
                case Discard():
                    sorted_.discards.append(message)
                case Ring():
                    sorted_.bells.append(message)
        return sorted_

    def has_found(self, lane: EntityPath) -> bool:
        return lane.lower() in self.found_lanes

    def _would_overtake(self, message: BacklogMessage, destination: EntityPath) -> bool:
        """Older messages of the same key are aside, on their way there, or not known of: it must go after them."""
        if message.is_deferred or not is_key_lane(destination):
            return False
        return not self.has_found(destination) or self.aside.has(destination) or self._on_their_way[destination] > 0

    def ready(self, backlog: BacklogMessage, verdict: Forward) -> Ready:
        message = verdict.message
        if message.properties.message_id is None:
            # Made of what stays the same however often it comes, so that duplicates can be told.
            message = message.with_properties(message_id=f"{self._path}/{backlog.sequence_number}")
        if verdict.trace is None or self._desk.instruments is None:
            return Ready(backlog, outgoing(message))
        return Ready(backlog, outgoing(message), trace=verdict.trace, started=self._desk.clock.now())

    # -- sending

    async def _deliver(self, path: EntityPath, ready: list[Ready], *, is_patient: bool) -> None:
        async with self._at_once:
            await self.deliver(path, ready, is_patient=is_patient)

    async def deliver(self, path: EntityPath, ready: list[Ready], *, is_patient: bool = False) -> None:
        """Every message has its outcome afterwards. The patient wait out throttling for as long as the locks allow."""
        todo = ready
        while todo:
            await asyncio.sleep(self._desk.take(self._path, len(todo)).total_seconds())
            if not self._locks_last(todo, timedelta(0)):
                late = SendFailed(Failure.TIMEOUT, "the messages' locks would end before they are sent")
                _give(todo, [Outcome(late)] * len(todo))
                return
            outcomes = await self._forwarder.forward(path, [one.outgoing for one in todo])
            _give(todo, outcomes)
            if any(outcome.failed is None for outcome in outcomes):
                self._desk.succeeded(path)
            busy = [one for one in todo if one.outcome and _is_busy(one.outcome)]
            if not busy:
                return
            self._desk.throttled(self._path)
            failed = busy[0].outcome.failed if busy[0].outcome else None
            assert failed is not None
            rest = self._desk.failed(path, failed).until - self._desk.clock.now()
            if not is_patient or not self._locks_last(busy, rest):
                return
            await asyncio.sleep(max(rest.total_seconds(), 0.0))
            todo = busy

    def _locks_last(self, ready: list[Ready], wait: timedelta) -> bool:
        ends = [one.backlog.locked_until for one in ready if one.backlog.locked_until is not None]
        return not ends or min(ends) - self._desk.clock.now() - wait > self._margin

    # -- settling

    def _conclude(self, forwards: dict[EntityPath, list[Ready]]) -> _Sent:
        """What the primary's answers mean for each message; a destination that failed has its rest."""
        sent = _Sent()
        for path, ready in forwards.items():
            for one in ready:
                assert one.outcome is not None
                if (failed := one.outcome.failed) is None:
                    sent.accepted.append((path, one))
                elif (dead_letter := self.for_good(path, failed)) is not None:
                    sent.dead.append((one.backlog, dead_letter))
                else:
                    self.record_doubt(path, one, failed)
                    blamed = self.blamed(path, one, failed)
                    sent.left.setdefault(blamed, []).append(one.backlog)
                    if self._desk.takes_messages(blamed):
                        self._desk.failed(blamed, failed)
        return sent

    def blamed(self, path: EntityPath, one: Ready, failed: SendFailed) -> EntityPath:
        """Who is to rest after a failure: of a partitioned entity, the message's key alone."""
        if is_key_lane(path):
            return path
        key = self._forwarder.key_of(path, one.outgoing)
        if key is None or not self._forwarder.is_of_a_key(path, failed):
            return path
        return key_lane(path, key)

    async def _settle_rest(self, sorted_: _Sorted, sent: _Sent, *, past_waiting: bool) -> None:
        await self._complete(sent.accepted)
        await self._queue.complete(sorted_.discards)
        for message, dead_letter in (*sorted_.dead, *sent.dead):
            await self.dead_letter(message, dead_letter)
        for path, messages in sorted_.waits.items():
            await self._wait(path, messages, aside=past_waiting)
        for path, messages in sent.left.items():
            # One dead destination among others is got past; when nothing moves at all, everything keeps its place.
            await self._wait(path, messages, aside=past_waiting and bool(sent.accepted))
        self._on_their_way.subtract([*sorted_.waits, *sent.left])

    async def _complete(self, accepted: list[tuple[EntityPath, Ready]]) -> None:
        unsettled = {one.backlog.sequence_number: (path, one) for path, one in accepted}

        def told(message: BacklogMessage, settled: bool) -> None:
            path, one = unsettled.pop(message.sequence_number)
            self.record(path, one, settled=settled)

        try:
            await self._queue.complete([one.backlog for _, one in accepted], told)
        finally:
            # The primary has the others, and they come again: it will have them twice.
            for path, one in unsettled.values():
                self.record(path, one, settled=False)

    def for_good(self, path: EntityPath, failed: SendFailed) -> DeadLetter | None:
        entity = entity_of(path)
        known = self._desk.state.has_accepted(entity)
        return refusal_of(failed.failure, failed.detail, destination=entity, entity_is_known=known).dead_letter

    def record(self, path: EntityPath, ready: Ready, *, settled: bool) -> None:
        now = self._desk.clock.now()
        self._desk.telemetry.emit(
            Forwarded(
                at=now,
                path=entity_of(path),
                message_id=ready.outgoing.message_id,
                backlog_queue=self._path,
                waited_seconds=(now - ready.backlog.enqueued_at).total_seconds(),
                possible_duplicate=not settled or (ready.outcome is not None and ready.outcome.possible_duplicate),
                body_bytes=ready.outgoing.body_bytes,
            )
        )
        if self._desk.instruments is not None and ready.trace is not None and ready.started is not None:
            self._desk.instruments.delivered(
                Delivery(
                    path=entity_of(path),
                    message_id=ready.outgoing.message_id,
                    backlog_queue=self._path,
                    started=ready.started,
                    ended=now,
                    waited_seconds=(now - ready.backlog.enqueued_at).total_seconds(),
                    trace=ready.trace,
                )
            )

    def record_doubt(self, path: EntityPath, ready: Ready, failed: SendFailed) -> None:
        """Told now, since whoever sends the message again, which may be another process, cannot know."""
        if failed.indefinite:
            self._desk.telemetry.emit(
                ForwardInDoubt(
                    at=self._desk.clock.now(),
                    path=entity_of(path),
                    message_id=ready.outgoing.message_id,
                    backlog_queue=self._path,
                    failure=failed.failure.value,
                )
            )

    async def _wait(self, path: EntityPath, messages: list[BacklogMessage], *, aside: bool) -> None:
        """Back to their place, or aside; those that were aside already are put back there by being released."""
        back = [message for message in messages if message.is_deferred or not aside]
        for message in back:
            if message.is_deferred:
                self.aside.add(path, message.sequence_number)
        await self._queue.release(back)
        if aside:
            await self._put_aside(path, [message for message in messages if not message.is_deferred])

    async def _put_aside(self, path: EntityPath, messages: list[BacklogMessage]) -> None:
        await self._before_aside()
        put: list[int] = []

        def told(message: BacklogMessage, settled: bool) -> None:
            if settled:
                put.append(message.sequence_number)
                self.aside.add(path, message.sequence_number)

        await self._queue.put_aside(messages, told)
        if put:
            self._desk.telemetry.emit(
                SetAside(at=self._desk.clock.now(), path=path, backlog_queue=self._path, messages=len(put))
            )

    async def dead_letter(self, message: BacklogMessage, verdict: DeadLetter) -> None:
        if not await self._queue.dead_letter(message, reason=verdict.reason, description=verdict.description):
            return
        message_id = text_of(message.message.properties.message_id)
        self.copy_is_buried |= message_id == self.copy_id
        _LOGGER.warning("syphon: %s of %s is dead-lettered: %s", message_id, self._path, verdict.description)
        self._desk.moved(self._path, dead_lettered=1)
        self._desk.telemetry.emit(
            DeadLettered(
                at=self._desk.clock.now(),
                message_id=message_id,
                backlog_queue=self._path,
                reason=verdict.reason,
                description=verdict.description,
                path=_destination(message),
            )
        )


def _margin(batch: Sequence[BacklogMessage], now: datetime) -> timedelta:
    locks = [message.locked_until - now for message in batch if message.locked_until is not None]
    return min([LOCK_MARGIN, *(lock / 3 for lock in locks)])


def _destination(message: BacklogMessage) -> EntityPath | None:
    try:
        return destination_of(message.message)
    except EnvelopeError:
        return None


def text_of(message_id: AmqpValue) -> str:
    return message_id.decode(errors="replace") if isinstance(message_id, bytes) else str(message_id)


def _give(ready: list[Ready], outcomes: Sequence[Outcome]) -> None:
    for one, outcome in zip(ready, outcomes, strict=True):
        one.outcome = outcome


def _is_busy(outcome: Outcome) -> bool:
    return outcome.failed is not None and outcome.failed.failure is Failure.BUSY


def _count_waits(waits: dict[EntityPath, list[BacklogMessage]]) -> tuple[int, datetime | None]:
    times = [message.enqueued_at for messages in waits.values() for message in messages]
    return len(times), max(times, default=None)
