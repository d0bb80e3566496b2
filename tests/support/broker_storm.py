"""A storm of sends and settlements against a broker that is killed again and again, and the account of it.

Kept promises: an acknowledged send is there afterwards, once; an acknowledged completion stays gone.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

from tests.support.broker_process import BrokerProcess

SENDERS = 3
BATCH = 20
#: Bounds of the time between a start and the next kill.
CALM_S = (0.3, 1.2)
ENOUGH_PER_LIFE = 30
DEADLINE_S = 30.0

QUEUES: dict[str, dict[str, Any]] = {
    "orders": {},
    "once": {"RequiresDuplicateDetection": True, "DuplicateDetectionHistoryTimeWindow": "PT1H"},
}


@dataclass
class Account:
    """Who was promised what."""

    sent: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    #: Completions that were acknowledged.
    completed: Counter[str] = field(default_factory=Counter)
    #: Completions whose answer was lost: gone or not, both are right.
    maybe_completed: set[str] = field(default_factory=set)
    #: Ids sent to the queue that detects duplicates, again and again until acknowledged.
    once: set[str] = field(default_factory=set)
    kills: int = 0

    def figures(self) -> dict[str, int]:
        return {
            "kills": self.kills,
            "sent": len(self.sent),
            "acknowledged": len(self.acknowledged) + len(self.once),
            "completed": self.completed.total(),
        }


class Storm:
    def __init__(self, broker: BrokerProcess, rng: random.Random) -> None:
        self.account = Account()
        self._broker = broker
        self._rng = rng
        self._numbers = itertools.count()
        self._is_over = False

    async def rage(self, kills: int) -> None:
        """Send and receive all the while; kill and start the broker so often."""
        work = [self._send() for _ in range(SENDERS)] + [self._send_once(), self._receive()]
        tasks = [asyncio.create_task(item) for item in work]
        try:
            for _ in range(kills):
                before = len(self.account.acknowledged)
                await asyncio.sleep(self._rng.uniform(*CALM_S))
                await self._until(lambda before=before: len(self.account.acknowledged) >= before + ENOUGH_PER_LIFE)
                await asyncio.to_thread(self._broker.kill)
                self.account.kills += 1
                await asyncio.to_thread(self._broker.start)
        finally:
            self._is_over = True
            await asyncio.gather(*tasks)

    async def _until(self, condition: Any) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, "the storm came to a halt"
            await asyncio.sleep(0.01)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:
        async with ServiceBusClient.from_connection_string(self._broker.connection_string, retry_total=0) as client:
            yield client

    async def _send(self) -> None:
        """Each id once; what is not acknowledged is left in doubt."""
        while not self._is_over:
            try:
                async with self._client() as client, client.get_queue_sender("orders") as sender:
                    while not self._is_over:
                        await self._send_some(sender)
            except ServiceBusError:
                await asyncio.sleep(0.05)

    async def _send_some(self, sender: Any) -> None:
        ids = [f"m{next(self._numbers)}" for _ in range(self._rng.choice([1, 1, BATCH]))]
        messages = [ServiceBusMessage(message_id, message_id=message_id) for message_id in ids]
        self.account.sent.update(ids)
        await sender.send_messages(messages if len(messages) > 1 else messages[0], timeout=5)
        self.account.acknowledged.update(ids)

    async def _send_once(self) -> None:
        """The same id until it is acknowledged: the broker sorts out the duplicates, over restarts, too."""
        message_id = ""
        while not self._is_over:
            try:
                async with self._client() as client, client.get_queue_sender("once") as sender:
                    while not self._is_over:
                        message_id = message_id or f"o{next(self._numbers)}"
                        await sender.send_messages(ServiceBusMessage(message_id, message_id=message_id), timeout=5)
                        self.account.once.add(message_id)
                        message_id = ""
            except ServiceBusError:
                await asyncio.sleep(0.05)

    async def _receive(self) -> None:
        while not self._is_over:
            try:
                async with self._client() as client, client.get_queue_receiver("orders") as receiver:
                    while not self._is_over:
                        for message in await receiver.receive_messages(10, max_wait_time=0.2):
                            await self._complete(receiver, message)
            except ServiceBusError:
                await asyncio.sleep(0.05)

    async def _complete(self, receiver: Any, message: Any) -> None:
        self.account.maybe_completed.add(message.message_id)
        await receiver.complete_message(message)
        self.account.maybe_completed.discard(message.message_id)
        self.account.completed[message.message_id] += 1

    async def left(self, queue: str) -> Counter[str]:
        """Everything that is in the queue in the end, by message id."""
        found: Counter[str] = Counter()
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        async with self._client() as client, client.get_queue_receiver(queue, receive_mode=mode) as receiver:
            while messages := await receiver.receive_messages(500, max_wait_time=2):
                found.update(message.message_id for message in messages)
        return found

    async def settle_accounts(self) -> None:
        account = self.account
        left = await self.left("orders")
        assert account.acknowledged, "nothing was sent"
        assert set() == account.acknowledged - set(left) - set(account.completed) - account.maybe_completed, "lost"
        assert [] == [key for key, count in (left + account.completed).items() if count > 1], "twice"
        assert set() == (set(left) | set(account.completed)) - account.sent, "made up"
        once = await self.left("once")
        assert set() == account.once - set(once), "lost, though sent until acknowledged"
        assert [] == [key for key, count in once.items() if count > 1], "a duplicate came through"
