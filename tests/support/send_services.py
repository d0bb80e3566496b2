"""A pair of namespaces on the embedded broker, Azurite, and senders in this process or in others."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from local.broker.broker import Broker, BrokerOptions, NamespaceSpec, ServedNamespace
from local.broker.descriptions import QueueDescription, RuleDescription, SubscriptionDescription, TopicDescription
from local.broker.store import StoredMessage
from shared.domain.backlog import BacklogQueueDescription, backlog_queue_paths
from shared.settings import Settings
from shared.telemetry_events import TelemetryEvent
from tests.support.host_fixtures import AzuriteProcess

KEY = "a-key-for-tests-only"
POLL_S = 0.02
#: For apps in processes of their own: while tests of all kinds share two cores, a first connection may take its time,
#: which is not what a test means that breaks nothing, or breaks it at once.
PATIENT = {"PRIMARY_ATTEMPT_TIMEOUT": "PT15S"}


@contextmanager
def azurite() -> Iterator[AzuriteProcess]:
    with TemporaryDirectory(prefix="azurite-") as folder:
        process = AzuriteProcess(Path(folder))
        try:
            yield process
        finally:
            process.stop()


@dataclass
class Recorder:
    """Telemetry that is kept for the test to look at."""

    events: list[TelemetryEvent] = field(default_factory=list)
    wants_every_send: bool = True

    def emit(self, event: TelemetryEvent) -> None:
        self.events.append(event)

    def of(self, kind: type[TelemetryEvent]) -> list[TelemetryEvent]:
        return [event for event in self.events if isinstance(event, kind)]


class PairOnBroker:
    """Two namespaces of one broker, and what is in them."""

    def __init__(self, broker: Broker, storage: str) -> None:
        self.broker = broker
        self.storage = storage
        # A pair of its own for each test: they share one table.
        self.name = f"p{secrets.token_hex(4)}"

    @property
    def primary(self) -> ServedNamespace:
        return self.broker["primary"]

    @property
    def secondary(self) -> ServedNamespace:
        return self.broker["secondary"]

    def app_settings(self, **options: str) -> dict[str, str]:
        return {
            "ServiceBusPrimary": self.primary.connection_string,
            "ServiceBusSecondary": self.secondary.connection_string,
            "PRIMARY_NAMESPACE_NAME": self.name,
            "SECONDARY_NAMESPACE_NAME": "secondary",
            "AzureWebJobsStorage": self.storage,
            "BACKLOG_QUEUE_COUNT": "3",
            "STATE_REFRESH": "PT0.2S",
            **options,
        }

    def settings(self, **options: str) -> Settings:
        return Settings.from_env(self.app_settings(**options))

    def create_entities(self, *queues: str, backlog: int = 3) -> None:
        for queue in queues:
            self.primary.core.create_queue(queue, QueueDescription())
        for queue in self.backlog_paths(backlog):
            self.secondary.core.create_queue(queue, QueueDescription(**asdict(BacklogQueueDescription())))

    def create_topic(self, path: str, *subscriptions: str) -> None:
        self.primary.core.create_topic(path, TopicDescription())
        for name in subscriptions:
            rule = RuleDescription(name="$Default")
            self.primary.core.create_subscription(path, name, SubscriptionDescription(), rule)

    def backlog_paths(self, count: int = 3) -> list[str]:
        return list(backlog_queue_paths(self.settings().pair.primary, count))

    def in_primary(self, path: str) -> list[StoredMessage]:
        return stored(self.primary, path)

    def in_backlog(self, path: str | None = None) -> list[StoredMessage]:
        """What waits in the backlog, of one entity or of all."""
        names = {queue.path for queue in self.secondary.core.queues()} & set(self.backlog_paths(20))
        waiting = [message for name in sorted(names) for message in stored(self.secondary, name)]
        return waiting if path is None else [message for message in waiting if destination(message) == path]

    def where(self, path: str, *, primary: bool = True) -> tuple[Counter[str], Counter[str]]:
        """Message ids in the primary and in the backlog, with how often each is there."""
        return (
            Counter(str(message.content.message_id) for message in (self.in_primary(path) if primary else ())),
            Counter(str(message.content.message_id) for message in self.in_backlog(path)),
        )


def stored(namespace: ServedNamespace, path: str) -> list[StoredMessage]:
    partitions = namespace.core.queue(path).main.partitions
    return [message for partition in partitions for message in partition.messages.values()]


def application_properties(message: StoredMessage) -> dict[str, object]:
    return message.content.sections().decode_application_properties()


def destination(message: StoredMessage) -> object:
    return application_properties(message).get("x-ms-path")


@asynccontextmanager
async def pair_on_broker(storage: str) -> AsyncIterator[PairOnBroker]:
    specs = [NamespaceSpec(name="primary"), NamespaceSpec(name="secondary")]
    async with Broker(specs, BrokerOptions(key=KEY)) as broker:
        yield PairOnBroker(broker, storage)


async def until(condition: Callable[[], object], *, seconds: float, what: str) -> float:
    """Polls until the condition holds; how long that took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, f"not within {seconds} s: {what}"
        await asyncio.sleep(POLL_S)
    return time.monotonic() - started
