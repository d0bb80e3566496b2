"""Looks at messages without taking them: no lock, no delivery count, nothing removed.

A partitioned entity numbers its messages within each partition, with the partition in the top 16 bits, and the service
does not promise in which order it goes through partitions. So each is walked by itself, from its first number on; of an
entity without partitions all but the first are empty, which costs one call each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusReceiver

from pipeline.servicebus.errors import ReadFailed
from pipeline.servicebus.plans import DEAD_LETTERS, TRANSFER_DEAD_LETTERS, PeekedQueue, ReadPlan
from shared.adapters.credentials import credential_for
from shared.adapters.sdk_failures import classify, detail_of
from shared.adapters.servicebus import sdk_client
from shared.bounded import quietly, within
from shared.domain.backlog import TRANSFER_SEGMENT
from shared.domain.failures import Failure
from shared.domain.partitions import PARTITION_SHIFT, partition_of

PARTITIONS_MAX = 16
PEEK_AT_ONCE_MAX = 250
#: One call on a queue; the SDK alone would wait for minutes on a connection that fell silent.
CALL_SECONDS_MAX = 30.0
#: Peeking changes nothing, so a call that failed is made again.
ATTEMPTS_MAX = 4
PAUSE_S = 0.5
_FINAL = (Failure.ENTITY_NOT_FOUND, Failure.UNAUTHORIZED, Failure.MESSAGE_REJECTED, Failure.NAMESPACE_NOT_FOUND)
_SUB_QUEUES = {
    DEAD_LETTERS: ServiceBusSubQueue.DEAD_LETTER,
    TRANSFER_DEAD_LETTERS: ServiceBusSubQueue.TRANSFER_DEAD_LETTER,
}


class Peeker:
    """`with Peeker(plan, queue) as peeker:`; a connection of its own, for one thread that waits."""

    def __init__(self, plan: ReadPlan, queue: PeekedQueue) -> None:
        self._plan = plan
        self._queue = queue
        self._runner = asyncio.Runner()
        self._open: list[Any] = []
        self._receiver: ServiceBusReceiver | None = None

    def __enter__(self) -> Peeker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._runner.run(self._close())
        finally:
            self._runner.close()

    def walk(self, partition: int, after: int, until: int | None = None) -> Iterator[ServiceBusReceivedMessage]:
        """Messages of one partition with numbers above `after`, up to `until`, in order."""
        next_number = max(after + 1, partition << PARTITION_SHIFT, 1)
        while until is None or next_number <= until:
            page = self._runner.run(self._page(next_number))
            numbered = [(message.sequence_number or 0, message) for message in page]
            found = sorted((one for one in numbered if one[0] >= next_number), key=lambda one: one[0])
            own = [one for one in found if partition_of(one[0]) == partition]
            if not own:
                return
            for number, message in own:
                if until is not None and number > until:
                    return
                yield message
            next_number = own[-1][0] + 1

    async def _page(self, first: int) -> list[ServiceBusReceivedMessage]:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return await within(CALL_SECONDS_MAX, self._peek(first))
            except Exception as error:
                await self._close()
                self._raise_if_final(error, is_last=attempt == ATTEMPTS_MAX)
            await asyncio.sleep(PAUSE_S * attempt)
        raise AssertionError("the last attempt returns or raises")

    async def _peek(self, first: int) -> list[ServiceBusReceivedMessage]:
        if self._receiver is None:
            self._receiver = await self._connect()
        return await self._receiver.peek_messages(PEEK_AT_ONCE_MAX, sequence_number=first)

    async def _connect(self) -> ServiceBusReceiver:
        connection, queue = self._plan.connection, self._queue
        credential = None if connection.connection_string is not None else credential_for(connection.client_id)
        client = sdk_client(connection, credential, self._plan.authority_file)
        self._open = [one for one in (client, credential) if one is not None]
        sub_queue = None if queue.sub_queue is None else _SUB_QUEUES[queue.sub_queue]
        if queue.subscription is not None:
            receiver = client.get_subscription_receiver(queue.path, queue.subscription, sub_queue=sub_queue)
        else:
            receiver = client.get_queue_receiver(queue.path, sub_queue=sub_queue)
        self._open.insert(0, receiver)
        await receiver.__aenter__()
        return receiver

    def _raise_if_final(self, error: Exception, *, is_last: bool) -> None:
        failure, detail = classify(error), detail_of(error)
        if failure is Failure.MESSAGE_REJECTED and "requires sessions" in detail:
            raise ReadFailed(
                f"{self._queue.name} requires sessions: the service lets nobody peek there without locking a session, "
                "which would keep its receivers out; its dead-letter queue (subQueue=deadLetter) can be read"
            ) from None
        if failure in _FINAL or is_last:
            is_backlog = f"/{TRANSFER_SEGMENT}/" in self._queue.name
            missing = failure is Failure.ENTITY_NOT_FOUND and is_backlog
            hint = "; pair first, or correct BACKLOG_QUEUE_COUNT" if missing else ""
            raise ReadFailed(f"{self._queue.name} cannot be read: {failure.value}: {detail}{hint}") from None

    async def _close(self) -> None:
        """What does not close in time is dropped with its connection."""
        opened, self._open, self._receiver = self._open, [], None
        for one in opened:
            await quietly(one.close())
