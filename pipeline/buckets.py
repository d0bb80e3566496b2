"""Time in equal steps: as fine as a chart can show, whatever the length of the records."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.entities import bounds, seconds_between

BUCKETS_MAX = 200
# fmt: off
WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
# fmt: on


def in_buckets(frame: DataFrame, events: DataFrame) -> DataFrame:
    """Adds `bucket`, where the step that `at` falls into begins, and `bucket_seconds`, how long one is."""
    span = seconds_between(F.col("records_begin"), F.col("records_end"))
    width = bounds(events).select(_width(span).cast("long").alias("bucket_seconds"))
    step = F.col("bucket_seconds")
    begins = F.floor(F.unix_seconds("at") / step) * step
    return frame.crossJoin(F.broadcast(width)).withColumn("bucket", F.timestamp_seconds(begins.cast("long")))


def _width(span: Column) -> Column:
    fitting = [F.when(span <= width * BUCKETS_MAX, F.lit(width)) for width in WIDTHS_S]
    return F.coalesce(*fitting, F.lit(WIDTHS_S[-1]))
