"""The states that each entity was in, as all instances of the app together saw it.

Unavailable and available again are shared by all instances: the first report of either counts, and what others say of
the same change after that is a repetition. Suspicion belongs to an instance: the entity is suspect while anybody
suspects it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.entities import ABOUT_ENTITIES, bounds, entity, is_event, key, seconds_between

#: An instance that wrote nothing for so long before the records end is gone, and its suspicion with it.
SILENT_SECONDS = 300
_LANE = ("entity", "key")
_AVAILABLE, _SUSPECT, _UNAVAILABLE = "available", "suspect", "unavailable"


def time_line(events: DataFrame) -> DataFrame:
    """entity, key, state, started_at, ended_at (null: not over), seconds, reason, in order of time.

    `key` is null for the entity itself, else a digest of a key that is watched on its own. What was unavailable when
    the records begin is so from there on.
    """
    changes = events.where(is_event("availability.changed")).withColumns({"entity": entity(), "key": key()})
    seen = events.where(is_event(*ABOUT_ENTITIES)).groupBy(entity().alias("entity")).agg(F.min("at").alias("at"))
    marks = (
        _marks(seen.withColumn("key", F.lit(None).cast("string")), F.col("at"))
        .unionByName(_shared_marks(changes, events))
        .unionByName(_suspicion_marks(changes, events))
    )
    return _intervals(marks)


def _marks(
    frame: DataFrame,
    at: Column,
    *,
    down: Column | None = None,
    suspects: Column | None = None,
    reason: str | None = None,
) -> DataFrame:
    """What changes at a moment: how many say that it is down, and how many suspect it."""
    zero = F.lit(0)
    return frame.select(
        *_LANE,
        at.alias("at"),
        (zero if down is None else down).alias("down"),
        (zero if suspects is None else suspects).alias("suspects"),
        (F.lit(None).cast("string") if reason is None else F.nullif(F.col(reason), F.lit(""))).alias("reason"),
    )


def _shared_marks(changes: DataFrame, events: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*_LANE).orderBy("at", "instance", "seq")
    is_down, was_down = F.col("after") == _UNAVAILABLE, F.col("before") == _UNAVAILABLE
    shared = (
        changes.where(is_down | was_down)
        .withColumns({"is_down": is_down, "was_down": was_down})
        .withColumns({"known_down": F.lag("is_down").over(in_order), "number": F.row_number().over(in_order)})
    )
    turned = shared.where(F.col("is_down") != F.coalesce("known_down", "was_down"))
    from_the_start = shared.where((F.col("number") == 1) & F.col("was_down")).crossJoin(F.broadcast(bounds(events)))
    return _marks(turned, F.col("at"), down=F.when(F.col("is_down"), 1).otherwise(-1), reason="reason").unionByName(
        _marks(from_the_start, F.col("records_begin"), down=F.lit(1), reason="reason")
    )


def _suspicion_marks(changes: DataFrame, events: DataFrame) -> DataFrame:
    """An instance suspects until it says otherwise, stops, or falls silent for good."""
    by_instance = Window.partitionBy(*_LANE, "instance").orderBy("at", "seq")
    suspicions = changes.withColumn("next_at", F.lead("at").over(by_instance)).where(F.col("after") == _SUSPECT)
    stopped = F.max(F.when(is_event("telemetry.stopped"), F.col("at")))
    writers = events.groupBy("instance").agg(F.max("at").alias("last_at"), stopped.alias("stopped_at"))
    silent = seconds_between(F.col("last_at"), F.col("records_end")) > SILENT_SECONDS
    ended = (
        suspicions.join(writers, "instance")
        .crossJoin(F.broadcast(bounds(events)))
        .withColumn("end", F.coalesce("next_at", "stopped_at", F.when(silent, F.col("last_at"))))
        .where(F.col("end").isNotNull())
    )
    return _marks(suspicions, F.col("at"), suspects=F.lit(1), reason="reason").unionByName(
        _marks(ended, F.col("end"), suspects=F.lit(-1))
    )


def _intervals(marks: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*_LANE).orderBy("at")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    moments = marks.groupBy(*_LANE, "at").agg(
        F.sum("down").alias("down"), F.sum("suspects").alias("suspects"), F.max("reason").alias("reason")
    )
    state = (
        F.when(F.sum("down").over(so_far) > 0, _UNAVAILABLE)
        .when(F.sum("suspects").over(so_far) > 0, _SUSPECT)
        .otherwise(_AVAILABLE)
    )
    changed = F.col("before_it").isNull() | (F.col("before_it") != F.col("state"))
    return (
        moments.withColumn("state", state)
        .withColumn("before_it", F.lag("state").over(in_order))
        .where(changed)
        .withColumn("ended_at", F.lead("at").over(in_order))
        .select(
            *_LANE,
            "state",
            F.col("at").alias("started_at"),
            "ended_at",
            seconds_between(F.col("at"), F.col("ended_at")).alias("seconds"),
            F.when(F.col("state") != _AVAILABLE, F.col("reason")).alias("reason"),
        )
    )
