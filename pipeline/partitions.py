"""Which keys sit in which of the 16 partitions, how evenly, and where the order of a key may have suffered.

Where a receipt tells the partition (the top 16 bits of the sequence number), that is the one. Otherwise it is the one
that the sender expected, which is right for the embedded broker; the service keeps its own function to itself.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipeline.entities import entity, is_event

PARTITIONS = 16
OBSERVED, EXPECTED = "observed", "expected"
_BACKLOG = "/x-servicebus-transfer/"
_ENTRY, _PROBE, _EXIT = 1, 0, -1


def partition_load(events: DataFrame) -> DataFrame:
    """entity, basis, partition, messages, bytes, keys, share: sixteen rows for each partitioned entity."""
    placed = _placed(events)
    every = placed.select("entity", "basis").distinct().crossJoin(_sixteen(events))
    counted = (
        placed.where(F.col("partition").isNotNull())
        .groupBy("entity", "partition")
        .agg(
            F.count(F.lit(1)).alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.count_distinct("key_hash").alias("keys"),
        )
    )
    of_entity = Window.partitionBy("entity")
    return (
        every.join(counted, ["entity", "partition"], "left")
        .na.fill(0, ["messages", "bytes", "keys"])
        .select(
            "entity", "basis", "partition", "messages", "bytes", "keys",
            (F.col("messages") / F.nullif(F.sum("messages").over(of_entity), F.lit(0))).alias("share"),
        )
    )  # fmt: skip


def partition_keys(events: DataFrame, stayed: DataFrame) -> DataFrame:
    """One row for each key of an entity: its partition, how much of the entity it is, and what befell its order.

    `partitions_seen` above 1 contradicts the service's promise. `diverted` messages of a key come home later than
    they were accepted; `overtaken` counts messages that went straight to the primary while an older one of the same
    key was still in the backlog: their order is broken for certain.
    """
    of_entity = Window.partitionBy("entity")
    placed = _placed(events).withColumn("of_all", F.count(F.lit(1)).over(of_entity))
    keys = (
        placed.where(F.col("key_hash").isNotNull())
        .groupBy("entity", "key_hash")
        .agg(
            F.min("partition").alias("partition"),
            F.count_distinct("partition").alias("partitions_seen"),
            F.count(F.lit(1)).alias("messages"),
            F.sum("bytes").alias("bytes"),
            (F.count(F.lit(1)) / F.first("of_all")).alias("share"),
            F.count_if("diverted").alias("diverted"),
        )
    )
    return (
        keys.join(_overtaken(events, stayed), ["entity", "key_hash"], "left")
        .na.fill(0, ["overtaken"])
        .withColumn(
            "order_risk",
            F.when(F.col("overtaken") > 0, "overtaken").when(F.col("diverted") > 0, "delayed").otherwise("none"),
        )
    )


def partition_skew(_: DataFrame, load: DataFrame, keys: DataFrame) -> DataFrame:
    """One row for each partitioned entity. `skew` is the hottest partition over the mean: 1 is even, 16 all in one."""
    by_load = load.groupBy("entity", "basis").agg(
        F.sum("messages").alias("messages"),
        F.count_if(F.col("messages") > 0).alias("partitions_used"),
        F.max_by("partition", F.struct("messages", -F.col("partition"))).alias("hottest_partition"),
        F.max("share").alias("hottest_share"),
        (F.max("share") * PARTITIONS).alias("skew"),
        (F.stddev_pop("messages") / F.nullif(F.avg("messages"), F.lit(0))).alias("variation"),
    )
    by_key = keys.groupBy("entity").agg(
        F.count(F.lit(1)).alias("keys"),
        F.max("share").alias("hottest_key_share"),
        F.count_if(F.col("diverted") > 0).alias("keys_diverted"),
        F.count_if(F.col("overtaken") > 0).alias("keys_overtaken"),
        F.sum("overtaken").alias("overtaken"),
    )
    counts = ["keys", "keys_diverted", "keys_overtaken", "overtaken"]
    return by_load.join(by_key, "entity", "left").na.fill(0, counts)


# -- parts


def _placed(events: DataFrame) -> DataFrame:
    """One row for each message of an entity that may be partitioned, with its partition where it is known.

    An entity is a plain one when receipts put everything into partition 0 though its keys belong elsewhere, or though
    several messages have no key and would have gone around.
    """
    messages = _messages(events)
    of_entity = Window.partitionBy("entity")
    elsewhere = (F.col("observed") == 0) & (F.coalesce("expected", F.lit(0)) != 0)
    around = (F.col("observed") == 0) & F.col("key_hash").isNull() & F.col("expected").isNull()
    is_plain = (F.max("observed").over(of_entity) == 0) & (
        F.max(elsewhere).over(of_entity) | (F.count_if(around).over(of_entity) > 1)
    )
    is_observed = F.count("observed").over(of_entity) > 0
    return (
        messages.withColumns(
            {
                "is_plain": F.coalesce(is_plain, F.lit(False)),
                "basis": F.when(is_observed, OBSERVED).otherwise(EXPECTED),
                "partition": F.coalesce("observed", "expected"),
                "known": F.max(F.coalesce("observed", "expected").isNotNull()).over(of_entity),
            }
        )
        .where(~F.col("is_plain") & F.col("known"))
        .select("entity", "basis", "message_id", "key_hash", "partition", "bytes", "diverted")
    )


def _messages(events: DataFrame) -> DataFrame:
    accepted, seen = is_event("send.accepted"), is_event("message.received")
    in_entity = ~F.col("path").contains(_BACKLOG)
    return (
        events.where((accepted | (seen & F.col("sequence_number").isNotNull())) & in_entity)
        .groupBy(entity().alias("entity"), "message_id")
        .agg(
            F.max("key_hash").alias("key_hash"),
            F.max(F.when(accepted, F.col("partition"))).alias("expected"),
            F.min(F.when(seen, F.shiftrightunsigned("sequence_number", 48))).alias("observed"),
            F.coalesce(F.max("body_bytes"), F.lit(0)).alias("bytes"),
            F.max(accepted & F.col("backlog_queue").isNotNull()).alias("diverted"),
        )
    )


def _overtaken(events: DataFrame, stayed: DataFrame) -> DataFrame:
    """entity, key_hash, overtaken. Walks through each key's messages in time and counts what is in the backlog."""
    keyed = events.where(is_event("send.accepted") & F.col("key_hash").isNotNull()).withColumn("entity", entity())
    of_message = keyed.where(F.col("backlog_queue").isNotNull()).select("entity", "message_id", "key_hash").distinct()
    diverted = stayed.join(of_message, ["entity", "message_id"])
    key = ("entity", "key_hash")
    direct = keyed.where(F.col("backlog_queue").isNull()).join(of_message.select(*key).distinct(), [*key], "left_semi")
    walk = (
        diverted.select(*key, F.col("entered_at").alias("at"), F.lit(_ENTRY).alias("step"))
        .unionByName(
            diverted.where(F.col("left_at").isNotNull()).select(
                *key, F.col("left_at").alias("at"), F.lit(_EXIT).alias("step")
            )
        )
        .unionByName(direct.select(*key, "at", F.lit(_PROBE).alias("step")))
    )
    # At the same moment exits come first: in doubt nobody is said to have been overtaken.
    in_order = Window.partitionBy(*key).orderBy("at", "step").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        walk.withColumn("in_backlog", F.sum("step").over(in_order))
        .groupBy(*key)
        .agg(F.count_if((F.col("step") == _PROBE) & (F.col("in_backlog") > 0)).alias("overtaken"))
    )


def _sixteen(events: DataFrame) -> DataFrame:
    return events.sparkSession.range(PARTITIONS).select(F.col("id").alias("partition"))
