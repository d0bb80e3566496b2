"""Reads queues once, each in a task of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pipeline.servicebus.errors import ReadFailed
from pipeline.servicebus.peeking import PARTITIONS_MAX, Peeker
from pipeline.servicebus.plans import PeekedQueue, ReadPlan
from pipeline.servicebus.rows import row_of


@dataclass
class WholeQueue(InputPartition):
    queue: PeekedQueue


class BatchReader(DataSourceReader):
    def __init__(self, plan: ReadPlan) -> None:
        self._plan = plan

    def partitions(self) -> list[InputPartition]:
        return [WholeQueue(queue) for queue in self._plan.queues]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, WholeQueue)
        plan, queue, seen = self._plan, partition.queue, 0
        with Peeker(plan, queue) as peeker:
            for number in range(PARTITIONS_MAX):
                for message in peeker.walk(number, after=0):
                    if seen == plan.messages_max:
                        if not plan.bound_is_ours:
                            return
                        raise ReadFailed(
                            f"{queue.name} holds more than {plan.messages_max} messages; "
                            "set maxMessages to the number of messages that is enough"
                        )
                    seen += 1
                    yield row_of(queue.name, message)
