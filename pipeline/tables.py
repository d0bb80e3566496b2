"""The tables of a report by name: each is a pure function from events to a frame, and says what of it people are shown.

Adding a table is a line here. Only job.py runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from pipeline import shown
from pipeline.backlog import drain_curve, stays
from pipeline.deliveries import deliveries, of_interest, summary_of_deliveries
from pipeline.instances import instances, summary_of_instances
from pipeline.outages import outages, sends, sends_by_time
from pipeline.partitions import partition_keys, partition_load, partition_skew
from pipeline.time_line import time_line
from pipeline.usage import usage

#: Rows of a table that are handed to the HTML report.
SHOWN_ROWS_MAX = 5_000

#: From the events, and the tables that it needs, in their order.
Build = Callable[..., DataFrame]
#: Some rows of a finished table.
Show = Callable[[DataFrame], DataFrame]
#: From the finished table, read back, to the part of summary.json that it answers for.
Summarise = Callable[[DataFrame], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Table:
    build: Build
    #: Tables made before that this one is made of.
    needs: tuple[str, ...] = ()
    summarise: Summarise | None = None
    #: Which rows the HTML report gets, in which order; all of them unless told.
    shown: Show | None = None


TABLES: dict[str, Table] = {
    "instances": Table(build=instances, summarise=summary_of_instances),
    "deliveries": Table(build=deliveries, summarise=summary_of_deliveries, shown=of_interest),
    "stays": Table(build=stays, shown=shown.nothing),
    "time_line": Table(build=time_line, summarise=shown.summary_of_time_line, shown=shown.troubled_lanes),
    "outages": Table(
        build=outages, needs=("time_line", "stays"), summarise=shown.summary_of_outages, shown=shown.latest_outages
    ),
    "sends": Table(build=sends, summarise=shown.summary_of_sends, shown=shown.most_sent),
    "sends_by_time": Table(build=sends_by_time, shown=shown.busiest),
    "drain": Table(build=drain_curve, needs=("stays",), shown=shown.deepest),
    "usage": Table(build=usage, needs=("stays",), summarise=shown.summary_of_usage),
    "partitions": Table(build=partition_load, shown=shown.hottest),
    "partition_keys": Table(
        build=partition_keys, needs=("stays",), summarise=shown.summary_of_keys, shown=shown.keys_at_risk
    ),
    "partition_skew": Table(
        build=partition_skew,
        needs=("partitions", "partition_keys"),
        summarise=shown.summary_of_skew,
        shown=shown.most_skewed,
    ),
}
