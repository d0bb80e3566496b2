"""A pair on a broker of its own thread, as a Spark job sees it: over TCP, with the source's options."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from local.broker.descriptions import QueueDescription
from tests.support.broker import take
from tests.support.broker_thread import BrokerThread
from tests.support.send_services import POLL_S, PairOnBroker, until
from tests.support.syphon_services import dead_letters, instance

DRAIN_SECONDS_MAX = 25.0
Result = TypeVar("Result")


class SparkPair:
    def __init__(self, broker: BrokerThread, storage: str) -> None:
        self.broker = broker
        self._pair = PairOnBroker(broker.broker, storage)
        self.authority_file = str(broker.broker.authority_file)

    def ask(self, question: Callable[[PairOnBroker], Result]) -> Result:
        """Of the pair, on the broker's own thread."""
        return self.broker.call(lambda _: question(self._pair))

    def app_settings(self, **settings: str) -> dict[str, str]:
        return self._pair.app_settings(**{"FAILOVER_INTERVAL": "PT0S", **settings})

    def options(self, **options: str) -> dict[str, str]:
        settings = self.app_settings()
        storage = settings.pop("AzureWebJobsStorage")
        return {**settings, "AzureWebJobsStorage.secret": storage, "authorityFile": self.authority_file, **options}

    def create_entities(self, *queues: str, **description: object) -> None:
        def create(pair: PairOnBroker) -> None:
            pair.create_entities()
            for queue in queues:
                pair.primary.core.create_queue(queue, QueueDescription(**description))  # type: ignore[arg-type]

        self.ask(create)

    def create_entities_partitioned(self, *queues: str) -> None:
        description = QueueDescription(enable_partitioning=True)
        for queue in queues:
            self.ask(lambda pair, queue=queue: pair.primary.core.create_queue(queue, description))  # type: ignore[misc]

    def snapshot(self) -> list[tuple[object, ...]]:
        """All that reading could change about any message of either namespace."""

        def look(pair: PairOnBroker) -> list[tuple[object, ...]]:
            return [
                (queue.path, message.sequence_number, message.state, message.lock_token, message.delivery_count)
                for namespace in (pair.primary, pair.secondary)
                for queue in namespace.core.queues()
                for part in (queue.main, queue.dead_letters)
                for message in part.messages()
            ]

        return self.ask(look)

    def numbers_by_partition(self, path: str) -> Counter[int]:
        return self.ask(lambda pair: Counter(message.partition for message in pair.in_primary(path)))

    def dead_letter(self, path: str, count: int, *, reason: str) -> None:
        def move(pair: PairOnBroker) -> None:
            queue = pair.primary.core.queue(path).main
            for _ in range(count):
                queue.dead_letter(take(queue), reason, "a description")

        self.ask(move)

    def remove(self, path: str, message_id: str) -> None:
        """Behind everybody's back."""

        def complete(pair: PairOnBroker) -> None:
            queue = pair.primary.core.queue(path).main
            (found,) = (one for one in queue.messages() if one.content.message_id == message_id)
            queue.partitions[found.partition].remove(found)

        self.ask(complete)

    def ids(self, path: str) -> Counter[str]:
        return self.ask(lambda pair: pair.where(path)[0])

    def waiting_ids(self, path: str) -> Counter[str]:
        return self.ask(lambda pair: pair.where(path, primary=False)[1])

    def dead_lettered(self) -> int:
        return self.ask(lambda pair: sum(len(dead_letters(pair, queue)) for queue in pair.backlog_paths()))

    def heal_and_drain(self, *paths: str, **settings: str) -> None:
        """The outage ends; an instance of the app pings the entities back and its syphon empties the backlog."""
        self.broker.heal()

        async def drain() -> None:
            async with instance(self._pair, FAILOVER_INTERVAL="PT0S", **settings) as app:
                await app.runtime.state.in_use()
                await app.runtime.pinger.ping_what_is_due()
                async with app.host():
                    await until(lambda: not self._pair.in_backlog(), seconds=DRAIN_SECONDS_MAX, what="an empty backlog")

        self.broker.wait_for(drain)


@contextmanager
def spark_pair(storage: str) -> Iterator[SparkPair]:
    with BrokerThread("primary", "secondary") as broker:
        yield SparkPair(broker, storage)


def eventually(condition: Callable[[], object], *, seconds: float, what: str) -> None:
    """Polls, for tests whose thread waits."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(POLL_S)
