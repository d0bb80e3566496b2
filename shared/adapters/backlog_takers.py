"""The receivers that take messages of one backlog queue, in turns: while batches of some are settled, another takes.

Opening and closing a receiver costs the SDK half a second each, most of it asleep. So they are opened in the
background, the first ones while the message that woke the syphon is forwarded, and nobody waits for them to close.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

from shared.adapters.backlog_calls import bounded
from shared.bounded import quietly
from shared.domain.pair import EntityPath

_LOGGER = logging.getLogger(__name__)

TAKERS_AT_FIRST = 2
#: One for each batch that is settled, one for the batch that is sent, and one that holds a message for longer.
TAKERS_MAX = 5


@dataclass(eq=False, slots=True)
class Taker:
    opening: asyncio.Task[ServiceBusReceiver]
    #: It takes, or settles one batch, but not both: the SDK's receivers do one thing at a time.
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Messages it took that are not settled.
    unsettled: int = 0

    @property
    def is_idle(self) -> bool:
        return self.opening.done() and not self.alone.locked()

    @property
    def receiver(self) -> ServiceBusReceiver:
        """Of one that is open."""
        return self.opening.result()


class Takers:
    def __init__(self, client: ServiceBusClient, path: EntityPath) -> None:
        self._client = client
        self._path = path
        #: The one that has not taken for longest first.
        self._turns: deque[Taker] = deque()
        #: The one that got fewer than it asked for. The service may send it the rest at any time, so it is asked again:
        #: another one would take what comes after that.
        self._owed: Taker | None = None
        #: How many there may be: after one could not be opened, those there are have to do until taking stops.
        self._max = TAKERS_MAX
        #: One was opened or could not be, or has done what it did.
        self._changed = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()

    def prepare(self) -> None:
        """Messages are about to be taken."""
        while len(self._turns) < min(TAKERS_AT_FIRST, self._max):
            self._open_another()

    def _open_another(self) -> None:
        opening = asyncio.create_task(self._open(), name=f"opening a receiver of {self._path}")
        opening.add_done_callback(self._opened)
        self._turns.append(Taker(opening))

    async def _open(self) -> ServiceBusReceiver:
        receiver = self._client.get_queue_receiver(str(self._path))
        # Opened apart, since a receive would count the time for it as its own.
        await bounded(receiver.__aenter__())
        return receiver

    def _opened(self, opening: asyncio.Task[ServiceBusReceiver]) -> None:
        """Whoever takes is told of trouble; asyncio would complain where nobody does any more."""
        if not opening.cancelled():
            opening.exception()
        self._changed.set()

    async def receive(self, count: int, wait_seconds: float) -> tuple[Taker, list[ServiceBusReceivedMessage]]:
        while True:
            taker = self._owed or await self._next()
            async with self.alone_with(taker):
                # Unless it broke while it was waited for.
                if self.has(taker):
                    received = await self._receive(taker, count, wait_seconds)
                    taker.unsettled += len(received)
                    self._owed = taker if len(received) < count else None
                    return taker, received

    async def _receive(self, taker: Taker, count: int, wait_seconds: float) -> list[ServiceBusReceivedMessage]:
        try:
            return await bounded(taker.receiver.receive_messages(count, wait_seconds))
        except BaseException:
            # It may be at it still, and does one thing at a time: what it took is settled without it.
            self.drop(taker)
            raise

    def has(self, taker: Taker) -> bool:
        """Whether it is of use still."""
        return taker in self._turns

    @asynccontextmanager
    async def alone_with(self, taker: Taker) -> AsyncIterator[None]:
        try:
            async with taker.alone:
                yield
        finally:
            self._changed.set()

    async def _next(self) -> Taker:
        """One that has nothing to settle, as soon as there is one; more are opened for as long as that takes."""
        while True:
            self._changed.clear()
            self.prepare()
            self._drop_unopened()
            idle = [taker for taker in self._turns if taker.is_idle]
            is_opening = any(not taker.opening.done() for taker in self._turns)
            may_be_more = len(self._turns) < self._max
            taker = next((one for one in idle if not one.unsettled), None)
            if taker is None and idle and not is_opening and not may_be_more:
                taker = idle[0]
            if taker is not None:
                self._turns.remove(taker)
                self._turns.append(taker)
                return taker
            if may_be_more and not is_opening:
                self._open_another()
            await self._changed.wait()

    def _drop_unopened(self) -> None:
        """One that cannot be opened leaves its turns to the others, if there are any."""
        for taker in tuple(self._turns):
            if taker.opening.done() and (error := taker.opening.exception()) is not None:
                self.drop(taker)
                self._max = len(self._turns) or TAKERS_MAX
                if not self._turns:
                    raise error
                _LOGGER.info("a receiver of %s could not be opened, %s have to do: %s", self._path, self._max, error)

    def stop(self) -> None:
        """Gives back what was asked for and has not come."""
        for taker in tuple(self._turns):
            self.drop(taker)
        self._max = TAKERS_MAX

    def drop(self, taker: Taker) -> None:
        """It is not needed any more, broke, or keeps silent."""
        if self.has(taker):
            self._turns.remove(taker)
            if self._owed is taker:
                self._owed = None
            self._in_the_background(self._close(taker))
            self._changed.set()

    async def _close(self, taker: Taker) -> None:
        try:
            receiver = await taker.opening
        except Exception as error:
            _LOGGER.debug("a receiver of %s was never opened: %r", self._path, error)
        else:
            await quietly(receiver.close())

    def retire(self, receiver: ServiceBusReceiver) -> None:
        self._in_the_background(quietly(receiver.close()))

    def _in_the_background(self, closing: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(closing, name=f"closing a receiver of {self._path}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def closed(self) -> None:
        """All that are not in use any more have said good-bye."""
        while self._closing:
            await asyncio.wait(self._closing)

