"""Counts in the records what is billed; `pipeline.costs` makes money of it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.backlog import waiting_by_queue
from pipeline.costs import STEP_BYTES, Usage
from pipeline.entities import is_event, seconds_between


def usage(events: DataFrame, stayed: DataFrame) -> DataFrame:
    """One row with the fields of `pipeline.costs.Usage`."""
    by_instance = events.groupBy("instance").agg(seconds_between(F.min("at"), F.max("at")).alias("instance_seconds"))
    instances = by_instance.agg(F.coalesce(F.sum("instance_seconds"), F.lit(0.0)).alias("instance_seconds"))
    waiting = waiting_by_queue(events, stayed).agg(
        F.coalesce(F.sum("waiting_seconds"), F.lit(0.0)).alias("waiting_queue_seconds"),
        F.count(F.lit(1)).alias("queues_used"),
    )
    counted = _counted(events).crossJoin(instances).crossJoin(waiting)
    return counted.select(*Usage.__dataclass_fields__)


def usage_of(table: DataFrame) -> Usage:
    row = table.first()
    return Usage() if row is None else Usage(**row.asDict())


def _counted(events: DataFrame) -> DataFrame:
    is_diverted = F.col("backlog_queue").isNotNull()
    direct, diverted = is_event("send.accepted") & ~is_diverted, is_event("send.accepted") & is_diverted
    forwarded, pinged = is_event("syphon.forwarded"), is_event("entity.pinged")
    steps = F.greatest(F.lit(1), F.ceil(F.coalesce("body_bytes", F.lit(0)) / STEP_BYTES))
    started = F.when(is_event("telemetry.started"), F.col("at"))
    return events.agg(
        F.coalesce(seconds_between(F.min("at"), F.max("at")), F.lit(0.0)).alias("seconds"),
        F.count_if(direct).alias("direct_messages"),
        _sum(direct, steps).alias("direct_steps"),
        F.count_if(diverted).alias("diverted_messages"),
        _sum(diverted, steps).alias("diverted_steps"),
        _sum(diverted, F.col("body_bytes")).alias("diverted_bytes"),
        F.count_if(forwarded).alias("forwarded_messages"),
        _sum(forwarded, steps).alias("forwarded_steps"),
        _sum(forwarded, F.col("body_bytes")).alias("forwarded_bytes"),
        F.count_if(is_event("syphon.dead-lettered")).alias("dead_lettered"),
        F.count_if(is_event("failure.counted")).alias("failed_attempts"),
        _sum(is_event("syphon.set-aside"), F.col("messages")).alias("set_aside"),
        _sum(pinged, F.coalesce("pings", F.lit(1))).alias("pings"),
        F.count_if(pinged).alias("ping_rounds"),
        F.coalesce(F.sum(F.when(direct | diverted, F.col("seconds"))), F.lit(0.0)).alias("send_calls_seconds"),
        # As the instance that started last was set.
        F.max_by("backlog_queue_count", started).alias("backlog_queue_count"),
        F.max_by("ping_primary_interval_seconds", started).alias("ping_interval_seconds"),
    )


def _sum(where: Column, what: Column) -> Column:
    return F.coalesce(F.sum(F.when(where, what)), F.lit(0)).cast("long")
