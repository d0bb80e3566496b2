"""The tables of a report by name: each is a pure function from events to a frame, and says what of it people are shown.

Adding a table is a line here. Only job.py runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from pipeline.deliveries import deliveries, of_interest, summary_of_deliveries
from pipeline.instances import instances, summary_of_instances

#: Rows of a table that are handed to the HTML report.
SHOWN_ROWS_MAX = 5_000

Build = Callable[[DataFrame], DataFrame]
#: From the finished table, read back, to the part of summary.json that it answers for.
Summarise = Callable[[DataFrame], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Table:
    build: Build
    summarise: Summarise | None = None
    #: Which rows the HTML report gets, in which order; all of them unless told.
    shown: Build | None = None


TABLES: dict[str, Table] = {
    "instances": Table(build=instances, summarise=summary_of_instances),
    "deliveries": Table(build=deliveries, summarise=summary_of_deliveries, shown=of_interest),
}
