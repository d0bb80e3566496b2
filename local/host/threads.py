"""A thread pool for synchronous functions that survives a function which never returns.

concurrent.futures joins its threads at interpreter exit, so one hung function would hold the host for ever.
These threads are daemons, and a thread lost to a hung call is replaced.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any


class _State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    GIVEN_UP = "given up"


# Looking up a member takes longer than comparing it.
_WAITING, _RUNNING, _ENDED, _GIVEN_UP = _State


class ThreadCall:
    """One synchronous call, waiting or running."""

    __slots__ = ("call", "context", "future", "pool", "returns", "state")

    def __init__(self, pool: FunctionThreads, returns: Returns, call: Callable[[], Any]) -> None:
        self.pool = pool
        self.returns = returns
        self.call = call
        self.context = contextvars.copy_context()
        self.state = _WAITING
        self.future: asyncio.Future[Any] = returns.loop.create_future()

    def abandon(self) -> None:
        """Stop waiting for the call; its thread, if it has one, may never come back, so another takes its place."""
        self.pool.give_up(self)
        self.future.cancel()

    def withdraw(self) -> None:
        """Nobody waits any more: the call does not begin if it has not begun yet."""
        self.pool.give_up(self, only_waiting=True)


class Returns:
    """What calls gave, on its way to one event loop: waking it up costs more than a small call, so all that is there
    when it wakes up is brought at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._ended: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._is_on_its_way = False

    def bring(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        """From any thread."""
        self._ended.append((future, result, error))
        # In this order, and the other way round below: then whoever sees that others call is brought by them.
        if not self._is_on_its_way and not self.loop.is_closed():
            self._is_on_its_way = True
            self.loop.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        self._is_on_its_way = False
        while self._ended:
            future, result, error = self._ended.popleft()
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


class FunctionThreads:
    """At most `size` synchronous calls at once; the rest wait in order."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._calls: queue.SimpleQueue[ThreadCall | None] = queue.SimpleQueue()
        self._returns: Returns | None = None
        #: Guards the counts and the states of calls.
        self._lock = threading.Lock()
        self._threads = 0
        self._outstanding = 0

    def submit(self, call: Callable[[], Any]) -> ThreadCall:
        """Run `call` on a thread; the result arrives on the running event loop."""
        loop = asyncio.get_running_loop()
        if self._returns is None or self._returns.loop is not loop:
            self._returns = Returns(loop)
        work = ThreadCall(self, self._returns, call)
        with self._lock:
            self._outstanding += 1
            grow = self._outstanding > self._threads and self._threads < self.size
            self._threads += grow
        self._calls.put(work)
        if grow:
            self._start_thread()
        return work

    def give_up(self, work: ThreadCall, *, only_waiting: bool = False) -> None:
        """The call does not begin any more; one that runs already loses its thread, unless only_waiting."""
        grow = False
        with self._lock:
            if work.state is _WAITING:
                work.state = _GIVEN_UP
            elif work.state is _RUNNING and not only_waiting:
                work.state = _GIVEN_UP
                self._outstanding -= 1
                self._threads -= 1
                grow = self._outstanding > self._threads
                self._threads += grow
        if grow:
            self._start_thread()

    def close(self) -> None:
        """Let the threads end after what they are doing; a hung one ends with the process."""
        with self._lock:
            threads, self._threads = self._threads, 0
        for _ in range(threads):
            self._calls.put(None)

    def _start_thread(self) -> None:
        threading.Thread(target=self._work, name="function", daemon=True).start()

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            if not self._begin(work):
                continue
            try:
                result, error = work.context.run(work.call), None
            except BaseException as raised:  # handed to the caller, whatever it is
                result, error = None, raised
            is_kept = self._end(work)
            work.returns.bring(work.future, result, error)
            if not is_kept:
                return
            del work, result, error  # nothing of a call is kept alive until the next one

    def _begin(self, work: ThreadCall) -> bool:
        with self._lock:
            if work.state is _WAITING:
                work.state = _RUNNING
                return True
            self._outstanding -= 1
            return False

    def _end(self, work: ThreadCall) -> bool:
        """Whether the thread goes on: it was replaced if its call was given up."""
        with self._lock:
            if work.state is not _RUNNING:
                return False
            work.state = _ENDED
            self._outstanding -= 1
            return True
