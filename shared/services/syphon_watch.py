"""Looking around in a backlog queue without touching anything: what is aside there, and what could go.

A look is one operation and shows up to 250 messages. A call that waits makes one look each second, whatever the size
of the queue, so that the cost of waiting has a bound; only when there is reason to expect something are looks made in
a row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from shared.domain.aside import Aside
from shared.domain.envelope import destination_of
from shared.domain.message import AmqpValue
from shared.domain.partitions import partition_of
from shared.domain.syphon import BacklogMessage, is_bell, waiting_keys
from shared.errors import EnvelopeError
from shared.ports import BacklogQueue, NotThere, Unreadable
from shared.services.syphon_desk import Desk

LOOK_MAX = 250
#: How often a call finds out whether it is the one with the oldest message of the queue; only that one looks around.
ASK_EVERY = timedelta(minutes=1)


class Watch:
    def __init__(
        self, *, own: int, queue: BacklogQueue, desk: Desk, aside: Aside
    ) -> None:
        self._own = own
        self._queue = queue
        self._desk = desk
        self._aside = aside
        self._cursor = 1
        self._page = LOOK_MAX
        self._looked_at = desk.clock.now()
        self._asked_at: datetime | None = None
        self._leads = True
        self._copy_id: AmqpValue = None
        self._looked_from_start = False
        #: Every message of the queue has been looked at.
        self.is_complete = False
        #: A message that could go and is not aside.
        self.target: int | None = None
        self.copy_seen_at: int | None = None
        self.copy_is_near = False

    @property
    def nothing_is_aside(self) -> bool:
        """Known for certain: the whole queue has been looked at, and everything found has been fetched."""
        if self._aside:
            return False
        if self._aside.has_forgotten:
            self._aside.has_forgotten = False
            self.start_again()
        return self.is_complete

    def start_again(self) -> None:
        self.look_on_from(1)

    def look_on_from(self, sequence_number: int) -> None:
        self._cursor, self.is_complete = sequence_number, False

    def expect_copy(self, message_id: AmqpValue) -> None:
        """A copy of the call's message is somewhere behind it."""
        self._copy_id, self._looked_from_start = message_id, False
        self.look_on_from(self._own + 1)

    async def look(self) -> None:
        """One look, from where the last one ended."""
        if self._desk.rests_ended_since(self._looked_at):
            self.start_again()
        if self._copy_id is None and not await self._is_leading():
            return
        await self._look_on()

    async def look_through(self, *, until: float) -> None:
        """Look after look, to the first message that could go or to the end of the queue."""
        while self.target is None and not self.is_complete and asyncio.get_running_loop().time() < until:
            await self._look_on()

    async def look_at_all(self, *, until: float) -> bool:
        """Look after look to the end of the queue, whatever is found; whether there was the time for it."""
        self.start_again()
        while not self.is_complete and asyncio.get_running_loop().time() < until:
            await self._look_on()
        return self.is_complete

    async def look_from_start(self, looks: int) -> None:
        self.start_again()
        for _ in range(looks):
            if not self.is_complete:
                await self._look_on()

    async def _is_leading(self) -> bool:
        """Of several calls that wait at one queue, the one with the oldest message looks around for all."""
        now = self._desk.clock.now()
        if self._asked_at is not None and now - self._asked_at < ASK_EVERY:
            return self._leads
        self._asked_at = now
        try:
            page = await self._queue.look(1, LOOK_MAX)
        except Unreadable:
            return self._leads
        first = next((message.sequence_number for message in page if not message.is_deferred), self._own)
        self._leads = first >= self._own
        return self._leads

    async def _look_on(self) -> None:
        self._looked_at = self._desk.clock.now()
        try:
            page = await self._queue.look(self._cursor, self._page)
        except Unreadable:
            # One message on the page cannot be decoded: from here on one at a time, and past it.
            self._cursor += 1 if self._page == 1 else 0
            self._page = 1
            return
        if not page:
            # In a partitioned queue what came later may have a lower number.
            if self._copy_id is not None and self.copy_seen_at is None and not self._looked_from_start:
                self._looked_from_start = True
                self.start_again()
                return
            self.is_complete = True
            return
        self._page = min(self._page * 2, LOOK_MAX)
        for message in page:
            self._note(message)
        self.copy_is_near = self.copy_seen_at is not None and self._cursor == self._own + 1
        self._cursor = page[-1].sequence_number + 1

    def _note(self, message: BacklogMessage) -> None:
        number = message.sequence_number
        if number == self._own or is_bell(message.message):
            return
        if self._copy_id is not None and _same_id(message.message.properties.message_id, self._copy_id):
            self.copy_seen_at = number
            return
        try:
            destination = self._desk.lane_of(destination_of(message.message), waiting_keys(message.message))
        except EnvelopeError:
            return
        if message.is_deferred:
            self._aside.add(destination, number)
        elif self.target is None and self._desk.takes_messages(destination):
            self.target = number

    async def take_aside(self, numbers: Sequence[int]) -> list[BacklogMessage]:
        """Those of the numbers that are to be had; others are gone, or in somebody else's hands."""
        taken: list[BacklogMessage] = []
        by_partition: dict[int, list[int]] = {}
        for number in numbers:
            by_partition.setdefault(partition_of(number), []).append(number)
        for chosen in by_partition.values():
            taken += await self._take_aside(chosen)
        return taken

    async def _take_aside(self, numbers: Sequence[int]) -> list[BacklogMessage]:
        try:
            return await self._queue.take_aside(numbers)
        except NotThere:
            if len(numbers) == 1:
                return []
            half = len(numbers) // 2
            return [*await self._take_aside(numbers[:half]), *await self._take_aside(numbers[half:])]


def _same_id(one: AmqpValue, other: AmqpValue) -> bool:
    def text(value: AmqpValue) -> AmqpValue:
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    return bool(text(one) == text(other))
