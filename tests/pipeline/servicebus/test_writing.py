"""Rows of a DataFrame become messages of the pair: all of them, under stable ids, whatever the primary does."""

from __future__ import annotations

from collections import Counter

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
