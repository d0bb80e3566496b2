"""A thread pool for synchronous functions that survives a function which never returns.

concurrent.futures joins its threads at interpreter exit, so one hung function would hold the host for ever.
These threads are daemons, and a thread lost to a hung call is replaced.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from enum import Enum
from typing import Any


class _State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    GIVEN_UP = "given up"


class ThreadCall:
    """One synchronous call, waiting or running."""

    __slots__ = ("_call", "_context", "_lock", "_loop", "_pool", "_state", "future")

    def __init__(self, pool: FunctionThreads, call: Callable[[], Any]) -> None:
        self._pool = pool
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._state = _State.WAITING
        self._lock = threading.Lock()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def abandon(self) -> None:
        """Stop waiting for the call; its thread, if it has one, may never come back, so another takes its place."""
        if self._move({_State.WAITING, _State.RUNNING}, _State.GIVEN_UP) is _State.RUNNING:
            self._pool.replace_lost()
        self.future.cancel()

    def withdraw(self) -> None:
        """Nobody waits any more: the call does not begin if it has not begun yet."""
        self._move({_State.WAITING}, _State.GIVEN_UP)

    def run(self) -> bool:
        """Run on the current thread; False when the thread has been given up meanwhile and should end."""
        if self._move({_State.WAITING}, _State.RUNNING) is not _State.WAITING:
            return True
        try:
            result, error = self._context.run(self._call), None
        except BaseException as raised:  # handed to the caller, whatever it is
            result, error = None, raised
        is_kept = self._move({_State.RUNNING}, _State.ENDED) is _State.RUNNING
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._resolve, result, error)
        return is_kept

    def _move(self, expected: set[_State], after: _State) -> _State:
        """Go to another state from one of those expected; the state before."""
        with self._lock:
            before = self._state
            if before in expected:
                self._state = after
        return before

    def _resolve(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


class FunctionThreads:
    """At most `size` synchronous calls at once; the rest wait in order."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._calls: queue.SimpleQueue[ThreadCall | None] = queue.SimpleQueue()
        self._threads = 0
        self._outstanding = 0
        self._lock = threading.Lock()

    def submit(self, call: Callable[[], Any]) -> ThreadCall:
        """Run `call` on a thread; the result arrives on the running event loop."""
        work = ThreadCall(self, call)
        with self._lock:
            self._outstanding += 1
            grow = self._outstanding > self._threads and self._threads < self.size
            self._threads += grow
        self._calls.put(work)
        if grow:
            self._start_thread()
        return work

    def replace_lost(self) -> None:
        """Account for a thread whose call has been given up."""
        with self._lock:
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
        while (call := self._calls.get()) is not None:
            if not call.run():
                return
            with self._lock:
                self._outstanding -= 1
