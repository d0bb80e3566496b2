"""The sending program of the demo: steady traffic, and what any client does when it is refused."""

from __future__ import annotations

import asyncio
import random
from itertools import islice

from local.demo.app_client import NO_ANSWER, AppClient
from local.demo.ledger import ACCEPTED, Ledger
from local.demo.traffic import ENTITIES, Message, messages

#: Sends under way at once; beyond that traffic falls behind its rate, and nothing is left out.
AT_ONCE_MAX = 2_000
#: A refused message is sent again after what the app asks for, or longer with every refusal: many impatient clients
#: would keep down what has just come back.
RETRY_S_MIN, RETRY_S_MAX = 0.5, 8.0
#: How long a message is tried.
TRIED_S_MAX = 90.0


class Sender:
    def __init__(self, client: AppClient, ledger: Ledger, *, rate: float, seed: int) -> None:
        self._client = client
        self._ledger = ledger
        self._rate = rate
        self._messages = messages(seed)
        self._chance = random.Random(seed)

    async def warm_up(self) -> None:
        """The first message to each entity opens the app's connections, before anybody looks at the clock."""
        for message in islice(self._messages, len(ENTITIES)):
            await self._send(message)

    async def run(self, seconds: float) -> None:
        """Sends for so long, and returns when every message sent was accepted or given up."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        at_once = asyncio.Semaphore(AT_ONCE_MAX)
        async with asyncio.TaskGroup() as group:
            for number, message in enumerate(self._messages):
                due = number / self._rate
                if due >= seconds:
                    return
                await asyncio.sleep(max(0.0, began + due - loop.time()))
                await at_once.acquire()
                sending = group.create_task(self._send(message))
                sending.add_done_callback(lambda _: at_once.release())

    async def _send(self, message: Message) -> None:
        """Until accepted; always with the same message id, so that it stays one message."""
        loop = asyncio.get_running_loop()
        self._ledger.sending(message)
        ends, pause_s = loop.time() + TRIED_S_MAX, RETRY_S_MIN
        while loop.time() < ends:
            answer = await self._client.send(message)
            self._ledger.answered(message, answer.status, answer.seconds, answer.route)
            if answer.status == ACCEPTED or not _may_pass(answer.status):
                return
            await asyncio.sleep(max(answer.retry_after_s or 0.0, pause_s) * self._chance.uniform(1.0, 1.3))
            pause_s = min(RETRY_S_MAX, 2 * pause_s)


def _may_pass(status: int) -> bool:
    """Trouble of the service passes; a mistake of the client (4xx) does not."""
    return status == NO_ANSWER or status >= 500
