"""What of each table people are shown, and what the summary says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipeline.usage import usage_of

#: Lanes of the time line, entities of the charts by time, and partitioned entities that the page may be handed.
LANES_MAX = 16
INTERVALS_PER_LANE_MAX = 250
BUSIEST_MAX = 3
DRAINS_MAX = 20
PARTITIONED_MAX = 12
KEYS_MAX = 200
OUTAGES_MAX = 200


# -- what people are shown


def nothing(table: DataFrame) -> DataFrame:
    """Of a table that others are made of."""
    return table.limit(0)


def troubled_lanes(table: DataFrame) -> DataFrame:
    """The lanes with most time in trouble; of one that flaps without end its latest intervals."""
    is_trouble = F.col("state") != "available"
    # An interval that is not over counts for as long as any.
    trouble = F.sum(F.when(is_trouble, F.coalesce("seconds", F.lit(1e9)))).alias("trouble")
    # Entities before their keys, of which there may be many.
    order = (F.col("trouble").isNull(), F.col("key").isNotNull(), F.desc("trouble"), "entity", "key")
    ranked = table.groupBy("entity", "key").agg(trouble).orderBy(*order)
    lanes = ranked.limit(LANES_MAX).select(F.col("entity").alias("lane"), F.col("key").alias("lane_key"))
    latest = Window.partitionBy("entity", "key").orderBy(F.desc("started_at"))
    same = (F.col("entity") == F.col("lane")) & F.col("key").eqNullSafe(F.col("lane_key"))
    return (
        table.join(F.broadcast(lanes), same)
        .withColumn("latest", F.row_number().over(latest))
        .where(F.col("latest") <= INTERVALS_PER_LANE_MAX)
        .drop("lane", "lane_key", "latest")
    )


def latest_outages(table: DataFrame) -> DataFrame:
    """Those that are not over first; of entities before those of their keys; then the latest."""
    order = (F.col("ended_at").isNotNull(), F.col("key").isNotNull(), F.desc("started_at"), "entity")
    return table.orderBy(*order).limit(OUTAGES_MAX)


def busiest(table: DataFrame) -> DataFrame:
    return _of_highest(table, F.sum(F.col("accepted") + F.col("refused")), BUSIEST_MAX)


def deepest(table: DataFrame) -> DataFrame:
    return _of_highest(table, F.max("depth"), DRAINS_MAX)


def hottest(table: DataFrame) -> DataFrame:
    return _of_highest(table, F.max("share"), PARTITIONED_MAX)


def most_skewed(table: DataFrame) -> DataFrame:
    return table.orderBy(F.desc_nulls_last("skew"), "entity").limit(PARTITIONED_MAX)


def keys_at_risk(table: DataFrame) -> DataFrame:
    return table.orderBy(F.desc("overtaken"), F.desc("diverted"), F.desc("messages"), "entity", "key_hash").limit(
        KEYS_MAX
    )


def most_sent(table: DataFrame) -> DataFrame:
    return table.orderBy(F.desc(F.col("accepted") + F.col("refused")), "entity")


def _of_highest(table: DataFrame, measure: Any, count: int) -> DataFrame:
    """All rows of the entities that rank highest."""
    ranked = table.groupBy("entity").agg(measure.alias("measure")).orderBy(F.desc("measure"), "entity").limit(count)
    return table.join(F.broadcast(ranked.select("entity")), "entity", "left_semi")


# -- what the summary says


def summary_of_time_line(table: DataFrame) -> Mapping[str, Any]:
    return {"lane_count": table.select("entity", "key").distinct().count()}


def summary_of_outages(table: DataFrame) -> Mapping[str, Any]:
    found = table.agg(
        F.count(F.lit(1)).alias("outage_count"),
        F.count_if(F.col("unavailable_at").isNotNull()).alias("failover_count"),
        F.count_if(F.col("ended_at").isNull()).alias("open_outage_count"),
        F.max("seconds_to_fail_over").alias("longest_fail_over_seconds"),
        F.max("seconds_to_drain").alias("longest_drain_seconds"),
    ).first()
    return found.asDict() if found else {}


def summary_of_sends(table: DataFrame) -> Mapping[str, Any]:
    total = table.agg(
        F.count(F.lit(1)).alias("entity_count"),
        F.sum("accepted").alias("sends_accepted"),
        F.sum("refused").alias("sends_refused"),
        F.max("slowest").alias("slowest_send_seconds"),
    ).first()
    if total is None or total["sends_accepted"] is None:
        return {"entity_count": 0, "send_availability": None}
    asked = total["sends_accepted"] + total["sends_refused"]
    return {**total.asDict(), "send_availability": total["sends_accepted"] / asked if asked else None}


def summary_of_skew(table: DataFrame) -> Mapping[str, Any]:
    return {"partitioned_entity_count": table.count()}


def summary_of_keys(table: DataFrame) -> Mapping[str, Any]:
    found = table.agg(
        F.count(F.lit(1)).alias("key_count"), F.count_if(F.col("overtaken") > 0).alias("keys_overtaken")
    ).first()
    return found.asDict() if found else {}


def summary_of_usage(table: DataFrame) -> Mapping[str, Any]:
    return {"usage": asdict(usage_of(table))}
