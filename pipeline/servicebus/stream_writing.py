"""The writer of a streaming query. Apart from the other one, since older Spark (before 4.1) lacks its base class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pipeline.servicebus.columns import Ids, check_columns
from pipeline.servicebus.plans import WritePlan
from pipeline.servicebus.writing import Written, say_what_was_sent, send, task

if TYPE_CHECKING:
    from pyarrow import RecordBatch


class StreamWriter(DataSourceStreamArrowWriter):
    """Ids of rows without a message_id name query, batch, partition and row: a batch that is run again repeats them."""

    def __init__(self, plan: WritePlan, schema: StructType) -> None:
        self._plan = plan
        self._columns = check_columns(schema, entity=plan.entity, derives_ids=True, how="")

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        context = task()
        partition = context.partitionId()
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert None not in (query, batch), "a streaming task knows its query and its batch"
        ids = Ids(prefix=f"{query}-{batch}-{partition}", entity=self._plan.entity, partition=partition)
        return send(self._plan, self._columns, ids, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        say_what_was_sent(messages)
