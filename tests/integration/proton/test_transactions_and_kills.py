"""Partitions and transactions outlive a broker that is killed: all of a commit that was answered, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from proton import Message, ProtonException, symbol

from local.broker.partitioning import PARTITION_COUNT, partition_of_key
from tests.conformance.shim.backend import ConnectionParts
from tests.support.broker_process import BrokerProcess

from .client import CALL_SECONDS_MAX, ProtonClient
from .transacting import Transacting

GOODBYE_S = 0.3
QUEUES: dict[str, dict[str, Any]] = {"source": {"EnablePartitioning": True}, "target": {"EnablePartitioning": True}}


@contextmanager
def connected(broker: BrokerProcess) -> Iterator[ProtonClient]:
    parts = ConnectionParts.parse(broker.connection_string)
    client = ProtonClient(parts.host, key_name=parts.key_name, key=parts.key)
    try:
        for queue in QUEUES:
            client.authorize(queue)
        yield client
    finally:
        client.connection.timeout = GOODBYE_S
        with suppress(ProtonException):  # nobody answers where the broker was killed
            client.connection.close()


def keyed(body: str, key: str) -> Message:
    return Message(id=body, body=body, annotations={symbol("x-opt-partition-key"): key})


def take_all(client: ProtonClient, queue: str, count: int) -> list[Message]:
    receiver = client.receiver(queue, credit=count)
    got = []
    for _ in range(count):
        got.append(receiver.receive(timeout=CALL_SECONDS_MAX))
        receiver.accept()
    receiver.close()
    return got


def partition_of(message: Message) -> int:
    return int(message.annotations["x-opt-sequence-number"]) >> 48


def test_after_a_kill_keys_have_their_partitions_and_commits_are_whole(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, QUEUES) as broker:
        with connected(broker) as client:
            transacting, target = Transacting(client), client.sender("target")
            source = client.sender("source")
            for n in range(40):
                source.send(keyed(f"s{n}", f"key-{n}"))
            committed, open_still = transacting.declare(), transacting.declare()
            for n in range(100):
                transacting.send(target, keyed(f"t{n}", "one key"), committed)
                if n < 50:
                    transacting.send(target, keyed(f"never-{n}", "one key"), open_still)
            transacting.commit(committed)
            broker.kill()
        broker.start()
        with connected(broker) as client:
            kept = take_all(client, "source", 40)
            assert {f"s{n}": partition_of_key(f"key-{n}", PARTITION_COUNT) for n in range(40)} == {
                str(message.body): partition_of(message) for message in kept
            }
            client.sender("target").send(keyed("after", "one key"))
            moved = take_all(client, "target", 101)
    assert [f"t{n}" for n in range(100)] + ["after"] == [message.body for message in moved]
    assert 1 == len({partition_of(message) for message in moved})


def test_a_move_is_whole_after_a_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, QUEUES) as broker:
        with connected(broker) as client:
            transacting = Transacting(client)
            client.sender("source").send(keyed("work", "k"))
            receiver, transaction = client.receiver("source", credit=1), transacting.declare()
            receiver.receive(timeout=CALL_SECONDS_MAX)
            transacting.send(client.sender("target"), keyed("done", "k"), transaction)
            transacting.settle(receiver, transaction)
            transacting.commit(transaction)
            broker.kill()
        broker.start()
        with connected(broker) as client:
            assert ["done"] == [message.body for message in take_all(client, "target", 1)]
            client.sender("source").send(keyed("next", "k"))
            assert ["next"] == [message.body for message in take_all(client, "source", 1)]
