"""A whole broker on a thread of its own, for tests whose client blocks or has a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVar

from local.broker.broker import Broker, BrokerOptions, NamespaceSpec
from local.broker.clock import Clock
from local.broker.namespace import Namespace
from tests.support.broker import KEY

Result = TypeVar("Result")
START_S = 30.0


class BrokerThread:
    """`with BrokerThread("primary") as broker:`; everything is asked of the broker's own thread."""

    def __init__(self, *names: str, options: BrokerOptions | None = None, clock: Clock | None = None) -> None:
        specs = [NamespaceSpec(name=name) for name in names or ("primary",)]
        self.broker = Broker(specs, options or BrokerOptions(key=KEY), clock=clock)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="broker", daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def __enter__(self) -> BrokerThread:
        self._thread.start()
        self.wait_for(self.broker.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wait_for(lambda: self.broker.__aexit__(kind, error, trace))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)

    def wait_for(self, action: Callable[[], Awaitable[Result]]) -> Result:
        async def act() -> Result:
            return await action()

        return asyncio.run_coroutine_threadsafe(act(), self._loop).result(START_S)

    def call(self, action: Callable[[Namespace], Result], name: str | None = None) -> Result:
        """Look at a namespace, or change it, on the broker's thread."""

        async def act() -> Result:
            return action(self.space(name))

        return self.wait_for(act)

    def space(self, name: str | None = None) -> Namespace:
        return self.broker[name or next(iter(self.broker.namespaces))].core

    def connection_string(self, name: str | None = None) -> str:
        return self.broker[name or next(iter(self.broker.namespaces))].connection_string

    def inject(self, **fault: object) -> int:
        return self.wait_for(lambda: self.broker.inject(**fault))

    def heal(self, fault_id: int | None = None) -> None:
        self.wait_for(lambda: self.broker.heal(fault_id))

    def hits(self, fault_id: int) -> int:
        return self.call(lambda _: self.broker.faults.rules[fault_id].hits)
