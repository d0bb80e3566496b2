"""Reads queues as a stream: by peeking, from sequence number to sequence number, so that a range can be read again.

An offset holds, for each queue and partition, the last number passed and how many messages were counted up to it. A
range that holds fewer messages than were counted has lost some to receivers, expiry or the syphon, which is told rather
than passed over. Scheduled messages are left out: the service numbers them anew when their time comes, and they are
read then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pipeline.servicebus.errors import DataLost, ReadFailed
from pipeline.servicebus.given import MESSAGES_MAX
from pipeline.servicebus.peeking import PARTITIONS_MAX, Peeker
from pipeline.servicebus.plans import PeekedQueue, ReadPlan
from pipeline.servicebus.rows import is_scheduled, row_of

#: {queue: {partition: {"last": sequence number, "count": messages so far}}}; names of partitions are text, as in JSON.
Offset = dict[str, dict[str, dict[str, int]]]
_NOTHING = {"last": 0, "count": 0}


@dataclass
class Range(InputPartition):
    """Messages of one partition of a queue with numbers in (after, until]."""

    queue: PeekedQueue
    partition: int
    after: int
    until: int
    count: int


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, plan: ReadPlan) -> None:
        self._plan = plan
        self._poll_s = plan.poll_interval.total_seconds()
        #: Which lane is looked at first; it moves on with every look, so that a busy one keeps nobody waiting for ever.
        self._turn = 0
        #: When it last looked, if there was nothing to be found.
        self._found_nothing_at: float | None = None
        self._stops_at_what_is_there = False
        #: What was there when it was asked for, in the order it is handed out: (queue, partition, sequence number).
        self._there: list[tuple[str, int, int]] | None = None

    def initialOffset(self) -> Offset:
        return {queue.name: {} for queue in self._plan.queues}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._plan.messages_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._stops_at_what_is_there = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        bound = limit.max_rows if isinstance(limit, ReadMaxRows) else MESSAGES_MAX
        if not self._stops_at_what_is_there:
            return self._news(start, bound)
        if self._there is None:
            self._there = list(self._look(start, MESSAGES_MAX))
            if len(self._there) == MESSAGES_MAX:
                raise ReadFailed(f"there are {MESSAGES_MAX} messages or more, which is more than one run takes")
        batch, self._there = self._there[:bound], self._there[bound:]
        return _advanced(start, iter(batch))

    def _news(self, start: Offset, bound: int) -> Offset:
        now = time.monotonic()
        if self._found_nothing_at is not None and now < self._found_nothing_at + self._poll_s:
            return start
        end = _advanced(start, self._look(start, bound))
        self._found_nothing_at = now if end == start else None
        return end

    def _look(self, start: Offset, bound: int) -> Iterator[tuple[str, int, int]]:
        lanes = [(queue, number) for queue in self._plan.queues for number in range(PARTITIONS_MAX)]
        turn, self._turn = self._turn % len(lanes), self._turn + 1
        seen = 0
        with ExitStack() as stack:
            peekers = {queue.name: stack.enter_context(Peeker(self._plan, queue)) for queue in self._plan.queues}
            for queue, number in lanes[turn:] + lanes[:turn]:
                after = _at(start, queue.name, number)["last"]
                for message in peekers[queue.name].walk(number, after):
                    if is_scheduled(message):
                        continue
                    if seen == bound:
                        return
                    seen += 1
                    yield queue.name, number, message.sequence_number or 0

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        ranges: list[InputPartition] = []
        for queue in self._plan.queues:
            for number in range(PARTITIONS_MAX):
                before, after = _at(start, queue.name, number), _at(end, queue.name, number)
                if after["last"] > before["last"]:
                    count = after["count"] - before["count"]
                    ranges.append(Range(queue, number, before["last"], after["last"], count))
        return ranges

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Range)
        wanted, found = partition, 0
        with Peeker(self._plan, wanted.queue) as peeker:
            for message in peeker.walk(wanted.partition, wanted.after, wanted.until):
                if not is_scheduled(message):
                    found += 1
                    yield row_of(wanted.queue.name, message)
        if found < wanted.count and self._plan.fail_on_data_loss:
            raise DataLost(
                f"{wanted.count - found} of {wanted.count} messages of {wanted.queue.name}, partition "
                f"{wanted.partition}, sequence numbers {wanted.after + 1} to {wanted.until}, were removed before they "
                "were read; a stream is complete only where nobody removes messages meanwhile. "
                "Set failOnDataLoss=false to go on with what is there"
            )


def _at(offset: Offset, queue: str, partition: int) -> dict[str, int]:
    return offset.get(queue, {}).get(str(partition), _NOTHING)


def _advanced(start: Offset, seen: Iterator[tuple[str, int, int]]) -> Offset:
    end = deepcopy(start)
    for queue, partition, number in seen:
        before = _at(end, queue, partition)
        end.setdefault(queue, {})[str(partition)] = {
            "last": max(number, before["last"]),
            "count": before["count"] + 1,
        }
    return end
