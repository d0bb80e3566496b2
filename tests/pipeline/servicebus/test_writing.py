"""Rows of a DataFrame become messages of the pair: all of them, under stable ids, whatever the primary does."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.support.spark_pair import SparkPair


def numbered(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    rows = spark.range(0, count, 1, partitions)
    return rows.select(
        f.concat(f.lit("m-"), f.col("id").cast("string")).alias("message_id"),
        f.concat(f.lit("body of "), f.col("id").cast("string")).alias("body"),
    )


def test_every_row_arrives_once_though_the_primary_goes_down_in_the_middle(
    source: SparkSession, bus: SparkPair
) -> None:
    bus.create_entities("orders")
    fault = bus.broker.inject(kind="disable", namespace="primary", after=12)
    frame = numbered(source, 400)
    frame.write.format("servicebus").options(**bus.options(entity="orders", maxInFlight="10")).mode("append").save()
    everything = Counter({f"m-{n}": 1 for n in range(400)})
    assert bus.broker.hits(fault) > 0
    straight, waiting = bus.ids("orders"), bus.waiting_ids("orders")
    assert straight, "the outage was to begin in the middle"
    assert waiting, "the outage was to begin before the end"
    assert everything == straight + waiting
    bus.heal_and_drain("orders")
    assert everything == bus.ids("orders")
    assert 0 == bus.dead_lettered()


def test_every_column_is_a_part_of_the_message(source: SparkSession, bus: SparkPair) -> None:
    """Written by the source, read back by the source."""
    bus.create_entities("orders", "bills")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=123_000)
    columns: dict[str, Any] = {
        "message_id": "m-1",
        "entity": "orders",
        "body": bytearray(b"\xff\x00body"),
        "session_id": "key",
        "partition_key": "key",
        "subject": "a subject",
        "content_type": "application/x-thing",
        "correlation_id": "c-1",
        "reply_to": "replies",
        "reply_to_session_id": "reply session",
        "to": "somebody",
        "time_to_live": 90_000.5,
        "scheduled_enqueue_time": tomorrow,
        "application_properties": {"small": 5, "large": 2**40},
    }
    schema = ", ".join(f"`{name}` {_TYPES.get(name, 'string')}" for name in columns)
    empty = {"message_id": "m-2", "entity": "bills"}
    rows = [tuple(columns.values()), tuple(empty.get(name) for name in columns)]
    frame = source.createDataFrame(rows, schema)
    frame.write.format("servicebus").options(**bus.options()).mode("append").save()
    (full,) = source.read.format("servicebus").options(**bus.options()).load("orders").collect()
    sent = {**columns, "application_properties": {"small": "5", "large": str(2**40)}}
    assert sent == {name: value for name, value in full.asDict().items() if name in columns} | {
        "scheduled_enqueue_time": full.scheduled_enqueue_time.astimezone(UTC)
    }
    assert ("scheduled", "data", 0) == (full.state, full.body_type, full.partition)
    assert Counter({"m-2": 1}) == bus.ids("bills")


_TYPES = {
    "body": "binary",
    "time_to_live": "double",
    "scheduled_enqueue_time": "timestamp",
    "application_properties": "map<string, bigint>",
}


def test_a_row_that_cannot_be_sent_fails_the_task_by_its_id_and_not_by_its_body(
    source: SparkSession, bus: SparkPair
) -> None:
    bus.create_entities("orders")
    large = f.when(f.col("id") == 7, f.repeat(f.lit("unmistakable"), 30_000)).otherwise(f.lit("small"))
    frame = source.range(0, 10, 1, 1).select(large.alias("body"))
    options = bus.options(entity="orders", messageIdPrefix="night run")
    with pytest.raises(PySparkException) as raised:
        frame.write.format("servicebus").options(**options).mode("append").save()
    text = str(raised.value)
    assert "row 7 of partition 0, message id 'night run-0-7', was not sent: MessageTooLarge" in text
    assert "unmistakable" not in text
    assert {f"night run-0-{n}" for n in range(10) if n != 7} >= set(bus.ids("orders"))


def test_a_micro_batch_that_is_run_again_repeats_its_ids(source: SparkSession, bus: SparkPair, tmp_path: Path) -> None:
    bus.create_entities("orders")
    lines, checkpoint = tmp_path / "lines", tmp_path / "checkpoint"
    lines.mkdir()
    for number in range(2):
        (lines / f"{number}.txt").write_text(f"first {number}\nsecond {number}\n")
    stream = source.readStream.text(str(lines)).withColumnRenamed("value", "body")
    writer = stream.writeStream.format("servicebus").options(**bus.options(entity="orders"))
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.start()
    assert query.awaitTermination(60)
    once = bus.ids("orders")
    assert (4, 4) == (len(once), once.total())
    assert {f"{query.id}-0"} == {name.rsplit("-", 2)[0] for name in once}
    for commit in (checkpoint / "commits").iterdir():  # as if the driver had died before it noted the commit
        commit.unlink()
    assert writer.start().awaitTermination(60)
    assert once + once == bus.ids("orders")
