"""The syphon on the embedded broker: filled backlog queues, a host's way of calling it, and a count of operations."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient

from local.broker.amqp.link import Link
from local.broker.amqp.performatives import Flow
from local.broker.content import Content
from local.broker.descriptions import QueueDescription
from local.broker.faults import Point, Strike
from local.host.cancelling import cancel_all
from local.host.pump import Pump, PumpOptions, Verdict
from shared import composition
from shared.composition import Runtime
from shared.domain.availability import Event
from shared.domain.pair import EntityPath
from shared.errors import NothingMoved
from tests.support.broker import payload
from tests.support.send_services import PairOnBroker, Recorder, stored

RENEWED_FOR = timedelta(minutes=11)
STOP_SECONDS = 20.0
#: By which the broker knows the receivers of the host's stand-in from those of the syphon.
HOST_NAME = "the-functions-host"
RECEIVER_NAME = "com.microsoft:receiver-name"


def backlog_payload(
    destination: str | None, message_id: str, body: bytes = b"body", transfer: dict[str, Any] | None = None
) -> bytes:
    """A message as it waits in a backlog queue."""
    application = {**({"x-ms-path": destination} if destination else {}), **(transfer or {})}
    return payload(body, application=application, message_id=message_id)


def fill(pair: PairOnBroker, queue: str, messages: Sequence[bytes]) -> None:
    """Straight into the broker's store, which a network would only slow down."""
    entity = pair.secondary.core.queue(queue)
    for message in messages:
        entity.send(Content.parse(message))


def create_backlog(pair: PairOnBroker, count: int, *, lock_seconds: float = 60) -> list[str]:
    """Backlog queues; with short locks where a test would otherwise wait for them."""
    paths = pair.backlog_paths(count)
    for path in paths:
        pair.secondary.core.create_queue(
            path, QueueDescription(max_delivery_count=2**31 - 1, lock_duration=timedelta(seconds=lock_seconds))
        )
    return paths


def dead_letters(pair: PairOnBroker, queue: str) -> list[tuple[str | None, str, str]]:
    """Message id, reason and description of what is in the dead-letter queue."""
    found = []
    for message in pair.secondary.core.queue(queue).dead_letters.messages():
        properties = message.content.sections().decode_application_properties()
        reason, description = properties["DeadLetterReason"], properties["DeadLetterErrorDescription"]
        found.append((message.content.message_id, reason, description))
    return found


def ids(pair: PairOnBroker, path: str) -> Counter[str]:
    return Counter(str(message.content.message_id) for message in pair.in_primary(path))


@dataclass
class Operations:
    """What the broker was asked to do for a namespace."""

    #: By kind.
    counts: Counter[Point] = field(default_factory=Counter)
    #: Asking for messages, by giving credit for them: no kind of its own, but a client could poll that way.
    flows: int = 0
    #: The same by the host's stand-in, which asks again each time a wait of its own ends: not the syphon's doing.
    host_flows: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts.values()) + self.flows

    @property
    def kinds(self) -> dict[str, int]:
        return {**{point.value: count for point, count in self.counts.items()}, "flow": self.flows}


@contextmanager
def count_operations(pair: PairOnBroker, namespace: str = "secondary") -> Iterator[Operations]:
    """Counts meanwhile; a fault that never strikes has the broker ask before each operation."""
    operations, faults = Operations(), pair.broker.faults
    ask, on_flow = faults.at, Link.on_flow

    def counting(point: Point, name: str, entity: str | None, direction: str = "") -> Strike:
        if name == namespace:
            operations.counts[point] += 1
        return ask(point, name, entity, direction)

    def counting_flows(link: Link, flow: Flow) -> None:
        if link.connection.container_id == namespace and flow.link_credit and not flow.drain and gives_messages(link):
            if link.properties.get(RECEIVER_NAME) == HOST_NAME:
                operations.host_flows += 1
            else:
                operations.flows += 1
        on_flow(link, flow)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(faults, "at", counting)
        patched.setattr(Link, "on_flow", counting_flows)
        yield operations


def gives_messages(link: Link) -> bool:
    """Rather than tokens or answers of the management node, whose receivers get credit as part of their opening."""
    address = str(getattr(link.source, "address", ""))
    return link.is_sender and not address.endswith(("$cbs", "$management"))


async def never_striking_fault(pair: PairOnBroker, namespace: str = "secondary") -> None:
    await pair.broker.inject(kind="throttle", namespace=namespace, rate=0.0)


@dataclass(eq=False)
class SyphonHost:
    """What the Functions host does: one message at a time, its lock renewed; return completes, raise abandons."""

    pair: PairOnBroker
    runtime: Runtime
    queues: Sequence[str]
    renewed_for: timedelta = RENEWED_FOR
    calls: list[tuple[str, int]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def __aenter__(self) -> SyphonHost:
        self._tasks = [asyncio.create_task(self._listen(queue)) for queue in self.queues]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert not await cancel_all(self._tasks, seconds=STOP_SECONDS), "a listener does not end"

    async def _listen(self, queue: str) -> None:
        async def handle(messages: Sequence[ServiceBusReceivedMessage]) -> Verdict:
            (message,) = messages
            assert message.sequence_number is not None
            self.calls.append((queue, message.sequence_number))
            try:
                await self.runtime.syphon.tend(EntityPath(queue), message.sequence_number)
            except NothingMoved as error:
                self.errors.append(error)
                return Verdict.ABANDON
            except Exception as error:
                self.errors.append(error)
                return Verdict.ABANDON
            return Verdict.COMPLETE

        client = ServiceBusClient.from_connection_string(self.pair.secondary.connection_string)
        pump = Pump(name=queue, options=PumpOptions(concurrency=1, renew_for=self.renewed_for), handle=handle)
        async with client, client.get_queue_receiver(queue, client_identifier=HOST_NAME) as receiver:
            try:
                await pump.run(receiver)
            finally:
                await cancel_all([flight.task for flight in pump._flights if flight.task], seconds=STOP_SECONDS)


@dataclass(eq=False)
class Syphoning:
    """A pair, an instance of the app, and a host for its syphon."""

    pair: PairOnBroker
    runtime: Runtime
    telemetry: Recorder

    async def mark(self, path: str, event: Event) -> None:
        await self.runtime.state.mark(EntityPath(path), event, "test")

    async def unavailable(self, *paths: str) -> None:
        for path in paths:
            await self.mark(path, Event.MARKED_UNAVAILABLE)

    async def healthy(self, *paths: str) -> None:
        for path in paths:
            await self.mark(path, Event.MARKED_HEALTHY)

    def host(self, *queues: str) -> SyphonHost:
        return SyphonHost(self.pair, self.runtime, queues or self.pair.backlog_paths())

    @property
    def refreshed_at(self) -> datetime:
        return self.runtime.state.refreshed_at or datetime.fromtimestamp(0, UTC)

    def waiting(self, queue: str) -> int:
        return len(stored(self.pair.secondary, queue))


@asynccontextmanager
async def instance(pair: PairOnBroker, **settings: str) -> AsyncIterator[Syphoning]:
    telemetry = Recorder()
    runtime = composition.build(
        pair.settings(**settings), telemetry=telemetry, authority_file=str(pair.broker.authority_file)
    )
    try:
        yield Syphoning(pair, runtime, telemetry)
    finally:
        await runtime.close()
