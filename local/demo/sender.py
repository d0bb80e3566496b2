"""The sending program of the demo: steady traffic, and what any client does when it is refused."""

from __future__ import annotations

import asyncio

from local.demo.app_client import NO_ANSWER, AppClient
from local.demo.ledger import ACCEPTED, Ledger
from local.demo.traffic import Message, messages

#: Sends under way at once; beyond that traffic falls behind its rate, and nothing is left out.
AT_ONCE_MAX = 2_000
#: A refusal is tried again after what the app asks for, within these bounds, and not for ever.
RETRY_S_MIN, RETRY_S_MAX = 0.2, 2.0
ATTEMPTS_MAX = 120


class Sender:
    def __init__(self, client: AppClient, ledger: Ledger, *, rate: float, seed: int) -> None:
        self._client = client
        self._ledger = ledger
        self._rate = rate
        self._seed = seed

    async def run(self, seconds: float) -> None:
        """Sends for so long, and returns when every message sent was accepted or given up."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        at_once = asyncio.Semaphore(AT_ONCE_MAX)
        async with asyncio.TaskGroup() as group:
            for number, message in enumerate(messages(self._seed)):
                due = number / self._rate
                if due >= seconds:
                    return
                await asyncio.sleep(max(0.0, began + due - loop.time()))
                await at_once.acquire()
                sending = group.create_task(self._send(message))
                sending.add_done_callback(lambda _: at_once.release())

    async def _send(self, message: Message) -> None:
        """Until accepted; always with the same message id, so that it stays one message."""
        self._ledger.sending(message)
        for _ in range(ATTEMPTS_MAX):
            answer = await self._client.send(message)
            self._ledger.answered(message, answer.status, answer.seconds, answer.route)
            if answer.status == ACCEPTED or not _may_pass(answer.status):
                return
            await asyncio.sleep(min(RETRY_S_MAX, max(RETRY_S_MIN, answer.retry_after_s or 0.0)))


def _may_pass(status: int) -> bool:
    """Trouble of the service passes; a mistake of the client (4xx) does not."""
    return status == NO_ANSWER or status >= 500
