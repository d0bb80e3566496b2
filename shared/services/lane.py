"""A lane: the one place from which messages go to one entity.

The SDK's sender breaks when it is used concurrently, so a link has one owner, a worker, and everybody else hands over
parcels (messages that travel together) and waits. What has gathered while a transfer was under way travels in the next
one, as one batch. Nothing waits for company: on an idle lane the caller borrows the worker's link and sends itself.
While much is waiting a second worker helps, so that one batch is put together while the other one travels.

Every caller waits for its own answer until its own deadline. A transfer that outlives all its callers has breached:
its link is retired together with the worker that is stuck in it, and a new worker goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from shared.domain.failures import Failure
from shared.domain.message import Outgoing
from shared.ports import Link, SendFailed
from shared.services.lane_worker import Worker
from shared.services.parcels import DELIVERED, Deadlines, Delivered, Flushed, LaneFull, Waiting, expire, fail
from shared.services.retired import Retired

#: Parcels that may wait for one entity; beyond that callers are told to come back later.
WAITING_MAX = 10_000
WORKERS_MAX = 2
#: With so many parcels waiting, two workers share them.
SHARED_FROM = 32


class Lane:
    def __init__(self, new_link: Callable[[], Link], retired: Retired, *, mixes_keys: bool) -> None:
        self._new_link = new_link
        self._retired = retired
        #: Whether messages of different keys may share a batch: a partitioned entity takes one key a batch.
        self.mixes_keys = mixes_keys
        self._waiting: deque[Waiting] = deque()
        self._deadlines = Deadlines(self.expire)
        self._workers: list[Worker] = []
        #: The last transfer had company, so the next one will: a caller that sent alone now would keep it waiting.
        self._is_crowded = False
        #: That the entity refused the app's credentials, until it accepts something again.
        self.refused: SendFailed | None = None

    @property
    def is_idle(self) -> bool:
        return not self._waiting and all(worker.is_idle for worker in self._workers)

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    async def send(self, messages: Sequence[Outgoing], *, deadline: float) -> Delivered:
        """Until the deadline (in the loop's time): Delivered, or SendFailed, LaneFull or Flushed."""
        failed = None
        if not self._waiting and not self._is_crowded and self._workers:
            worker = self._workers[0]
            link = worker.lend(deadline)
            if link is not None:
                failed = await self._send_oneself(worker, link, messages)
                if failed is None:
                    return DELIVERED
        if len(self._waiting) >= WAITING_MAX:
            raise LaneFull
        waiting = Waiting(messages, asyncio.get_running_loop().create_future(), deadline)
        if failed is not None:
            waiting.failures, waiting.indefinite = 1, failed.indefinite
        self._waiting.append(waiting)
        self._wake_up()
        self._deadlines.watch(waiting, deadline)
        return await waiting.answer

    async def _send_oneself(self, worker: Worker, link: Link, messages: Sequence[Outgoing]) -> SendFailed | None:
        """None when it is done, or a failure that trying again may cure; anything worse is raised."""
        broken = True
        try:
            packed = await link.pack((messages,))
            if packed.refused:
                broken = False
                raise packed.refused[0]
            await link.send(packed)
            broken = False
        except SendFailed as failed:
            broken = broken and failed.failure.judgement.rebuild
            if failed.failure is Failure.UNAUTHORIZED:
                self.refused = failed
            if failed.failure.judgement.retry:
                return failed
            raise
        except asyncio.CancelledError:
            if not worker.is_overdue:
                raise
            raise SendFailed(Failure.TIMEOUT, "no answer in time", indefinite=True) from None
        finally:
            worker.take_back(broken=broken)
        return None

    def expire(self, waiting: Waiting) -> None:
        """Whoever did not even get as far as the transfer knows better than a time-out, if it is known why."""
        if self.refused is not None and not waiting.under_way:
            fail([waiting], self.refused)
        else:
            expire(waiting)

    def flush(self, is_concerned: Callable[[Waiting], bool] = lambda _: True) -> None:
        """Gives back everything that is not under way, or what is concerned of it."""
        for waiting in self._waiting:
            if is_concerned(waiting) and not waiting.answer.done():
                waiting.answer.set_exception(Flushed(indefinite=waiting.indefinite))
        self._waiting = deque(waiting for waiting in self._waiting if not waiting.answer.done())

    def close(self) -> None:
        self.flush()
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.abandon()
        self._deadlines.stop()

    def _wake_up(self) -> None:
        for worker in self._workers:
            if worker.is_idle:
                worker.wake_up()
                return
        wanted = 1 if len(self._waiting) < SHARED_FROM else WORKERS_MAX
        if len(self._workers) < wanted:
            self._workers.append(Worker(self))

    # -- for the workers

    def take(self) -> list[Waiting]:
        """What may travel together, in order; whoever has given up is forgotten."""
        alive = [waiting for waiting in self._waiting if not waiting.answer.done()]
        chosen = alive
        if not self.mixes_keys and alive:
            key = alive[0].messages[0].key
            chosen = [one for one in alive if all(message.key == key for message in one.messages)] or alive[:1]
        if len(chosen) >= SHARED_FROM and self._can_share:
            chosen = chosen[: len(chosen) // 2]
        self._is_crowded = len(chosen) > 1
        if len(chosen) == len(alive):
            self._waiting.clear()
            return chosen
        taken = set(map(id, chosen))
        self._waiting = deque(one for one in alive if id(one) not in taken)
        self._wake_up()
        return chosen

    @property
    def _can_share(self) -> bool:
        """Whether another worker is free for the other half, or can be had."""
        return len(self._workers) < WORKERS_MAX or any(worker.is_idle for worker in self._workers)

    def take_all(self) -> list[Waiting]:
        waiting, self._waiting = list(self._waiting), deque()
        return waiting

    def put_back(self, group: Iterable[Waiting]) -> None:
        self._waiting.extendleft(one for one in reversed(list(group)) if not one.answer.done())

    def new_link(self) -> Link:
        return self._new_link()

    def retire(self, link: Link, *, last_call: asyncio.Task[None] | None = None) -> None:
        self._retired.take(link, last_call=last_call)

    def abandoned(self, worker: Worker) -> None:
        """A worker is stuck in a transfer that nobody waits for; others go on."""
        if worker in self._workers:
            self._workers.remove(worker)
        if self._waiting:
            self._wake_up()
