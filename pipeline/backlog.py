"""Stays in the backlog: when each diverted message entered a backlog queue and left it, and the depth that follows."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipeline.buckets import in_buckets
from pipeline.entities import bounds, entity, is_event, seconds_between

UNKNOWN_ENTITY = "(unknown)"
_COPY = ("backlog_queue", "message_id")


def stays(events: DataFrame) -> DataFrame:
    """entity, backlog_queue, message_id, entered_at, left_at (null: it waits), left_by (forwarded or dead-lettered).

    A message that was forwarded and could not be settled comes again: an exit of what is not there any more does not
    count. One that was in the queue before the records begin, or was put there by another sender, entered when its
    exit says it did.
    """
    moves = _moves(events)
    entries = moves.where("enters").select(
        *_COPY, "number", F.col("entity").alias("entered_for"), F.col("at").alias("entered_at")
    )
    waited_micros = (F.coalesce("waited_seconds", F.lit(0.0)) * 1_000_000).cast("long")
    exits = moves.where(~F.col("enters") & ~F.col("again")).select(
        *_COPY,
        "number",
        "entity",
        F.col("at").alias("left_at"),
        F.col("event").alias("left_by"),
        F.timestamp_micros(F.unix_micros("at") - waited_micros).alias("entered_before"),
    )
    return entries.join(exits, [*_COPY, "number"], "full").select(
        F.coalesce("entered_for", "entity").alias("entity"),
        *_COPY,
        F.coalesce("entered_at", "entered_before").alias("entered_at"),
        "left_at",
        F.regexp_replace("left_by", "^syphon\\.", "").alias("left_by"),
    )


def _moves(events: DataFrame) -> DataFrame:
    """Entries and exits, numbered: the first entry of a message belongs to its first exit that counts, and so on."""
    enters = is_event("send.accepted") & F.col("backlog_queue").isNotNull()
    leaves = is_event("syphon.forwarded", "syphon.dead-lettered")
    one = Window.partitionBy(*_COPY)
    in_order = one.orderBy("at", F.desc("enters"), "instance", "seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # One that was there before its first record is there at first, though no entry tells of it.
    was_there = F.first(~F.col("enters")).over(so_far).cast("int")
    copies = was_there + F.sum(F.when(F.col("enters"), 1).otherwise(-1)).over(so_far)
    lowest = F.least(F.lit(0), F.min("copies").over(so_far))
    again = F.col("lowest") < F.coalesce(F.lag("lowest").over(in_order), F.lit(0))
    number = F.count(F.when(~F.col("again"), 1)).over(
        Window.partitionBy(*_COPY, "enters").orderBy("at", "instance", "seq").rowsBetween(Window.unboundedPreceding, 0)
    )
    return (
        events.where(enters | leaves)
        .withColumns({"entity": entity(), "enters": enters, "backlog_queue": F.lower("backlog_queue")})
        .withColumn("entity", F.coalesce(F.max("entity").over(one), F.lit(UNKNOWN_ENTITY)))
        .withColumns({"copies": copies, "was_there": was_there})
        .withColumn("lowest", lowest)
        .withColumn("again", again)
        .withColumn("number", number + F.when(F.col("enters"), F.col("was_there")).otherwise(0))
    )


def drain_curve(events: DataFrame, stayed: DataFrame) -> DataFrame:
    """entity, bucket, entered, left, depth (at the bucket's end); only buckets in which something moved."""
    entered = stayed.select("entity", F.col("entered_at").alias("at"), F.lit(1).alias("up"), F.lit(0).alias("down"))
    left = stayed.where(F.col("left_at").isNotNull()).select(
        "entity", F.col("left_at").alias("at"), F.lit(0).alias("up"), F.lit(1).alias("down")
    )
    so_far = Window.partitionBy("entity").orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        in_buckets(entered.unionByName(left), events)
        .groupBy("entity", "bucket")
        .agg(F.sum("up").alias("entered"), F.sum("down").alias("left"))
        .withColumn("depth", F.sum(F.col("entered") - F.col("left")).over(so_far))
    )


def waiting_by_queue(events: DataFrame, stayed: DataFrame) -> DataFrame:
    """backlog_queue, waiting_seconds: how long something was in each queue, until it left or the records end."""
    until = F.coalesce("left_at", "records_end")
    spans = (
        stayed.crossJoin(F.broadcast(bounds(events)))
        .select(
            "backlog_queue",
            F.greatest("entered_at", "records_begin").alias("start"),
            F.greatest(until, "records_begin").alias("end"),
        )
        .where(F.col("start") < F.col("end"))
    )
    before = Window.partitionBy("backlog_queue").orderBy("start", "end")
    covered = F.max("end").over(before.rowsBetween(Window.unboundedPreceding, -1))
    return (
        spans.withColumn("fresh", F.greatest("start", F.coalesce(covered, "start")))
        .where(F.col("fresh") < F.col("end"))
        .groupBy("backlog_queue")
        .agg(F.sum(seconds_between(F.col("fresh"), F.col("end"))).alias("waiting_seconds"))
    )
