"""Outages as callers lived through them: how soon noticed, how soon diverted, how soon over, and what got through.

An outage is a stretch in which an entity was not available: suspect, unavailable, or one after the other. One that
ended before failover engaged has no `unavailable_at`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.buckets import in_buckets
from pipeline.entities import CALLERS_MISTAKES, bounds, entity, is_event, seconds_between

#: How far before an outage its first failure is looked for, and how long after it the first send to the primary.
LOOK_BACK_SECONDS = 600
LOOK_AHEAD_SECONDS = 3600
PERCENTILES = (0.5, 0.95, 0.99)
_ACCURACY = 10_000
#: Events and outages meet by entity and hour, so that many of both cost their sum and not their product.
_BIN_SECONDS = 3600
_LANE = ("entity", "key")
_OUTAGE = (*_LANE, "started_at")


def outages(events: DataFrame, lines: DataFrame, stayed: DataFrame) -> DataFrame:
    """One row for each outage of `time_line`. Of a key that is watched on its own, sends are not told apart: null."""
    found = _episodes(lines)
    measured = _measured(found, events)
    drained = _drained(found, stayed)
    first_failure, ended = F.col("first_failure_at"), F.col("ended_at")
    return (
        found.join(measured, _null_safe(found, measured), "left")
        .select(found["*"], *[measured[name] for name in measured.columns if name not in _OUTAGE])
        .alias("outage")
        .join(drained, (F.col("outage.key").isNull()) & _same(drained), "left")
        .select(
            *[F.col(f"outage.{name}") for name in _OUTAGE],
            "first_failure_at",
            "suspected_at",
            "unavailable_at",
            "ended_at",
            "reason",
            "failovers",
            seconds_between(F.col("outage.started_at"), ended).alias("seconds"),
            "unavailable_seconds",
            seconds_between(first_failure, F.col("outage.started_at")).alias("seconds_to_detect"),
            seconds_between(first_failure, F.col("first_backlog_at")).alias("seconds_to_fail_over"),
            seconds_between(ended, F.col("first_primary_at")).alias("seconds_to_fail_back"),
            seconds_between(ended, F.col("drained_at")).alias("seconds_to_drain"),
            "diverted",
            "still_waiting",
            "accepted",
            "refused",
            "mistakes",
            availability().alias("availability"),
            *_named_percentiles("latency"),
        )
    )


def sends(events: DataFrame) -> DataFrame:
    """Over all: what callers of each entity saw."""
    return (
        _sends(events)
        .groupBy("entity")
        .agg(*_outcomes(F.lit(True)), F.count(F.col("backlog_queue")).alias("diverted"))
        .select(
            "entity", "accepted", "diverted", "refused", "mistakes", availability().alias("availability"),
            *_named_percentiles("latency"),
        )
    )  # fmt: skip


def sends_by_time(events: DataFrame) -> DataFrame:
    return (
        in_buckets(_sends(events), events)
        .groupBy("entity", "bucket", "bucket_seconds")
        .agg(*_outcomes(F.lit(True)), F.count(F.col("backlog_queue")).alias("diverted"))
        .select(
            "entity",
            "bucket",
            "bucket_seconds",
            "accepted",
            "diverted",
            "refused",
            "mistakes",
            *_named_percentiles("latency"),
        )
    )


def availability() -> Column:
    """Accepted of what was not the caller's own mistake; null where nothing was sent."""
    asked = F.col("accepted") + F.col("refused")
    return F.when(asked > 0, F.col("accepted") / asked)


# -- outages


def _episodes(lines: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*_LANE).orderBy("started_at")
    is_down = F.col("state") == "unavailable"
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        lines.withColumn("number", F.sum(F.when(F.col("state") == "available", 1).otherwise(0)).over(so_far))
        .where(F.col("state") != "available")
        .groupBy(*_LANE, "number")
        .agg(
            F.min("started_at").alias("started_at"),
            F.min(F.when(F.col("state") == "suspect", F.col("started_at"))).alias("suspected_at"),
            F.min(F.when(is_down, F.col("started_at"))).alias("unavailable_at"),
            F.when(F.count("ended_at") == F.count(F.lit(1)), F.max("ended_at")).alias("ended_at"),
            F.sum(F.when(is_down, 1).otherwise(0)).alias("failovers"),
            F.sum(F.when(is_down, F.col("seconds"))).alias("unavailable_seconds"),
            F.min_by("reason", "started_at").alias("reason"),
        )
        .withColumns(
            {
                "previous_end": F.lag("ended_at").over(in_order),
                "next_start": F.lead("started_at").over(in_order),
            }
        )
        .drop("number")
    )


def _measured(found: DataFrame, events: DataFrame) -> DataFrame:
    """What the events around each outage tell about it."""
    one = Window.partitionBy(*_OUTAGE)
    at, is_primary = F.col("at"), is_event("send.accepted") & F.col("backlog_queue").isNull()
    fails_before = is_event("failure.counted") & (at <= F.col("started_at"))
    fails_before &= at > F.coalesce("previous_end", F.lit("1970-01-01").cast("timestamp"))
    # Failures of one key leave other keys' sends succeeding, so a success ends a run only for the entity itself.
    last_success = F.max(F.when(is_primary & (at < F.col("started_at")) & F.col("key").isNull(), at)).over(one)
    latest_failure = F.max(F.when(fails_before, at)).over(one)
    run = fails_before & F.col("key").isNull() & (F.col("last_success").isNull() | (at > F.col("last_success")))
    near = (
        _near(found, events)
        .withColumn("last_success", last_success)
        .withColumn("first_failure_at", F.coalesce(F.min(F.when(run, at)).over(one), latest_failure))
    )
    during = at.between(F.coalesce("first_failure_at", "started_at"), F.coalesce("ended_at", "records_end"))
    counted = during & F.col("key").isNull()
    is_back = is_primary & (at >= F.col("ended_at")) & (F.col("next_start").isNull() | (at < F.col("next_start")))
    diverted = is_event("send.accepted") & F.col("backlog_queue").isNotNull() & counted
    has_sends = F.col("key").isNull()
    totals = near.groupBy(*_OUTAGE).agg(
        F.first("first_failure_at").alias("first_failure_at"),
        F.min(F.when(diverted, at)).alias("first_backlog_at"),
        F.min(F.when(is_back & F.col("key").isNull(), at)).alias("first_primary_at"),
        F.count(F.when(diverted, 1)).alias("diverted"),
        *_outcomes(counted),
    )
    return totals.select(
        *_OUTAGE,
        "first_failure_at",
        "first_backlog_at",
        "first_primary_at",
        *[F.when(has_sends, F.col(name)).alias(name) for name in ("diverted", "accepted", "refused", "mistakes")],
        "latency",
        "latency_max",
    )


def _near(found: DataFrame, events: DataFrame) -> DataFrame:
    """Each outage with the sends and failures of its entity from somewhat before it to somewhat after it."""
    spread = found.crossJoin(F.broadcast(bounds(events))).withColumns(
        {
            "from": F.unix_seconds("started_at") - LOOK_BACK_SECONDS,
            "to": F.unix_seconds(F.coalesce("ended_at", "records_end")) + LOOK_AHEAD_SECONDS,
        }
    )
    hour = F.explode(F.sequence(F.floor(F.col("from") / _BIN_SECONDS), F.floor(F.col("to") / _BIN_SECONDS)))
    asked = spread.withColumn("hour", hour).withColumnRenamed("entity", "of_entity")
    happened = (
        events.where(is_event("send.accepted", "send.refused", "failure.counted"))
        .select(
            entity().alias("entity"), "event", "at", "backlog_queue", "seconds", F.col("reason").alias("refusal"),
            F.floor(F.unix_seconds("at") / _BIN_SECONDS).alias("event_hour"),
        )
    )  # fmt: skip
    meets = (F.col("of_entity") == F.col("entity")) & (F.col("hour") == F.col("event_hour"))
    second = F.unix_seconds("at")
    return asked.join(happened, meets).where(second.between(F.col("from"), F.col("to"))).drop("of_entity")


def _drained(found: DataFrame, stayed: DataFrame) -> DataFrame:
    """When the last message that was diverted since an outage began left the backlog; null while some wait."""
    starts = found.where(F.col("key").isNull()).select(
        "entity", F.col("started_at").alias("at"), F.col("started_at").alias("start"), F.lit(None).alias("left_at")
    )
    entered = stayed.select("entity", F.col("entered_at").alias("at"), F.lit(None).alias("start"), "left_at")
    # A send may be accepted a moment after an outage is over: it belongs to the last one that began before it.
    so_far = Window.partitionBy("entity").orderBy("at", F.desc_nulls_last("start"))
    latest = F.last("start", ignorenulls=True).over(so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    waiting = F.count(F.when(F.col("left_at").isNull(), 1))
    return (
        starts.unionByName(entered)
        .withColumn("drained_start", latest)
        .where(F.col("start").isNull() & F.col("drained_start").isNotNull())
        .groupBy(F.col("entity").alias("drained_entity"), "drained_start")
        .agg(waiting.alias("still_waiting"), F.when(waiting == 0, F.max("left_at")).alias("drained_at"))
    )


def _same(drained: DataFrame) -> Column:
    return (F.col("outage.entity") == drained["drained_entity"]) & (
        F.col("outage.started_at") == drained["drained_start"]
    )


def _null_safe(left: DataFrame, right: DataFrame) -> Column:
    return (
        (left["entity"] == right["entity"])
        & left["key"].eqNullSafe(right["key"])
        & (left["started_at"] == right["started_at"])
    )


# -- sends


def _sends(events: DataFrame) -> DataFrame:
    return events.where(is_event("send.accepted", "send.refused")).withColumns(
        {"entity": entity(), "refusal": F.col("reason")}
    )


def _outcomes(counted: Column) -> list[Column]:
    is_mistake = F.coalesce(F.col("refusal").isin(*CALLERS_MISTAKES), F.lit(False))
    is_accepted, is_refused = is_event("send.accepted"), is_event("send.refused")
    is_send = counted & (is_accepted | is_refused) & ~(is_refused & is_mistake)
    seconds = F.when(is_send, F.col("seconds"))
    return [
        F.count(F.when(counted & is_accepted, 1)).alias("accepted"),
        F.count(F.when(counted & is_refused & ~is_mistake, 1)).alias("refused"),
        F.count(F.when(counted & is_refused & is_mistake, 1)).alias("mistakes"),
        F.percentile_approx(seconds, list(PERCENTILES), _ACCURACY).alias("latency"),
        F.max(seconds).alias("latency_max"),
    ]


def _named_percentiles(column: str) -> list[Column]:
    picked = [F.col(column)[index].alias(f"p{round(share * 100)}") for index, share in enumerate(PERCENTILES)]
    return [*picked, F.col(f"{column}_max").alias("slowest")]
