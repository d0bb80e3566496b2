"""What several reports ask of the records: which entity a path names, how long the records last, who wrote them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

#: Separates an entity's path from a key that is watched on its own.
KEY_MARK = "#"
KEY_DIGITS = 12
#: Callers' own mistakes: refused whatever the state of the pair, so they say nothing about its availability.
CALLERS_MISTAKES = ("EntityNotFound", "MessageTooLarge", "Rejected")
#: Events whose path is an entity of the primary.
ABOUT_ENTITIES = (
    "send.accepted",
    "send.refused",
    "failure.counted",
    "availability.changed",
    "entity.pinged",
    "syphon.forwarded",
)


def entity() -> Column:
    """The service does not tell capitals apart, so neither do we."""
    return F.lower(F.substring_index(F.col("path"), KEY_MARK, 1))


def key() -> Column:
    """Of a key that is watched on its own a digest, never the key; null for the entity itself."""
    text = F.lower(F.substring_index(F.col("path"), KEY_MARK, -1))
    return F.when(F.col("path").contains(KEY_MARK), F.substring(F.sha2(text, 256), 1, KEY_DIGITS))


def is_event(*names: str) -> Column:
    return F.col("event").isin(*names)


def seconds_between(start: Column, end: Column) -> Column:
    return (F.unix_micros(end) - F.unix_micros(start)) / F.lit(1_000_000)


def bounds(events: DataFrame) -> DataFrame:
    """One row: when the records begin and end; nulls where there are none."""
    return events.agg(F.min("at").alias("records_begin"), F.max("at").alias("records_end"))
