"""One call of the syphon: what to do about the message that woke it, and meanwhile about the others of its queue."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from shared.bounded import within
from shared.domain.envelope import rewrapped
from shared.domain.message import DataBody, Message, Properties, body_bytes, outgoing
from shared.domain.pair import EntityPath, Side
from shared.domain.partitions import is_key_lane
from shared.domain.syphon import (
    BacklogMessage,
    DeadLetter,
    Discard,
    Forward,
    Passes,
    Ring,
    Verdict,
    Wait,
    bell_properties,
    has_come_to,
    horizon,
    judge,
    may_work,
    next_pass,
)
from shared.errors import NothingMoved
from shared.ports import BacklogQueue, BacklogTrouble, Links, SendFailed, Unreadable
from shared.services.syphon_desk import Desk
from shared.services.syphon_drain import Drainer, Handled, text_of
from shared.services.syphon_forwarder import Forwarder
from shared.services.syphon_settling import Settling
from shared.services.syphon_watch import Watch

if TYPE_CHECKING:
    from shared.services.syphon import SyphonOptions

_LOGGER = logging.getLogger(__name__)

#: How long to wait for more messages before a queue counts as drained.
TAKE_SECONDS = 0.5
#: Batches in a row with nothing but waiting messages, after which a pass stops looking for others.
STRAYS_MAX = 10
#: Pages looked at, at the end of a call, for messages that were put aside.
LAST_LOOKS = 4
PUT_SECONDS_MAX = 10.0


class Call:
    def __init__(
        self,
        *,
        path: EntityPath,
        sequence_number: int,
        queue: BacklogQueue,
        links: Links,
        forwarder: Forwarder,
        desk: Desk,
        options: SyphonOptions,
    ) -> None:
        self._path = path
        self._number = sequence_number
        self._queue = queue
        self._links = links
        self._desk = desk
        self._options = options
        self._ends = asyncio.get_running_loop().time() + options.call_budget.total_seconds()
        self._drainer = Drainer(
            path=path,
            queue=queue,
            forwarder=forwarder,
            desk=desk,
            restart_clock=options.restart_clock,
            before_aside=self._hang_bell,
        )
        self._watch = Watch(own=sequence_number, queue=queue, desk=desk, aside=self._drainer.aside)
        self._passes = Passes()
        #: While the host holds this call's message, it is what calls the syphon again.
        self._holds = True
        #: The destination that the call's message waits for, if that is what it does.
        self._held_by: EntityPath | None = None
        self._bell_hangs = False
        #: Two batches that are settled at the same time may both come upon the first message that is put aside.
        self._hanging_alone = asyncio.Lock()
        self._bell: BacklogMessage | None = None
        self._copied = False

    async def run(self) -> None:
        """Returns when the call's message may be completed."""
        own = await self._own()
        while True:
            await self._desk.state.in_use()
            if may_work(self._desk.state.factories) and await self._work(own):
                return
            await self._pause(own)

    async def _own(self) -> BacklogMessage | None:
        """The message itself, in full; None if the SDK cannot read it, which is no reason to hold up the others."""
        try:
            found = await self._queue.look(self._number, 1)
        except Unreadable as error:
            _LOGGER.error("syphon: message %s of %s is unreadable and stays there: %s", self._number, self._path, error)
            return None
        if not found or found[0].sequence_number != self._number:
            raise BacklogTrouble(f"message {self._number} is not in the queue any more")
        return found[0]

    async def _pause(self, own: BacklogMessage | None) -> None:
        if asyncio.get_running_loop().time() >= self._ends:
            raise NothingMoved(f"Message {self._number} of {self._path} goes back: it could not be moved for now.")
        await self._desk.report(self._path, waiting_for=self._waiting_for(own))
        await asyncio.sleep(self._options.look_every.total_seconds())

    def _waiting_for(self, own: BacklogMessage | None) -> set[EntityPath]:
        verdict = self._judge(own) if own is not None else None
        return {*self._drainer.aside.destinations(), *([verdict.destination] if isinstance(verdict, Wait) else [])}

    def _judge(self, message: BacklogMessage) -> Verdict:
        return judge(
            message,
            now=self._desk.clock.now(),
            takes_messages=self._desk.takes_messages,
            lane_of=self._desk.lane_of,
            restart_clock=self._options.restart_clock,
        )

    async def _work(self, own: BacklogMessage | None) -> bool:
        """One round; whether the call's message is done with."""
        if own is None:
            await self._look_after_others(self._desk.clock.now())
            return False
        verdict = self._judge(own)
        self._held_by = verdict.destination if isinstance(verdict, Wait) else None
        match verdict:
            case Forward():
                return await self._forward(own, verdict)
            case DeadLetter():
                return await self._bury(own, verdict)
            case Discard():
                await self._drain_rest()
                return True
            case Ring():
                await self._look_after_others(own.enqueued_at)
                return self._watch.nothing_is_aside
            case Wait():
                await self._look_after_others(own.enqueued_at)
                return False

    # -- the call's own message

    async def _forward(self, own: BacklogMessage, verdict: Forward) -> bool:
        if is_key_lane(verdict.destination):
            # Older messages of the key may be aside since an earlier call; they go first.
            await self._recover(key_lane=verdict.destination)
            if not self._drainer.has_found(verdict.destination) or self._drainer.aside.has(verdict.destination):
                return False
        ready = self._drainer.ready(own, verdict)
        self._queue.prepare()
        await self._drainer.deliver(verdict.destination, [ready])
        assert ready.outcome is not None
        failed = ready.outcome.failed
        if failed is None:
            self._desk.moved(self._path, forwarded=1)
            self._drainer.record(verdict.destination, ready, settled=True)
            await self._drain_rest()
            return True
        await self._queue.stop_taking()
        if (dead_letter := self._drainer.for_good(verdict.destination, failed)) is not None:
            return await self._bury(own, dead_letter)
        self._drainer.record_doubt(verdict.destination, ready, failed)
        blamed = self._drainer.blamed(verdict.destination, ready, failed)
        if self._desk.takes_messages(blamed):
            self._desk.failed(blamed, failed)
        return False

    async def _bury(self, own: BacklogMessage, verdict: DeadLetter) -> bool:
        """A copy is enqueued that the receiver can dead-letter; the message itself is done with once that is seen."""
        if not self._copied:
            _LOGGER.info("syphon: a copy of message %s of %s is to be dead-lettered", self._number, self._path)
            waited = timedelta(0) if self._options.restart_clock else self._desk.clock.now() - own.enqueued_at
            copy = rewrapped(own.message, waited=waited)
            if copy.properties.message_id is None:
                copy = copy.with_properties(message_id=f"{self._path}/{self._number}")
            await self._put(copy)
            self._watch.expect_copy(copy.properties.message_id)
            self._drainer.copy_id = text_of(copy.properties.message_id)
            self._copied = True
        await self._look_after_others(own.enqueued_at)
        seen = self._watch.copy_seen_at
        # Draining may have come upon it before anybody looked.
        if seen is None and not self._drainer.copy_is_buried:
            return False
        if seen is not None and self._watch.copy_is_near:
            await self._drain(target=seen)
        await self._drain_rest()
        return True

    async def _drain_rest(self) -> None:
        """The call's message is done with: trouble is no reason to raise now, since the message would come again.

        Unless not even a bell can be left: then it had better come again than that somebody waits for ever.
        """
        self._holds = False
        try:
            await self._recover()
            await self._drain()
            await self._leave_bell()
        except Exception as error:
            _LOGGER.warning("syphon: draining %s stopped", self._path, exc_info=error)
            self._bell = None
            await self._hang_bell()

    # -- the others

    async def _look_after_others(self, oldest: datetime) -> None:
        """While the call's message stays: messages that can go are got out from behind it."""
        state = self._desk.state
        now = self._desk.clock.now()
        passes = next_pass(
            self._passes, oldest=oldest, recoveries=state.recoveries(), slack=self._options.slack, now=now
        )
        await self._recover()
        if passes is None:
            await self._watch.look()
            await self._get_out_found()
            return
        self._passes = passes
        await self._drain()
        self._watch.start_again()
        while not self._watch.is_complete and self._has_time and not self._own_may_go:
            await self._watch.look_through(until=self._ends)
            await self._recover()
            await self._get_out_found()

    @property
    def _own_may_go(self) -> bool:
        """What the call's message waited for is over; it goes first."""
        return self._holds and self._held_by is not None and self._desk.takes_messages(self._held_by)

    async def _get_out_found(self) -> None:
        """What was found that could go, past everything before it; looking goes on from there."""
        if self._watch.target is not None:
            target, self._watch.target = self._watch.target, None
            is_past = await self._drain(target=target)
            self._watch.look_on_from(target + 1 if is_past else target)

    async def _find_aside(self, lanes: Sequence[EntityPath]) -> None:
        """Messages of keys that earlier calls put aside: all of them are known before a younger one goes.

        While a key does not take messages, none of it goes, and looking through the whole queue can wait.
        """
        watched = [lane for lane, _ in self._desk.state.key_lanes()]
        healed = {lane.lower() for lane in (*lanes, *watched) if self._desk.takes_messages(lane)}
        self._drainer.found_lanes &= healed
        if healed - self._drainer.found_lanes and await self._watch.look_at_all(until=self._ends):
            self._drainer.found_lanes = healed

    async def _recover(self, *, key_lane: EntityPath | None = None) -> None:
        """Fetches what was put aside for destinations that take messages again; `key_lane`: one that is about to go."""
        aside = self._drainer.aside
        await self._find_aside([*([key_lane] if key_lane else []), *filter(is_key_lane, aside.destinations())])
        for path in aside.destinations():
            if is_key_lane(path) and not self._drainer.has_found(path):
                continue
            while self._may_go(path) and (numbers := aside.take(path, self._drainer.batch_size)):
                taken = await self._watch.take_aside(numbers)
                await self._drainer.handle(taken, past_waiting=False)
                await self._desk.report(self._path, waiting_for=aside.destinations())

    @property
    def _has_time(self) -> bool:
        return asyncio.get_running_loop().time() < self._ends and may_work(self._desk.state.factories)

    def _may_go(self, path: EntityPath) -> bool:
        return self._has_time and self._desk.takes_messages(path)

    async def _drain(self, *, target: int = 0) -> bool:
        """Takes batch after batch until the queue is empty, time is up, or nothing is left that could go.

        Whether it is past the target: that came, or somebody else has it.
        """
        until = min(self._ends, asyncio.get_running_loop().time() + self._options.slice.total_seconds())
        try:
            async with Settling(self._path) as settling:
                return await self._drain_until(until, target, settling)
        finally:
            await self._queue.stop_taking()

    async def _drain_until(self, until: float, target: int, settling: Settling) -> bool:
        is_past, strays = target == 0, 0
        while True:
            # First, since it may take its time, in which a side may be closed.
            await settling.room()
            await self._desk.state.in_use()
            is_over = asyncio.get_running_loop().time() >= until or self._own_may_go
            if is_over or not may_work(self._desk.state.factories):
                return is_past
            batch = await self._queue.take(self._drainer.batch_size, TAKE_SECONDS)
            if not batch:
                return True
            is_past = is_past or has_come_to(target, batch)
            handled, rest = await self._drainer.send(batch, past_waiting=True)
            await settling.start(rest, sum(body_bytes(one.message.body) for one in batch))
            await self._sort_bells(handled)
            await self._desk.report(self._path, waiting_for=self._drainer.aside.destinations())
            if handled.failed and not handled.forwarded:
                return is_past
            is_stray = handled.waiting == len(batch) and is_past
            strays = strays + 1 if is_stray else 0
            if is_stray and (strays >= STRAYS_MAX or self._is_past(handled)):
                return is_past

    def _is_past(self, handled: Handled) -> bool:
        """Whether what waits is too young for anything behind it to be for an entity that is available."""
        last = horizon(self._desk.state.recoveries(), slack=self._options.slack)
        return last is not None and handled.youngest_waiting is not None and handled.youngest_waiting > last

    # -- the bell

    async def _hang_bell(self) -> None:
        """Before the first message is put aside: somebody has to come for it, also if this process ends now."""
        async with self._hanging_alone:
            if self._holds or self._bell_hangs or self._bell is not None:
                return
            await self._put(
                Message(
                    body=DataBody((b"",)),
                    properties=Properties(message_id=f"bell-{uuid.uuid4()}", subject="syphon: messages wait here"),
                    application_properties=bell_properties(),
                )
            )
            self._bell_hangs = True

    async def _sort_bells(self, handled: Handled) -> None:
        """One is enough: the call's own message while the host holds it, otherwise the first that comes."""
        for bell in handled.bells:
            is_same = self._bell is not None and self._bell.sequence_number == bell.sequence_number
            # The same one comes again when draining outlasts its lock: from now on the new lock counts.
            if not self._holds and (self._bell is None or is_same):
                self._bell = bell
            else:
                await self._queue.complete([bell])

    async def _leave_bell(self) -> None:
        """The call is about to return: if messages are left aside, something must call the syphon again."""
        await self._watch.look_from_start(LAST_LOOKS)
        if self._bell is None:
            if self._drainer.aside:
                await self._hang_bell()
        elif self._watch.nothing_is_aside:
            await self._queue.complete([self._bell])
        else:
            await self._release(self._bell)

    async def _release(self, bell: BacklogMessage) -> None:
        """One whose lock is over may be gone, to somebody who saw nothing aside: a bell too many does no harm."""
        gone: list[BacklogMessage] = []
        await self._queue.release([bell], lambda message, released: None if released else gone.append(message))
        if gone:
            self._bell, self._bell_hangs = None, False
            await self._hang_bell()

    async def _put(self, message: Message) -> None:
        """Into the backlog queue itself; BacklogTrouble if it is not known to be there."""
        link = self._links.to(Side.SECONDARY, self._path)
        try:
            await within(PUT_SECONDS_MAX, link.send_one(outgoing(message)))
        except (SendFailed, TimeoutError) as error:
            raise BacklogTrouble(f"could not be written to: {error}") from error
        finally:
            await link.close()
