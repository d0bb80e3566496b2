"""Sends the rows of one Spark partition, many at a time, and waits for the outcome of every one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.servicebus.columns import Columns, Ids, Row, rows_of
from pipeline.servicebus.errors import RowNotSent
from pipeline.servicebus.plans import WritePlan
from shared.domain.availability import Route
from shared.errors import BacklogExhausted, Overloaded, PairingError, PrimaryFailed
from shared.paired_sender import PairedSender
from shared.services.journeys import Sent

if TYPE_CHECKING:
    from pyarrow import RecordBatch

#: Failures that pass: failover engages, a namespace comes back.
PASSING = (PrimaryFailed, BacklogExhausted, Overloaded)
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0


@dataclass
class Tally:
    """What became of the rows of one partition; a row counts when a namespace has accepted it."""

    rows: int = 0
    #: Of these, in a backlog queue.
    diverted: int = 0
    #: Of these, perhaps there twice under one id.
    possible_duplicates: int = 0

    def add(self, sent: Sent) -> None:
        self.rows += 1
        self.diverted += sent.via is Route.BACKLOG
        self.possible_duplicates += sent.possible_duplicate


class PartitionSender:
    def __init__(self, plan: WritePlan, columns: Columns, ids: Ids) -> None:
        self._plan = plan
        self._columns = columns
        self._ids = ids
        self._tally = Tally()
        self._failures: list[Exception] = []

    async def send_all(self, batches: Iterator[RecordBatch]) -> Tally:
        plan, seen = self._plan, 0
        async with PairedSender(
            plan.settings, authority_file=plan.authority_file, create_queues=plan.create_queues
        ) as bus:
            # Spark computes rows while we wait for them: connections must stay alive meanwhile, hence the thread.
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                rows = rows_of(batch, seen, self._columns, self._ids)
                workers = min(plan.in_flight_max, batch.num_rows)
                await asyncio.gather(*(self._work(bus, rows) for _ in range(workers)))
                if self._failures:
                    raise self._failures[0]
                seen += batch.num_rows
        return self._tally

    async def _work(self, bus: PairedSender, rows: Iterator[Row]) -> None:
        """Takes rows until there are none; after a failure nobody takes another, and what is under way ends by itself.

        Nothing is cancelled: a send that is broken off may have arrived all the same.
        """
        try:
            for row in rows:
                self._tally.add(await self._send(bus, row))
                if self._failures:
                    return
        except Exception as error:
            self._failures.append(error)

    async def _send(self, bus: PairedSender, row: Row) -> Sent:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._plan.retry_for.total_seconds()
        pause = FIRST_PAUSE_S
        while True:
            try:
                return await bus.send(row.entity, row.message)
            except PairingError as error:
                if not isinstance(error, PASSING) or self._failures or loop.time() + pause > give_up:
                    raise self._not_sent(row, error) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _not_sent(self, row: Row, error: PairingError) -> RowNotSent:
        where = f"row {row.number} of partition {self._ids.partition}, message id '{row.message_id}'"
        doubt = "; it may have arrived all the same" if getattr(error, "indefinite", False) else ""
        return RowNotSent(f"{where}, was not sent: {type(error).__name__}: {error}{doubt}")
