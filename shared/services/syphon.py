"""The syphon: brings backlog messages to the entities they were meant for.

The Functions host wakes it with one message of a backlog queue, holds that message under a renewed lock while the call
runs, completes it when the call returns, and gives it back at once when the call raises. From that follows the shape:

- If the message can go, it is sent on, then the rest of the queue is drained, then the call returns.
- If it cannot, the call stays: it looks around at a slow and constant rate, gets messages of other destinations out,
  and goes on as soon as its own can go. When its time is up it raises, and the next call carries on.
- If the message can never go, a copy takes its place in the queue, which the app's own receiver can dead-letter.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta

from shared.domain.pair import EntityPath
from shared.errors import NothingMoved
from shared.ports import BacklogQueues, Links
from shared.services.entity_facts import EntityFacts
from shared.services.retired import Retired
from shared.services.syphon_call import Call
from shared.services.syphon_desk import Desk
from shared.services.syphon_forwarder import Forwarder

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SyphonOptions:
    attempt_timeout: timedelta
    partitioned_attempt_timeout: timedelta
    #: How long after an entity's recovery senders may still put its messages into the backlog.
    slack: timedelta
    restart_clock: bool = False
    #: A call ends before this: host.json's functionTimeout is 10 minutes, its lock renewal 11.
    call_budget: timedelta = timedelta(minutes=8, seconds=30)
    #: After its own message was sent on, a call drains for so long, and then lets the host complete that message.
    slice: timedelta = timedelta(minutes=1)
    #: While nothing can move: one look, of up to 250 messages, each time.
    look_every: timedelta = timedelta(seconds=1)
    #: After trouble a call takes at least so long before it raises: the host would hand the message back at once.
    cool_down: timedelta = timedelta(seconds=5)


class Syphon:
    def __init__(
        self, *, options: SyphonOptions, queues: BacklogQueues, links: Links, facts: EntityFacts, desk: Desk
    ) -> None:
        self._options = options
        self._queues = queues
        self._links = links
        self._facts = facts
        self._desk = desk
        self._retired = Retired()

    async def tend(self, path: EntityPath, sequence_number: int) -> None:
        """One call for the message of this number. Returning says that it may be completed, raising that it may not."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        queue = self._queues.open(path)
        forwarder = Forwarder(
            links=self._links,
            facts=self._facts,
            retired=self._retired,
            attempt_timeout=self._options.attempt_timeout,
            partitioned_attempt_timeout=self._options.partitioned_attempt_timeout,
        )
        call = Call(
            path=path,
            sequence_number=sequence_number,
            queue=queue,
            links=self._links,
            forwarder=forwarder,
            desk=self._desk,
            options=self._options,
        )
        try:
            await call.run()
        except NothingMoved:
            raise
        except Exception as error:
            _LOGGER.warning("syphon: %s has trouble: %s: %s", path, type(error).__name__, error)
            rest = self._options.cool_down.total_seconds() - (loop.time() - started)
            await asyncio.sleep(max(rest, 0.0))
            raise
        finally:
            forwarder.close()
            self._retired.take(queue)
            await self._desk.stopped(path)

    async def close(self) -> None:
        await self._retired.settled()
