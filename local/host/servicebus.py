"""Service Bus triggers: one listener per function, through the real SDK."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
    SessionLockLostError,
)

from local.host.cancelling import cancel_all, give_time
from local.host.connections import BusClient, check
from local.host.converters import Datum
from local.host.dispatch import Dispatcher
from local.host.errors import ConfigurationError, FunctionRefused, one_line
from local.host.host_json import ServiceBusOptions
from local.host.invoke import Invocation, Invoker
from local.host.model import FunctionSpec
from local.host.pump import Pump, PumpOptions
from local.host.settings_files import Connection, find_connection

log = logging.getLogger("local.host.servicebus")

BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 15.0
OPEN_TIMEOUT_S = 20.0
CLOSE_TIMEOUT_S = 6.0
SESSION_WAIT_S = 10.0
DRAIN_TIMEOUT_S = 10.0
_DEAD_LETTER = "/$deadletterqueue"
#: How a broken connection shows itself; anything else is a mistake, of the SDK's or of ours, worth a traceback.
_EXPECTED = (ServiceBusError, OSError, ValueError, AttributeError, TimeoutError)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a function's messages come from."""

    queue: str | None = None
    topic: str | None = None
    subscription: str | None = None
    dead_letter: bool = False

    def __str__(self) -> str:
        base = self.queue or f"{self.topic}/Subscriptions/{self.subscription}"
        return f"{base}/$DeadLetterQueue" if self.dead_letter else base


def read_source(trigger: Mapping[str, Any]) -> Source:
    """Queue or subscription of a trigger, with the dead-letter suffix taken apart."""
    queue, subscription = trigger.get("queueName"), trigger.get("subscriptionName")
    last = str(queue or subscription or "")
    dead_letter = last.lower().endswith(_DEAD_LETTER)
    last = last[: -len(_DEAD_LETTER)] if dead_letter else last
    if not last:
        raise ConfigurationError("its trigger names no queue or subscription")
    if queue:
        return Source(queue=last, dead_letter=dead_letter)
    return Source(topic=str(trigger.get("topicName")), subscription=last, dead_letter=dead_letter)


def build_listener(
    *,
    spec: FunctionSpec,
    settings: Mapping[str, str],
    options: ServiceBusOptions,
    invoker: Invoker,
    extra_inputs: Callable[[], Mapping[str, Datum]],
    on_outputs: Callable[[FunctionSpec, Invocation], Awaitable[None]],
) -> ServiceBusListener:
    """A listener for one function; refuses by name what is wrong with its trigger."""
    try:
        source = read_source(spec.trigger)
        connection = find_connection(spec.trigger.get("connection"), settings)
        check(connection)
    except ConfigurationError as error:
        raise FunctionRefused(spec.name, str(error)) from None
    dispatcher = Dispatcher(
        spec=spec, options=options, invoker=invoker, extra_inputs=extra_inputs, on_outputs=on_outputs
    )
    return ServiceBusListener(
        spec=spec, source=source, connection=connection, options=options, dispatcher=dispatcher
    )


class ServiceBusListener:
    """Keeps a function supplied with messages, through outages of the service."""

    def __init__(
        self,
        *,
        spec: FunctionSpec,
        source: Source,
        connection: Connection,
        options: ServiceBusOptions,
        dispatcher: Dispatcher,
    ) -> None:
        self._spec = spec
        self._source = source
        self._connection = connection
        self._options = options
        self._dispatcher = dispatcher
        self._sessions = bool(spec.trigger.get("isSessionsEnabled"))
        self._pumps: set[Pump] = set()
        self._stop = asyncio.Event()
        self._finished = asyncio.Event()
        self._trouble: str | None = None

    async def serve(self) -> None:
        """Until stopped. Each pump keeps itself alive."""
        count = self._options.max_concurrent_sessions if self._sessions else 1
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(count):
                    group.create_task(self._keep_pumping())
        finally:
            self._finished.set()

    def stop_receiving(self) -> None:
        self._stop.set()
        for pump in self._pumps:
            pump.stop()

    async def close(self) -> None:
        """Let calls end and be settled, for a bounded time."""
        self.stop_receiving()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                await self._finished.wait()

    def _pump_options(self) -> PumpOptions:
        options = self._options
        if self._dispatcher.many:
            return PumpOptions(
                concurrency=1,
                renew_for=None,
                idle_timeout=options.session_idle_timeout if self._sessions else None,
                batch_size=options.max_batch_size,
                batch_minimum=options.min_batch_size,
                batch_wait=options.max_batch_wait,
            )
        if self._sessions:
            return PumpOptions(
                concurrency=options.max_concurrent_calls_per_session,
                renew_for=options.max_auto_lock_renewal,
                idle_timeout=options.session_idle_timeout,
            )
        return PumpOptions(concurrency=options.max_concurrent_calls, renew_for=options.max_auto_lock_renewal)

    async def _keep_pumping(self) -> None:
        pump = self._new_pump()
        backoff = BACKOFF_FIRST_S
        while not (self._stop.is_set() and not pump.in_flight):
            try:
                await self._pump_once(pump)
                backoff = BACKOFF_FIRST_S
            except OperationTimeoutError:
                # No session is waiting for a receiver; ask again.
                backoff = BACKOFF_FIRST_S
            except SessionLockLostError as error:
                log.warning("function '%s': a session was lost: %s", self._spec.name, one_line(error, 160))
                await pump.drain()
                pump.give_up()
            except Exception as error:
                # Whatever it is: a listener that ended would leave its function without messages for good.
                self._report(error)
                await self._pause(pump, backoff)
                backoff = min(backoff * 2, BACKOFF_MAX_S)
            if self._sessions and not self._stop.is_set():
                await pump.drain()
                self._pumps.discard(pump)
                pump = self._new_pump()
        self._pumps.discard(pump)

    def _new_pump(self) -> Pump:
        pump = Pump(name=self._spec.name, options=self._pump_options(), handle=self._dispatcher)
        self._pumps.add(pump)
        if self._stop.is_set():
            pump.stop()
        return pump

    async def _pause(self, pump: Pump, seconds: float) -> None:
        """Wait before the next try, but not while the host stops."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        if self._stop.is_set():
            await pump.drain()
            pump.give_up()

    async def _pump_once(self, pump: Pump) -> None:
        """One receiver from its opening to its end."""
        bus = BusClient(self._connection, retries=0 if self._sessions else 1)
        receiver: ServiceBusReceiver | None = None
        try:
            receiver = self._receiver(bus.client)
            await self._open(receiver)
            self._recovered()
            await pump.run(receiver)
        finally:
            await _close(bus, receiver)

    async def _open(self, receiver: ServiceBusReceiver) -> None:
        """Attach; a session receiver waits here for a session, which the host's stop may end."""
        opening = asyncio.ensure_future(receiver.__aenter__())
        limit = OPEN_TIMEOUT_S + (SESSION_WAIT_S if self._sessions else 0)
        until = asyncio.get_running_loop().time() + limit
        while not opening.done():
            await asyncio.wait((opening,), timeout=0.2)
            late = asyncio.get_running_loop().time() > until
            if not opening.done() and (self._stop.is_set() or late):
                await cancel_all((opening,), seconds=CLOSE_TIMEOUT_S)
                raise OperationTimeoutError() if self._stop.is_set() else TimeoutError("the service does not answer")
        await opening

    def _receiver(self, client: ServiceBusClient) -> ServiceBusReceiver:
        chosen: dict[str, Any] = {"prefetch_count": self._options.prefetch_count}
        if self._source.dead_letter:
            chosen["sub_queue"] = ServiceBusSubQueue.DEAD_LETTER
        if self._sessions:
            chosen |= {"session_id": NEXT_AVAILABLE_SESSION, "max_wait_time": SESSION_WAIT_S}
        if self._source.queue is not None:
            return client.get_queue_receiver(self._source.queue, **chosen)
        return client.get_subscription_receiver(str(self._source.topic), str(self._source.subscription), **chosen)

    def _report(self, error: BaseException) -> None:
        """Each new kind of trouble is one line; its repetition is not."""
        text = self._explain(error)
        if text != self._trouble:
            trace = None if isinstance(error, _EXPECTED) else error
            log.error("function '%s': %s; trying again", self._spec.name, text, exc_info=trace)
            self._trouble = text

    def _explain(self, error: BaseException) -> str:
        where = f"'{self._source}' of connection '{self._connection.name}'"
        # A token for an entity that is not there is refused before any link can be.
        if getattr(getattr(error, "inner_exception", None), "status_code", None) == 404:
            return f"{where} does not exist"
        match error:
            case MessagingEntityNotFoundError():
                return f"{where} does not exist"
            case MessagingEntityDisabledError():
                return f"{where} is disabled"
            case ServiceBusAuthenticationError() | ServiceBusAuthorizationError():
                return f"access to {where} is refused: {one_line(error, 120)}"
        return f"cannot receive from {where}: {type(error).__name__}: {one_line(error, 120)}"

    def _recovered(self) -> None:
        if self._trouble is not None:
            log.info("function '%s' receives again from '%s'", self._spec.name, self._source)
            self._trouble = None


async def _close(bus: BusClient, receiver: ServiceBusReceiver | None) -> None:
    """Close within a bound: a broken connection must not hold the listener."""
    for part in (receiver, bus):
        if part is None:
            continue
        closing = asyncio.ensure_future(part.close())
        await give_time(closing, seconds=CLOSE_TIMEOUT_S)
        if closing.done() and not closing.cancelled() and (error := closing.exception()) is not None:
            log.debug("closing a Service Bus connection: %s", one_line(error))
