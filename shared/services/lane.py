"""A lane: the one place from which messages go to one entity.

The SDK's sender breaks when it is used concurrently, so a link has one owner, a worker, and everybody else hands over
parcels (messages that travel together) and waits. What has gathered while a transfer was under way travels in the next
one, as one batch. Nothing waits for company: on an idle lane the caller borrows the worker's link and sends itself.
While much is waiting a second worker helps, so that one batch is put together while the other one travels.

Where keys may not share a transfer, each key has a line and a transfer of its own, one at a time. A key whose
partition does not answer must not keep the others waiting: a transfer that is under way for long is *slow*, and while
others wait its worker does not count among those at work, so that another one takes over. Only so many links are slow
at a time; beyond that the slowest gives up its transfer before its time.

Every caller waits for its own answer until its own deadline. A transfer that outlives all its callers has breached:
its link is retired together with the worker that is stuck in it, and a new worker goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence

from shared.domain.failures import Failure
from shared.domain.message import Outgoing
from shared.ports import Link, SendFailed
from shared.services.lane_worker import Worker
from shared.services.parcels import DELIVERED, Deadlines, Delivered, Flushed, LaneFull, Waiting, expire, fail
from shared.services.retired import Retired
from shared.services.waiting_room import ANY_KEY, WaitingRoom, is_exclusive

#: Parcels that may wait for one entity; beyond that callers are told to come back later.
WAITING_MAX = 10_000
WORKERS_MAX = 2
#: With so many parcels waiting, two workers share them.
SHARED_FROM = 32
#: The same for keys that may not share a transfer, since each of them takes a transfer of its own.
KEY_WORKERS_MAX = 4
KEYS_SHARED_FROM = 8
#: A transfer of one key is slow when it is under way for so long while others wait; how often that is looked for.
SLOW_AFTER_S = 1.0
LOOK_SECONDS = 0.25
#: Workers, and so links, that may be slow at a time besides those at work.
SLOW_MAX = 60
#: With more slow ones the slowest gives up, if it is under way for so long: what a plain entity has for its answer.
GIVE_UP_AFTER_S = 5.0
#: A parcel of one key is not tried any more in the last part of its time: were it cut off, its key would be blamed.
LATE_PART = 0.25


class Lane:
    def __init__(self, new_link: Callable[[], Link], retired: Retired, *, mixes_keys: bool) -> None:
        self._new_link = new_link
        self._retired = retired
        #: Whether messages of different keys may share a batch: a partitioned entity takes one key a batch.
        self.mixes_keys = mixes_keys
        self._room = WaitingRoom()
        self._deadlines = Deadlines(self.expire)
        self._workers: list[Worker] = []
        #: Workers whose transfer is slow, in that order; they are not among the others.
        self._slow: list[Worker] = []
        #: Keys of which nothing else may go, by the worker that has a transfer of theirs under way.
        self._out: dict[Worker, Hashable] = {}
        self._look: asyncio.TimerHandle | None = None
        #: The last transfer had company, so the next one will: a caller that sent alone now would keep it waiting.
        self._is_crowded = False
        #: That the entity refused the app's credentials, until it accepts something again.
        self.refused: SendFailed | None = None

    @property
    def is_idle(self) -> bool:
        return not self._room.count and not self._slow and all(worker.is_idle for worker in self._workers)

    async def send(self, messages: Sequence[Outgoing], *, deadline: float, key: Hashable = None) -> Delivered:
        """Until the deadline (in the loop's time): Delivered, or SendFailed, LaneFull or Flushed.

        `key` is what all the messages have in common, if keys may not be mixed.
        """
        failed = None
        if self.mixes_keys:
            key = ANY_KEY
        if not self._is_crowded and self._workers and not self._room.count:
            worker = self._workers[0]
            link = worker.lend(deadline) if not self._out or key not in self._out.values() else None
            if link is not None:
                failed = await self._send_oneself(worker, link, messages, key)
                if failed is None:
                    return DELIVERED
        self._refuse_when_full()
        loop = asyncio.get_running_loop()
        waiting = Waiting(messages, loop.create_future(), deadline, key)
        if failed is not None:
            waiting.failures, waiting.indefinite = 1, failed.indefinite
        elif is_exclusive(key):
            waiting.late_from = deadline - LATE_PART * (deadline - loop.time())
        self._room.add(waiting)
        self._wake_up()
        if self._look is None and not self.mixes_keys:
            self._look = loop.call_later(LOOK_SECONDS, self._look_for_slow)
        self._deadlines.watch(waiting, deadline)
        return await waiting.answer

    def _refuse_when_full(self) -> None:
        if self._room.count >= WAITING_MAX:
            self._room.forget_answered()
            if self._room.count >= WAITING_MAX:
                raise LaneFull

    async def _send_oneself(
        self, worker: Worker, link: Link, messages: Sequence[Outgoing], key: Hashable
    ) -> SendFailed | None:
        """None when it is done, or a failure that trying again may cure; anything worse is raised."""
        broken = True
        if key is not ANY_KEY and is_exclusive(key):
            self._out[worker] = key
        try:
            if len(messages) == 1:
                await link.send_one(messages[0])
            else:
                await _send_as_one(link, messages)
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
            if self._out or self._slow:
                self._is_back(worker)
            worker.take_back(broken=broken)
            if self._room.count:
                worker.wake_up()
        return None

    def expire(self, waiting: Waiting) -> None:
        """Whoever did not even get as far as the transfer knows better than a time-out, if it is known why."""
        if self.refused is not None and not waiting.under_way:
            fail([waiting], self.refused)
        else:
            expire(waiting)

    def flush(self, is_concerned: Callable[[Hashable], bool] = lambda key: True) -> None:
        """Gives back everything that is not under way, or what is concerned of it, by its key."""
        for waiting in self._room.of(is_concerned):
            if not waiting.answer.done():
                waiting.answer.set_exception(Flushed(indefinite=waiting.indefinite))
        self._room.forget_answered(is_concerned)

    def close(self) -> None:
        self.flush()
        workers, self._workers, self._slow = [*self._workers, *self._slow], [], []
        for worker in workers:
            worker.abandon()
        self._deadlines.stop()
        if self._look is not None:
            self._look.cancel()

    def _wake_up(self) -> None:
        for worker in self._workers:
            if worker.is_idle:
                worker.wake_up()
                return
        has_room = len(self._workers) + len(self._slow) < SLOW_MAX + KEY_WORKERS_MAX
        if has_room and len(self._workers) < self._workers_wanted:
            self._workers.append(Worker(self))

    @property
    def _workers_wanted(self) -> int:
        for_parcels = 1 if self._room.count < SHARED_FROM else WORKERS_MAX
        if self.mixes_keys:
            return for_parcels
        return max(for_parcels, min(1 + self._room.lines // KEYS_SHARED_FROM, KEY_WORKERS_MAX))

    # -- keys that do not answer

    def _look_for_slow(self) -> None:
        """While somebody waits: whoever has a transfer under way for long is not counted upon."""
        loop = asyncio.get_running_loop()
        self._look = None
        if not self._room.count:
            return
        for worker in [worker for worker in self._workers if worker.seconds_under_way >= SLOW_AFTER_S]:
            self._workers.remove(worker)
            self._slow.append(worker)
        for worker in self._slow[: max(len(self._slow) - SLOW_MAX, 0)]:
            if worker.seconds_under_way >= GIVE_UP_AFTER_S:
                worker.give_up()
        self._wake_up()
        self._look = loop.call_later(LOOK_SECONDS, self._look_for_slow)

    def _is_back(self, worker: Worker) -> None:
        """Its transfer is over, and it may do another."""
        self._out.pop(worker, None)
        if worker in self._slow:
            self._slow.remove(worker)
            if len(self._workers) < KEY_WORKERS_MAX:
                self._workers.append(worker)
            else:
                worker.abandon()

    # -- for the workers

    def take(self, worker: Worker) -> list[Waiting]:
        """What may travel together, in order; whoever has given up is forgotten."""
        self._is_back(worker)
        if worker not in self._workers:
            return []
        while (chosen := self._room.take(but=self._out.values())) and not (chosen := self._in_time(chosen)):
            pass
        if chosen and is_exclusive(chosen[0].key):
            self._out[worker] = chosen[0].key
        elif len(chosen) >= SHARED_FROM and self._can_share:
            self._room.put_back(chosen[len(chosen) // 2 :])
            chosen = chosen[: len(chosen) // 2]
        self._is_crowded = len(chosen) > 1
        if chosen and self._room.count:
            self._wake_up()
        return chosen

    def _in_time(self, group: list[Waiting]) -> list[Waiting]:
        """Those that have enough time left; the others are told at once, while they can do something else with it."""
        if not is_exclusive(group[0].key):
            return group
        now = asyncio.get_running_loop().time()
        late = [one for one in group if one.late_from is not None and one.late_from <= now and not one.failures]
        for waiting in late:
            self.expire(waiting)
        return [waiting for waiting in group if not waiting.answer.done()] if late else group

    @property
    def _can_share(self) -> bool:
        """Whether another worker is free for the other half, or can be had."""
        return len(self._workers) < WORKERS_MAX or any(worker.is_idle for worker in self._workers)

    def take_all(self) -> list[Waiting]:
        return self._room.take_all()

    def put_back(self, group: Iterable[Waiting]) -> None:
        self._room.put_back(group)

    def new_link(self) -> Link:
        return self._new_link()

    def retire(self, link: Link, *, last_call: asyncio.Task[None] | None = None) -> None:
        self._retired.take(link, last_call=last_call)

    def abandoned(self, worker: Worker) -> None:
        """A worker is stuck in a transfer that nobody waits for; others go on."""
        self._out.pop(worker, None)
        for workers in (self._workers, self._slow):
            if worker in workers:
                workers.remove(worker)
        if self._room.count:
            self._wake_up()


async def _send_as_one(link: Link, messages: Sequence[Outgoing]) -> None:
    packed = await link.pack((messages,))
    for refusal in packed.refused.values():
        raise refusal
    await link.send(packed)
