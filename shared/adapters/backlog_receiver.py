"""Backlog queues over the azure-servicebus SDK: looking, taking, settling.

One receiver only looks (peeks) and asks for messages set aside by their numbers; it never grants the service any
credit, so nothing is delivered to it behind its back. Others take messages in turns; they are closed as soon as taking
stops, since credit that is left over would have messages delivered and released again and again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from azure.servicebus import ServiceBusMessageState, ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import MessageAlreadySettled, MessageLockLostError

from shared.adapters import backlog_calls
from shared.adapters.backlog_calls import bounded, named
from shared.adapters.backlog_takers import Taker, Takers
from shared.adapters.sdk_failures import detail_of
from shared.adapters.sdk_messages import received_message
from shared.adapters.servicebus import sdk_client
from shared.bounded import quietly, while_it_moves
from shared.connections import NamespaceConnection
from shared.domain.pair import EntityPath
from shared.domain.syphon import BacklogMessage
from shared.ports import BacklogTrouble, Told, nobody

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential

_LOGGER = logging.getLogger(__name__)

#: After so many a receiver is replaced: the SDK lets the service answer 10,000 requests of one, to look as well as to
#: settle by number, and waits in vain for the next answer.
QUESTIONS_MAX = 5_000

T = TypeVar("T")
Settle = Callable[[ServiceBusReceiver, ServiceBusReceivedMessage], Awaitable[None]]


class SdkBacklogQueue:
    def __init__(self, client: ServiceBusClient, path: EntityPath) -> None:
        self._client = client
        self._path = path
        self._looker: ServiceBusReceiver | None = None
        self._questions = 0
        self._takers = Takers(client, path)
        #: Who took what, for as long as it is not settled.
        self._took: dict[int, Taker] = {}
        self._looking_alone = asyncio.Lock()

    async def look(self, from_sequence_number: int, count: int) -> list[BacklogMessage]:
        """Messages from this number on, in order, locked and set aside ones included; nothing is locked by it."""
        first = max(from_sequence_number, 1)
        peeked = await self._ask(lambda looker: looker.peek_messages(count, sequence_number=first))
        return [_backlog_message(message) for message in peeked]

    def prepare(self) -> None:
        self._takers.prepare()

    async def take(self, count: int, wait_seconds: float) -> list[BacklogMessage]:
        taker, received = await self._takers.receive(count, wait_seconds)
        messages = [_backlog_message(one) for one in received]
        self._took.update((message.sequence_number, taker) for message in messages)
        return messages

    async def take_aside(self, sequence_numbers: Sequence[int]) -> list[BacklogMessage]:
        """Messages that were set aside, under lock; NotThere if a single one of them is not to be had."""
        received = await self._ask(lambda looker: looker.receive_deferred_messages(list(sequence_numbers)))
        return [_backlog_message(message, is_deferred=True) for message in received]

    async def stop_taking(self) -> None:
        self._took.clear()
        self._takers.stop()

    async def complete(self, messages: Sequence[BacklogMessage], told: Told = nobody) -> None:
        await self._settle(messages, lambda receiver, sdk: receiver.complete_message(sdk), told)

    async def put_aside(self, messages: Sequence[BacklogMessage], told: Told = nobody) -> None:
        await self._settle(messages, lambda receiver, sdk: receiver.defer_message(sdk), told)

    async def release(self, messages: Sequence[BacklogMessage], told: Told = nobody) -> None:
        await self._settle(messages, lambda receiver, sdk: receiver.abandon_message(sdk), told)

    async def dead_letter(self, message: BacklogMessage, *, reason: str, description: str) -> bool:
        outcomes: list[bool] = []
        await self._settle(
            [message],
            lambda receiver, sdk: receiver.dead_letter_message(sdk, reason, description),
            lambda _, settled: outcomes.append(settled),
        )
        return outcomes[0]

    async def _settle(self, messages: Sequence[BacklogMessage], settle: Settle, told: Told) -> None:
        """A lock outlives the connection it was got by: where that broke, a new one settles by the lock's token."""
        by_taker: dict[Taker | None, list[BacklogMessage]] = {}
        for message in messages:
            taker = None if message.is_deferred else self._took.get(message.sequence_number)
            by_taker.setdefault(taker, []).append(message)
        for taker, theirs in by_taker.items():
            left = theirs if taker is None else await self._settle_by(taker, theirs, settle, told)
            for message in left:
                told(message, await self._ask(partial(_settle_one, settle, message)))

    async def _settle_by(
        self, taker: Taker, messages: Sequence[BacklogMessage], settle: Settle, told: Told
    ) -> list[BacklogMessage]:
        """One after the other, as the receiver does it anyway; those that are left, if it breaks or falls silent."""
        left = deque(messages)

        async def run() -> None:
            while left:
                message = left[0]
                settled = await _settle_one(settle, message, taker.receiver)
                if not left:
                    # It was given up meanwhile; its messages are not its any more.
                    return
                left.popleft()
                if self._took.pop(message.sequence_number, None) is not None:
                    taker.unsettled -= 1
                told(message, settled)

        async with self._takers.alone_with(taker):
            if not self._takers.has(taker):
                return list(messages)
            try:
                await named(while_it_moves(backlog_calls.CALL_SECONDS_MAX, run(), lambda: len(left)))
            except BacklogTrouble as error:
                _LOGGER.info("a receiver of %s broke; settling by lock token instead: %s", self._path, error)
                # It would fail, or keep silent, each time anew.
                self._took = {number: other for number, other in self._took.items() if other is not taker}
                self._takers.drop(taker)
            finally:
                rest = list(left)
                left.clear()
        return rest

    async def close(self) -> None:
        await self.stop_taking()
        looker, self._looker = self._looker, None
        if looker is not None:
            await quietly(looker.close())
        await self._takers.closed()
        await quietly(self._client.close())

    async def _ask(self, question: Callable[[ServiceBusReceiver], Awaitable[T]]) -> T:
        """One at a time; a receiver that has had trouble is not asked again."""
        async with self._looking_alone:
            looker = await self._looking()
            try:
                return await bounded(question(looker))
            except BacklogTrouble:
                self._looker = None
                self._takers.retire(looker)
                raise

    async def _looking(self) -> ServiceBusReceiver:
        """Open, since the SDK settles only with a receiver that is."""
        if self._looker is not None and self._questions >= QUESTIONS_MAX:
            self._takers.retire(self._looker)
            self._looker = None
        if self._looker is None:
            looker = self._client.get_queue_receiver(str(self._path))
            await bounded(looker.__aenter__())
            self._looker, self._questions = looker, 0
        self._questions += 1
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


async def _settle_one(settle: Settle, message: BacklogMessage, receiver: ServiceBusReceiver) -> bool:
    """Whether it is settled; a message whose lock is over comes again, which is all that can be said about it."""
    assert isinstance(message.handle, ServiceBusReceivedMessage)
    try:
        await settle(receiver, message.handle)
    except (MessageLockLostError, MessageAlreadySettled) as error:
        number = message.sequence_number
        _LOGGER.warning("backlog message %s was not settled and comes again: %s", number, detail_of(error))
        return False
    return True
