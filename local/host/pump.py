"""One receiver, one task: receiving, settling and renewing take turns, since the SDK's receiver is not safe to share.

Functions run in tasks of their own and hand their verdict back; the pump carries it out. It survives the loss of
its connection: the receiver is rebuilt with back-off, and a verdict that could not be carried out goes to the new
receiver, which settles by lock token.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusReceiver, ServiceBusSession
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    ServiceBusError,
    SessionLockLostError,
)

from local.host.errors import one_line

log = logging.getLogger("local.host.servicebus")

IDLE_WAIT_S = 1.0
BUSY_WAIT_S = 0.02
BUSY_WAIT_MAX_S = 0.25
GATHER_S = 0.003
SETTLE_ATTEMPTS = 5
RENEW_CHECK_S = 1.0
RENEW_AHEAD = timedelta(seconds=10)


class Verdict(Enum):
    """What becomes of a message after its call."""

    COMPLETE = "complete"
    ABANDON = "abandon"
    LEAVE = "leave"


@dataclass(frozen=True, kw_only=True)
class PumpOptions:
    """How many calls at once, how long locks are renewed (None: for ever), when an idle session is left."""

    concurrency: int
    renew_for: timedelta | None
    idle_timeout: timedelta | None = None
    batch_size: int = 0
    batch_minimum: int = 1
    batch_wait: timedelta = timedelta(0)


@dataclass(kw_only=True, eq=False)
class _Flight:
    """Messages of one call, from receipt to settlement."""

    messages: Sequence[ServiceBusReceivedMessage]
    started: datetime
    unsettled: list[ServiceBusReceivedMessage]
    verdict: Verdict | None = None
    attempts: int = 0
    task: asyncio.Task[None] | None = field(default=None, repr=False)


Handle = Callable[[Sequence[ServiceBusReceivedMessage]], Awaitable[Verdict]]


class Pump:
    """Moves messages from one receiver through a handler until told to stop."""

    def __init__(self, *, name: str, options: PumpOptions, handle: Handle) -> None:
        self._name = name
        self._options = options
        self._handle = handle
        self._flights: set[_Flight] = set()
        self._landed: list[_Flight] = []
        self._cached: list[ServiceBusReceivedMessage] = []
        self._cached_since: datetime | None = None
        self._changed = asyncio.Event()
        self._next_check = datetime.now(UTC)
        self._busy_wait_s = BUSY_WAIT_S
        self._flowing = False
        self.stopping = False

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    def stop(self) -> None:
        """Receive no more; `run` ends when all calls have ended and are settled."""
        self.stopping = True
        self._changed.set()

    async def run(self, receiver: ServiceBusReceiver) -> None:
        """Work with one receiver until stopped, idle for too long (sessions), or it breaks."""
        last_message = datetime.now(UTC)
        while True:
            await self._settle_landed(receiver)
            await self._renew(receiver)
            if self.stopping:
                if not self._flights:
                    return
                if self._landed:
                    continue
                await self._wait_change(RENEW_CHECK_S)
                continue
            received = await self._receive(receiver)
            now = datetime.now(UTC)
            if received:
                last_message = now
            elif self._idle_too_long(last_message, now):
                return

    def _idle_too_long(self, last_message: datetime, now: datetime) -> bool:
        limit = self._options.idle_timeout
        if limit is None or self._flights or self._cached:
            return False
        return now - last_message > limit

    # Receiving

    async def _receive(self, receiver: ServiceBusReceiver) -> bool:
        if self._options.batch_size:
            return await self._receive_batch(receiver)
        free = self._options.concurrency - len(self._flights)
        if 0 < free < self._options.concurrency // 4 and self._flights:
            # A few more calls may end right away: fewer, larger requests to the service.
            await self._wait_change(GATHER_S)
            free = self._options.concurrency - len(self._flights)
        if free < 1:
            await self._wait_change(RENEW_CHECK_S)
            return False
        # Asked for several, the SDK waits for more after the first; so an idle pump asks for one and has it at once.
        idle = not self._flights and not self._flowing
        messages = await receiver.receive_messages(
            max_message_count=1 if idle else free, max_wait_time=IDLE_WAIT_S if idle else self._busy_wait_s
        )
        for message in messages:
            self._launch((message,))
        self._flowing = bool(messages)
        self._busy_wait_s = BUSY_WAIT_S if messages else min(self._busy_wait_s * 2, BUSY_WAIT_MAX_S)
        return bool(messages)

    async def _receive_batch(self, receiver: ServiceBusReceiver) -> bool:
        """One batch at a time; a minimum above one is gathered under lock until the wait is over."""
        if self._flights:
            await self._wait_change(RENEW_CHECK_S)
            return False
        room = self._options.batch_size - len(self._cached)
        messages = await receiver.receive_messages(max_message_count=room, max_wait_time=IDLE_WAIT_S)
        now = datetime.now(UTC)
        if messages and not self._cached:
            self._cached_since = now
        self._cached.extend(messages)
        waited = self._cached_since is not None and now - self._cached_since >= self._options.batch_wait
        if self._cached and (len(self._cached) >= self._options.batch_minimum or waited):
            self._launch(tuple(self._cached))
            self._cached.clear()
            self._cached_since = None
        return bool(messages)

    def _launch(self, messages: Sequence[ServiceBusReceivedMessage]) -> None:
        flight = _Flight(messages=messages, started=datetime.now(UTC), unsettled=list(messages))
        self._flights.add(flight)
        flight.task = asyncio.create_task(self._fly(flight), name=f"call of {self._name}")

    async def _fly(self, flight: _Flight) -> None:
        verdict = Verdict.ABANDON
        try:
            verdict = await self._handle(flight.messages)
        finally:
            # A call that ends after stop was asked for is given back, however it ended, as in the real host.
            flight.verdict = Verdict.ABANDON if self.stopping and verdict is Verdict.COMPLETE else verdict
            self._landed.append(flight)
            self._changed.set()

    async def _wait_change(self, timeout_s: float) -> None:
        if not self._landed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
        self._changed.clear()

    # Settling

    async def _settle_landed(self, receiver: ServiceBusReceiver) -> None:
        """Some of what has landed; the rest after the next receipt, so that new calls run while settling waits."""
        for _ in range(min(len(self._landed), max(1, self._options.concurrency // 2))):
            flight = self._landed[0]
            await self._settle(receiver, flight)
            self._landed.remove(flight)
            self._flights.discard(flight)

    async def _settle(self, receiver: ServiceBusReceiver, flight: _Flight) -> None:
        """Carry a verdict out; raises only when another receiver may do better."""
        if flight.verdict is Verdict.LEAVE:
            return
        while flight.unsettled:
            message = flight.unsettled[0]
            try:
                if flight.verdict is Verdict.COMPLETE:
                    await receiver.complete_message(message)
                else:
                    await receiver.abandon_message(message)
            except (MessageLockLostError, SessionLockLostError, MessageAlreadySettled) as error:
                self._report_unsettled(message, error)
            except (ServiceBusError, ValueError, OSError) as error:
                flight.attempts += 1
                if flight.attempts < SETTLE_ATTEMPTS and not _expired(message):
                    raise
                self._report_unsettled(message, error)
            flight.unsettled.pop(0)

    def _report_unsettled(self, message: ServiceBusReceivedMessage, error: Exception) -> None:
        log.warning(
            "function '%s': message %s could not be settled and will come again: %s",
            self._name, message.message_id, one_line(error, 160),
        )  # fmt: skip

    def give_up(self) -> None:
        """The session or receiver is gone for good: what is in flight cannot be settled any more."""
        self._landed.clear()
        self._flights.clear()
        self._cached.clear()

    async def drain(self) -> None:
        """Wait for the calls that still run."""
        tasks = [flight.task for flight in self._flights if flight.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    # Renewing

    async def _renew(self, receiver: ServiceBusReceiver) -> None:
        now = datetime.now(UTC)
        if now < self._next_check:
            return
        self._next_check = now + timedelta(seconds=RENEW_CHECK_S)
        session: ServiceBusSession | None = receiver.session
        if session is not None:
            await self._renew_session(receiver, now)
            return
        if self._options.batch_size:
            return
        for flight in tuple(self._flights):
            if flight.verdict is None and self._renews(flight, now):
                for message in flight.messages:
                    await self._renew_message(receiver, message, flight.started, now)

    def _renews(self, flight: _Flight, now: datetime) -> bool:
        limit = self._options.renew_for
        return limit is None or now - flight.started < limit

    async def _renew_message(
        self, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage, started: datetime, now: datetime
    ) -> None:
        if message.locked_until_utc is None or not _due(message.locked_until_utc, started, now):
            return
        try:
            await receiver.renew_message_lock(message)
        except MessageLockLostError as error:
            log.warning("function '%s': the lock of %s is lost: %s", self._name, message.message_id, one_line(error))

    async def _renew_session(self, receiver: ServiceBusReceiver, now: datetime) -> None:
        until = receiver.session.locked_until_utc
        oldest = min((flight.started for flight in self._flights), default=now)
        limit = self._options.renew_for
        if until is not None and until - now < RENEW_AHEAD and (limit is None or now - oldest < limit):
            await receiver.session.renew_lock()


def _due(locked_until: datetime, received: datetime, now: datetime) -> bool:
    """Renew in the last ten seconds of a lock, or in its second half when it is shorter than that."""
    ahead = min(RENEW_AHEAD, max((locked_until - received) / 2, timedelta(seconds=RENEW_CHECK_S)))
    return locked_until - now <= ahead


def _expired(message: ServiceBusReceivedMessage) -> bool:
    return message.locked_until_utc is not None and message.locked_until_utc <= datetime.now(UTC)
