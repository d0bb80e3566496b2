"""Taking messages of a backlog queue: in their order, and none is left with a receiver that nobody asks."""

from __future__ import annotations

from shared.adapters.backlog_receiver import SdkBacklogQueues
from shared.settings import Settings
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_services import backlog_payload, fill


async def test_what_comes_after_a_batch_fell_short_is_taken_next_and_in_order(pair: PairOnBroker) -> None:
    """The receiver that asked for 100 and got 3 gets what comes next, whoever is asked for it."""
    pair.create_entities("orders", backlog=1)
    (path,) = pair.backlog_paths(1)
    queue = SdkBacklogQueues(Settings.from_env(pair.app_settings()).secondary, None).open(path)
    try:
        taken: list[object] = []
        for numbers in (range(3), range(3, 10), range(10, 12)):
            fill(pair, path, [backlog_payload("orders", f"m-{number}") for number in numbers])
            batch = await queue.take(100, 5.0)
            taken += [message.message.properties.message_id for message in batch]
            for message in batch:
                await queue.complete(message)
        assert [f"m-{number}".encode() for number in range(12)] == [
            name if isinstance(name, bytes) else str(name).encode() for name in taken
        ]
        await until(lambda: not pair.in_backlog(), seconds=5, what="an empty queue")
    finally:
        await queue.close()
