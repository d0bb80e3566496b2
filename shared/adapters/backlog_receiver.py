"""Backlog queues over the azure-servicebus SDK: looking, taking, settling.

One receiver only looks (peeks) and asks for messages set aside by their numbers; it never grants the service any
credit, so nothing is delivered to it behind its back. Two others take messages in turns; they are closed as soon as
taking stops, since credit that is left over would have messages delivered and released again and again.

The SDK's receivers are not safe for concurrent use, hence the turns: while the batch of one is settled, the other takes
the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from azure.servicebus import ServiceBusMessageState, ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageNotFoundError,
    ServiceBusError,
)

from shared.adapters.sdk_failures import classify, detail_of
from shared.adapters.sdk_messages import received_message
from shared.adapters.servicebus import sdk_client
from shared.bounded import within
from shared.connections import NamespaceConnection
from shared.domain.pair import EntityPath
from shared.domain.syphon import BacklogMessage
from shared.ports import BacklogTrouble, LockLost, NotThere, Unreadable

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential

_LOGGER = logging.getLogger(__name__)

#: One call on a backlog queue; the SDK alone would wait for minutes on a connection that fell silent.
CALL_SECONDS_MAX = 15.0
CLOSE_SECONDS_MAX = 5.0
TAKERS = 2

T = TypeVar("T")
Settle = Callable[[ServiceBusReceiver, ServiceBusReceivedMessage], Awaitable[None]]


class SdkBacklogQueue:
    def __init__(self, client: ServiceBusClient, path: EntityPath) -> None:
        self._client = client
        self._path = path
        self._looker: ServiceBusReceiver | None = None
        #: Those that take, the next one first.
        self._takers: list[ServiceBusReceiver] = []
        #: The one that got fewer than it asked for. The service may send it the rest at any time, so it is asked again:
        #: another one would take what comes after that.
        self._owed: ServiceBusReceiver | None = None
        #: Who took what, for as long as it is not settled.
        self._took: dict[int, ServiceBusReceiver] = {}
        self._looking_alone = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def look(self, from_sequence_number: int, count: int) -> list[BacklogMessage]:
        """Messages from this number on, in order, locked and set aside ones included; nothing is locked by it."""
        first = max(from_sequence_number, 1)
        peeked = await self._ask(lambda looker: looker.peek_messages(count, sequence_number=first))
        return [_backlog_message(message) for message in peeked]

    async def take(self, count: int, wait_seconds: float) -> list[BacklogMessage]:
        taker = await self._next_taker()
        messages = [_backlog_message(one) for one in await _bounded(taker.receive_messages(count, wait_seconds))]
        self._owed = taker if len(messages) < count else None
        self._took.update((message.sequence_number, taker) for message in messages)
        return messages

    async def _next_taker(self) -> ServiceBusReceiver:
        if self._owed is not None:
            return self._owed
        if len(self._takers) < TAKERS:
            taker = self._client.get_queue_receiver(str(self._path))
            # Opened apart, since a receive would count the time for it as its own.
            await _bounded(taker.__aenter__())
        else:
            taker = self._takers.pop(0)
        self._takers.append(taker)
        return taker

    async def take_aside(self, sequence_numbers: Sequence[int]) -> list[BacklogMessage]:
        """Messages that were set aside, under lock; NotThere if a single one of them is not to be had."""
        received = await self._ask(lambda looker: looker.receive_deferred_messages(list(sequence_numbers)))
        return [_backlog_message(message, is_deferred=True) for message in received]

    async def stop_taking(self) -> None:
        """Saying good-bye takes the SDK a second; nobody waits for it."""
        takers, self._takers, self._owed = self._takers, [], None
        self._took.clear()
        for taker in takers:
            self._retire(taker)

    def _retire(self, receiver: ServiceBusReceiver) -> None:
        task = asyncio.create_task(_quietly(receiver.close()), name=f"closing a receiver of {self._path}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def complete(self, message: BacklogMessage) -> None:
        await self._settle(message, lambda receiver, sdk: receiver.complete_message(sdk))

    async def put_aside(self, message: BacklogMessage) -> None:
        await self._settle(message, lambda receiver, sdk: receiver.defer_message(sdk))

    async def release(self, message: BacklogMessage) -> None:
        await self._settle(message, lambda receiver, sdk: receiver.abandon_message(sdk))

    async def dead_letter(self, message: BacklogMessage, *, reason: str, description: str) -> None:
        await self._settle(message, lambda receiver, sdk: receiver.dead_letter_message(sdk, reason, description))

    async def _settle(self, message: BacklogMessage, settle: Settle) -> None:
        """A lock outlives the connection it was got by: where that broke, a new one settles by the lock's token."""
        sdk = message.handle
        assert isinstance(sdk, ServiceBusReceivedMessage)
        taker = None if message.is_deferred else self._took.pop(message.sequence_number, None)
        if taker is not None:
            try:
                await _bounded(settle(taker, sdk))
                return
            except BacklogTrouble as error:
                _LOGGER.info("a receiver of %s broke; settling by lock token instead: %s", self._path, error)
                self._drop_taker(taker)
        await self._ask(lambda looker: settle(looker, sdk))

    def _drop_taker(self, taker: ServiceBusReceiver) -> None:
        """All that it took is settled by lock token from now on: it would fail, or keep silent, each time anew."""
        self._took = {number: other for number, other in self._took.items() if other is not taker}
        if taker in self._takers:
            self._takers.remove(taker)
            if self._owed is taker:
                self._owed = None
            self._retire(taker)

    async def close(self) -> None:
        await self.stop_taking()
        if self._closing:
            await asyncio.wait(self._closing)
        looker, self._looker = self._looker, None
        if looker is not None:
            await _quietly(looker.close())
        await _quietly(self._client.close())

    async def _ask(self, question: Callable[[ServiceBusReceiver], Awaitable[T]]) -> T:
        """One at a time; a receiver that has had trouble is not asked again."""
        async with self._looking_alone:
            looker = await self._looking()
            try:
                return await _bounded(question(looker))
            except BacklogTrouble:
                self._looker = None
                self._retire(looker)
                raise

    async def _looking(self) -> ServiceBusReceiver:
        """Open, since the SDK settles only with a receiver that is."""
        if self._looker is None:
            looker = self._client.get_queue_receiver(str(self._path))
            await _bounded(looker.__aenter__())
            self._looker = looker
        return self._looker


class SdkBacklogQueues:
    def __init__(
        self,
        connection: NamespaceConnection,
        credential: AsyncTokenCredential | None,
        authority_file: str | None = None,
    ) -> None:
        self._connection = connection
        self._credential = credential
        self._authority_file = authority_file

    def open(self, path: EntityPath) -> SdkBacklogQueue:
        return SdkBacklogQueue(sdk_client(self._connection, self._credential, self._authority_file), path)


def _backlog_message(received: ServiceBusReceivedMessage, *, is_deferred: bool | None = None) -> BacklogMessage:
    return BacklogMessage(
        sequence_number=received.sequence_number or 0,
        enqueued_at=received.enqueued_time_utc or datetime.now(UTC),
        locked_until=received.locked_until_utc,
        is_deferred=received.state == ServiceBusMessageState.DEFERRED if is_deferred is None else is_deferred,
        message=received_message(received.raw_amqp_message),
        handle=received,
    )


async def _bounded(call: Awaitable[T]) -> T:
    """The call's result within its time; every way to fail has one of our names."""
    try:
        return await within(CALL_SECONDS_MAX, call)
    except (MessageLockLostError, MessageAlreadySettled) as error:
        raise LockLost(detail_of(error)) from error
    except MessageNotFoundError as error:
        raise NotThere(detail_of(error)) from error
    except TimeoutError as error:
        raise BacklogTrouble(f"no answer within {CALL_SECONDS_MAX:g} s") from error
    except ServiceBusError as error:
        if "Handler failed" in str(error) and isinstance(error.inner_exception, ValueError):
            raise Unreadable(detail_of(error)) from error
        raise BacklogTrouble(f"{classify(error).value}: {detail_of(error)}") from error
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        # The SDK raises these when its connection breaks under it.
        raise BacklogTrouble(f"{type(error).__name__}: {detail_of(error)}") from error


async def _quietly(closing: Awaitable[None]) -> None:
    """Closing never holds anybody, nor does it fail: what is not closed is dropped with its connection."""
    try:
        await within(CLOSE_SECONDS_MAX, closing)
    except Exception as error:
        _LOGGER.debug("a receiver did not close: %r", error)
