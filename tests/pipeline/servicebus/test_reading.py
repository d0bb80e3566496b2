"""Queues as rows: what was sent is what is read, and nothing is locked, counted or removed by it."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from local.broker.content import Content
from local.broker.descriptions import QueueDescription
from pipeline.servicebus.errors import DataLost
from pipeline.servicebus.given import Use, read_given
from pipeline.servicebus.plans import plan_read
from pipeline.servicebus.stream_reading import Offset, StreamReader
from tests.support.broker import payload
from tests.support.send_services import PairOnBroker
from tests.support.spark_pair import SparkPair, eventually
from tests.support.syphon_services import backlog_payload, fill

MESSAGES = 600


def put(bus: SparkPair, path: str, count: int, first: int = 0, *, keyed: bool = False, **fields: Any) -> None:
    """Straight into the broker's store."""

    def send(pair: PairOnBroker) -> None:
        queue = pair.primary.core.queue(path)
        for number in range(first, first + count):
            notes = {"x-opt-partition-key": f"key {number}"} if keyed else None
            body = f"body {number}".encode()
            queue.send(Content.parse(payload(body, message_id=f"m-{number}", annotations=notes, **fields)))

    bus.ask(send)


def read(spark: SparkSession, bus: SparkPair, **options: str) -> DataFrame:
    return spark.read.format("servicebus").options(**bus.options(**options)).load()


def test_queues_dead_letters_backlog_and_partitions_are_read_and_left_as_they_are(
    source: SparkSession, bus: SparkPair
) -> None:
    bus.create_entities("orders")
    bus.create_entities_partitioned("shards")
    put(bus, "orders", MESSAGES)
    put(bus, "shards", MESSAGES, keyed=True)
    backlog = bus.ask(lambda pair: pair.backlog_paths())
    for number, queue in enumerate(backlog):
        waiting = [backlog_payload("orders", f"b-{number}-{n}") for n in range(number + 1)]
        bus.ask(lambda pair, queue=queue, waiting=waiting: fill(pair, queue, waiting))  # type: ignore[misc]
    bus.dead_letter("orders", 3, reason="a reason")
    before = bus.snapshot()

    frames = {
        "queue": read(source, bus, entity="orders"),
        "dead letters": read(source, bus, entity="orders", subQueue="deadLetter"),
        "backlog": read(source, bus, backlog="true"),
        "partitioned": read(source, bus, entity="shards"),
    }
    one, *others = (frame.withColumn("which", f.lit(name)) for name, frame in frames.items())
    found = functools.reduce(DataFrame.union, others, one).collect()
    rows = {name: [row for row in found if row.which == name] for name in frames}

    assert {f"m-{n}": f"body {n}".encode() for n in range(3, MESSAGES)} == {
        row.message_id: bytes(row.body) for row in rows["queue"]
    }
    assert {f"m-{n}": "a reason" for n in range(3)} == {
        row.message_id: row.dead_letter_reason for row in rows["dead letters"]
    }
    assert {"orders/$DeadLetterQueue"} == {row.entity for row in rows["dead letters"]}
    assert {queue: number + 1 for number, queue in enumerate(backlog)} == Counter(row.entity for row in rows["backlog"])
    assert {"orders"} == {row.application_properties["x-ms-path"] for row in rows["backlog"]}
    assert {f"m-{n}": f"key {n}" for n in range(MESSAGES)} == {
        row.message_id: row.partition_key for row in rows["partitioned"]
    }
    assert bus.numbers_by_partition("shards") == Counter(row.partition for row in rows["partitioned"])
    assert set(range(16)) == {row.partition for row in rows["partitioned"]}
    assert before == bus.snapshot()


def test_only_so_many_messages_are_read_as_are_asked_for(source: SparkSession, bus: SparkPair) -> None:
    bus.create_entities("orders")
    put(bus, "orders", MESSAGES)
    rows = read(source, bus, entity="orders", maxMessages="300").select("message_id").collect()
    assert [f"m-{n}" for n in range(300)] == [row.message_id for row in rows]


def test_what_cannot_be_right_is_refused_with_its_reason(source: SparkSession, bus: SparkPair) -> None:
    bus.ask(lambda pair: pair.primary.core.create_queue("carts", QueueDescription(requires_session=True)))
    with pytest.raises(PySparkException, match="carts requires sessions: the service lets nobody peek there without"):
        read(source, bus, entity="carts").count()
    with pytest.raises(PySparkException, match="nowhere cannot be read: entity not found"):
        read(source, bus, entity="nowhere").count()
    with pytest.raises(PySparkException, match="option entity is missing; name a queue"):
        read(source, bus).count()


@pytest.mark.soak  # two queries take Spark ten seconds; its page runs one of them in every test run
def test_a_stream_reads_each_message_once_and_goes_on_where_it_stopped(
    source: SparkSession, bus: SparkPair, tmp_path: Path
) -> None:
    bus.create_entities_partitioned("shards")
    seen: Counter[str] = Counter()
    batches: list[int] = []

    def note(frame: DataFrame, _: int) -> None:
        ids = [row.message_id for row in frame.select("message_id").collect()]
        batches.append(len(ids))
        seen.update(ids)

    stream = source.readStream.format("servicebus").options(**bus.options(entity="shards", maxMessages="60")).load()
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    for first, count in ((0, 100), (100, 20)):
        put(bus, "shards", count, first=first, keyed=True)
        assert writer.foreachBatch(note).start().awaitTermination(60)
    assert [60, 40, 20] == batches
    assert {f"m-{n}": 1 for n in range(120)} == seen


def stream_reader(bus: SparkPair, **options: str) -> StreamReader:
    """As the driver uses it, without a Spark around it."""
    given = read_given(bus.options(entity="orders", **options), {}, Use.READ_STREAM)
    return StreamReader(plan_read(given, None))


def rows_between(reader: StreamReader, start: Offset, end: Offset) -> list[str]:
    return [row[6] for part in reader.partitions(start, end) for row in reader.read(part)]


def test_a_stream_goes_on_where_it_was_and_tells_of_messages_that_were_removed_before_it_read_them(
    bus: SparkPair,
) -> None:
    bus.create_entities("orders")
    put(bus, "orders", 10)
    reader = stream_reader(bus)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert {"orders": {"0": {"last": 10, "count": 10}}} == end
    assert [f"m-{n}" for n in range(10)] == rows_between(reader, start, end)
    put(bus, "orders", 5, first=10)
    assert [f"m-{n}" for n in range(10, 15)] == rows_between(reader, end, reader.latestOffset(end, ReadAllAvailable()))
    bus.remove("orders", "m-4")
    with pytest.raises(
        DataLost, match="1 of 10 messages of orders, partition 0, sequence numbers 1 to 10, were removed"
    ):
        rows_between(reader, start, end)
    rest = rows_between(stream_reader(bus, failOnDataLoss="false"), start, end)
    assert [f"m-{n}" for n in range(10) if n != 4] == rest


def test_a_stream_leaves_scheduled_messages_until_their_time_and_does_not_look_all_the_time(bus: SparkPair) -> None:
    bus.create_entities("orders")
    reader, patient = stream_reader(bus, pollInterval="PT0.1S"), stream_reader(bus, pollInterval="PT1H")
    start = reader.initialOffset()
    assert start == reader.latestOffset(start, ReadMaxRows(5)) == patient.latestOffset(start, ReadMaxRows(5))
    put(bus, "orders", 1, scheduled_at=4e9)
    put(bus, "orders", 7, first=1)
    eventually(lambda: reader.latestOffset(start, ReadMaxRows(5)) != start, seconds=10, what="news")
    assert {"orders": {"0": {"last": 6, "count": 5}}} == reader.latestOffset(start, ReadMaxRows(5))
    assert start == patient.latestOffset(start, ReadMaxRows(5))
