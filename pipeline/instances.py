"""Who wrote the records, and what of them is missing or there twice: the ground that a proof stands on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

#: Numbers of records that share one row and the bits of one long: who counts bits need not compare every record.
RECORDS_PER_ROW = 64


def instances(events: DataFrame) -> DataFrame:
    """One row for each writer. Numbers count up by one from 0, so a gap is a record that was lost after it was made.

    An instance without a stop was killed, or is still running: its last flush_seconds may be missing.
    """
    row = F.floor(F.col("seq") / RECORDS_PER_ROW)
    bit = F.expr(f"shiftleft(1L, cast(pmod(seq, {RECORDS_PER_ROW}) as int))")
    rows = events.groupBy("instance", row.alias("row")).agg(
        F.count("*").alias("records"),
        F.bit_or(bit).alias("bits"),
        F.max("seq").alias("last_seq"),
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
        F.max(F.col("event") == "telemetry.started").alias("started"),
        F.max(F.col("event") == "telemetry.stopped").alias("stopped"),
        F.max("flush_seconds").alias("flush_seconds"),
        F.sum("events").alias("dropped"),
    )
    distinct = F.sum(F.bit_count("bits")).cast("long")
    return (
        rows.groupBy("instance")
        .agg(
            F.sum("records").alias("records"),
            (F.sum("records") - distinct).alias("repeated"),
            (F.max("last_seq") + 1 - distinct).alias("missing"),
            F.coalesce(F.sum("dropped"), F.lit(0)).alias("dropped"),
            F.min("first_at").alias("first_at"),
            F.max("last_at").alias("last_at"),
            F.max("flush_seconds").alias("flush_seconds"),
            F.max("started").alias("started"),
            F.max("stopped").alias("stopped"),
        )
        .orderBy("first_at", "instance")
    )


def counted_once(events: DataFrame) -> DataFrame:
    """Records that are there twice, as after a file was copied, count once."""
    return events.dropDuplicates(["instance", "seq"])


def summary_of_instances(table: DataFrame) -> Mapping[str, Any]:
    total = table.agg(
        F.count("*").alias("instances"),
        (F.sum("records") - F.sum("repeated")).alias("events"),
        F.sum("repeated").alias("repeated_records"),
        F.sum("missing").alias("missing_records"),
        F.sum("dropped").alias("dropped_events"),
        F.count_if(~F.col("stopped")).alias("killed_instances"),
        F.min("first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
    ).first()
    return total.asDict() if total else {}
