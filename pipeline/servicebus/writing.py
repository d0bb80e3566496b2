"""Writers, as Spark calls them: made on the driver, carried to the tasks, at least once.

A task that fails is run again from its first row, and a micro-batch whose commit failed is run again as a whole. What
was sent before is sent again, under the same ids: duplicate detection of the queue then drops it, and without that a
receiver can. There is nothing to commit or to take back at a broker: `commit` only says what was sent, and what a
failed job had sent stays sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pipeline.servicebus.columns import Columns, Ids, check_columns
from pipeline.servicebus.plans import WritePlan
from pipeline.servicebus.sending import PartitionSender, Tally

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_LOGGER = logging.getLogger(__name__)

HOW_TO_NAME_ROWS = (
    "there is no column message_id; a task that Spark runs again would send its rows under new ids, and nobody could "
    "tell the copies apart. Add the column (best: a key of your data), or set option messageIdPrefix: ids are then "
    "prefix-partition-row, which is right only if the rows and their order are the same every time they are computed"
)


@dataclass
class Written(WriterCommitMessage):
    tally: Tally


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, plan: WritePlan, schema: StructType) -> None:
        prefix = plan.message_id_prefix
        self._plan = plan
        self._columns = check_columns(schema, entity=plan.entity, derives_ids=prefix is not None, how=HOW_TO_NAME_ROWS)

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        partition = task().partitionId()
        prefix = self._plan.message_id_prefix
        ids = Ids(
            prefix=None if prefix is None else f"{prefix}-{partition}", entity=self._plan.entity, partition=partition
        )
        return send(self._plan, self._columns, ids, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        say_what_was_sent(messages)


def say_what_was_sent(messages: Iterable[WriterCommitMessage | None]) -> None:
    tallies = [message.tally for message in messages if isinstance(message, Written)]
    _LOGGER.info(
        "%d rows were accepted, %d of them by the backlog; %d may be there twice under one id",
        sum(tally.rows for tally in tallies),
        sum(tally.diverted for tally in tallies),
        sum(tally.possible_duplicates for tally in tallies),
    )


def task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "write() runs inside a task"
    return context


def send(plan: WritePlan, columns: Columns, ids: Ids, batches: Iterator[RecordBatch]) -> Written:
    return Written(asyncio.run(PartitionSender(plan, columns, ids).send_all(batches)))
