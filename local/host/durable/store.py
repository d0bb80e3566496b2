"""Orchestration instances in Table Storage.

All rows of an instance share one partition, so that a turn is one transaction: the instance row (guarded by its
ETag), the turn's new history, and the removal of the messages it used up. Either all of it happened or none.

    RowKey a                          the instance
    RowKey h:<execution>:<turn>:<n>   history of one turn
    RowKey m:...                      a message not yet shown to the orchestrator
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.data.tables import TableTransactionError, UpdateMode
from azure.data.tables.aio import TableClient

from local.host.durable.events import Event, completes
from local.host.durable.model import Instance, Loaded, Message, MessageKind, Parent, Status
from local.host.durable.packing import pack_rows, pack_text, unpack_rows, unpack_text

DOORBELLS = "!doorbell"
INSTANCE_ROW = "a"
TRANSACTION_LIMIT = 100
DELETE_PARALLEL = 8
_CONFLICTS = (404, 409, 412)


class InstanceExists(Exception):
    """An instance of that id is there and may not be replaced."""


def partition_of(instance_id: str) -> str:
    """A partition key that stands for an instance id, whatever characters it has."""
    return "".join(
        character if character.isascii() and (character.isalnum() or character in "-_.:@") else f"!{ord(character):x};"
        for character in instance_id
    )


class Store:
    """Reads and writes instances of one task hub."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    async def create(self, instance: Instance, *, replace_running: bool = False) -> None:
        """Write a new instance; a finished one of the same id makes way for it."""
        partition = partition_of(instance.instance_id)
        row = _instance_row(partition, instance)
        try:
            await self._table.create_entity(row)
            return
        except ResourceExistsError:
            pass
        rows = await self._partition(partition)
        old = next((item for item in rows if item["RowKey"] == INSTANCE_ROW), None)
        if old is None:
            raise InstanceExists(instance.instance_id)
        if not replace_running and not Status(old["Status"]).finished:
            raise InstanceExists(instance.instance_id)
        leftovers = [item for item in rows if item["RowKey"].startswith("m:")]
        await self._delete(leftovers)
        try:
            await self._table.update_entity(
                row,
                mode=UpdateMode.REPLACE,
                etag=old.metadata["etag"],
                match_condition=MatchConditions.IfNotModified,
            )
        except HttpResponseError as error:
            if error.status_code in _CONFLICTS:
                raise InstanceExists(instance.instance_id) from None
            raise
        await self._delete([item for item in rows if item["RowKey"].startswith("h:")])

    async def get(self, instance_id: str) -> Instance | None:
        """The instance row alone."""
        try:
            return _read_instance(await self._table.get_entity(partition_of(instance_id), INSTANCE_ROW))
        except ResourceNotFoundError:
            return None

    async def load(self, instance_id: str) -> Loaded | None:
        """Everything there is of an instance."""
        rows = await self._partition(partition_of(instance_id))
        own = next((row for row in rows if row["RowKey"] == INSTANCE_ROW), None)
        if own is None:
            return None
        instance = _read_instance(own)
        prefix = f"h:{instance.execution_id}:"
        chunks = sorted((row for row in rows if row["RowKey"].startswith(prefix)), key=lambda row: str(row["RowKey"]))
        return Loaded(
            instance=instance,
            history=_read_history(chunks),
            messages=[_read_message(row) for row in rows if row["RowKey"].startswith("m:")],
        )

    async def commit(
        self, before: Instance, after: Instance, events: Sequence[Event], consumed: Sequence[str]
    ) -> bool:
        """Write one turn; False when the instance changed meanwhile, and then nothing was written."""
        partition = partition_of(before.instance_id)
        row = _instance_row(partition, replace(after, turns=before.turns + 1))
        operations: list[Any] = [
            (
                "update",
                row,
                {
                    "mode": UpdateMode.REPLACE,
                    "etag": before.etag,
                    "match_condition": MatchConditions.IfNotModified,
                },
            )
        ]
        for index, data in enumerate(pack_rows(json.dumps(list(events))) if events else ()):
            key = f"h:{after.execution_id}:{before.turns:08d}:{index}"
            operations.append(("create", {"PartitionKey": partition, "RowKey": key, **data}))
        operations.extend(("delete", {"PartitionKey": partition, "RowKey": key}) for key in consumed)
        if len(operations) > TRANSACTION_LIMIT:
            raise ValueError(f"a turn of {len(operations)} rows does not fit one transaction")
        try:
            await self._table.submit_transaction(operations)
        except TableTransactionError as error:
            if error.status_code in _CONFLICTS:
                return False
            raise
        return True

    async def forget_execution(self, instance_id: str, execution_id: str) -> None:
        """Remove the history of an execution that was continued as new."""
        rows = await self._partition(partition_of(instance_id))
        await self._delete([row for row in rows if row["RowKey"].startswith(f"h:{execution_id}:")])

    async def post(self, instance_id: str, message: Message) -> None:
        """Keep a message for an instance. The answer to one task is kept once, however often it comes."""
        partition = partition_of(instance_id)
        row = _message_row(partition, message)
        try:
            await self._table.create_entity(row)
        except ResourceExistsError:
            return

    async def delete(self, instance_id: str) -> bool:
        """Remove an instance with all it has; False when there is none."""
        rows = await self._partition(partition_of(instance_id))
        if not rows:
            return False
        # The instance row goes first: without it nothing can be committed any more.
        await self._delete([row for row in rows if row["RowKey"] == INSTANCE_ROW])
        await self._delete([row for row in rows if row["RowKey"] != INSTANCE_ROW])
        return True

    async def find(self, statuses: Iterable[Status] = ()) -> list[Instance]:
        """All instances, or those of some statuses."""
        wanted = tuple(statuses)
        query = f"RowKey eq '{INSTANCE_ROW}'"
        if wanted:
            query += " and (" + " or ".join(f"Status eq '{status}'" for status in wanted) + ")"
        return [_read_instance(row) async for row in self._table.query_entities(query)]

    async def ring(self, instance_id: str) -> None:
        """Tell the host that runs the hub that there is a message."""
        row = {"PartitionKey": DOORBELLS, "RowKey": partition_of(instance_id), "InstanceId": instance_id}
        await self._table.upsert_entity(row, mode=UpdateMode.REPLACE)

    async def rung(self) -> list[str]:
        """Instances rung since the last call."""
        rows = [row async for row in self._table.query_entities(f"PartitionKey eq '{DOORBELLS}'")]
        await self._delete(rows)
        return [str(row["InstanceId"]) for row in rows]

    async def _partition(self, partition: str) -> list[Any]:
        found: AsyncIterable[Any] = self._table.query_entities(
            "PartitionKey eq @partition", parameters={"partition": partition}
        )
        return [row async for row in found]

    async def _delete(self, rows: Sequence[Any]) -> None:
        slots = asyncio.Semaphore(DELETE_PARALLEL)

        async def remove(row: Any) -> None:
            async with slots:
                # Deleting a row that is already gone is no error to this library.
                await self._table.delete_entity(row["PartitionKey"], row["RowKey"])

        await asyncio.gather(*(remove(row) for row in rows))


def _instance_row(partition: str, instance: Instance) -> dict[str, Any]:
    row: dict[str, Any] = {
        "PartitionKey": partition,
        "RowKey": INSTANCE_ROW,
        "InstanceId": instance.instance_id,
        "ExecutionId": instance.execution_id,
        "Name": instance.name,
        "Version": instance.version or "",
        "Status": str(instance.status),
        "CreatedTime": instance.created.isoformat(),
        "LastUpdatedTime": instance.updated.isoformat(),
        "Turns": instance.turns,
        **pack_text("Input", instance.input),
        **pack_text("Output", instance.output),
        **pack_text("CustomStatus", instance.custom_status),
    }
    if instance.parent is not None:
        row["ParentInstanceId"] = instance.parent.instance_id
        row["ParentExecutionId"] = instance.parent.execution_id
        row["ParentTaskId"] = instance.parent.task_id
    return row


def _read_instance(row: Any) -> Instance:
    parent = None
    if row.get("ParentInstanceId"):
        parent = Parent(
            instance_id=row["ParentInstanceId"],
            execution_id=row["ParentExecutionId"],
            task_id=int(row["ParentTaskId"]),
        )
    return Instance(
        instance_id=row["InstanceId"],
        execution_id=row["ExecutionId"],
        name=row["Name"],
        version=row["Version"] or None,
        status=Status(row["Status"]),
        created=datetime.fromisoformat(row["CreatedTime"]),
        updated=datetime.fromisoformat(row["LastUpdatedTime"]),
        input=unpack_text("Input", row),
        output=unpack_text("Output", row),
        custom_status=unpack_text("CustomStatus", row),
        parent=parent,
        turns=int(row["Turns"]),
        etag=row.metadata["etag"],
    )


def _read_history(chunks: Sequence[Any]) -> list[Event]:
    history: list[Event] = []
    turns: dict[str, list[Any]] = {}
    for row in chunks:
        turns.setdefault(row["RowKey"].rpartition(":")[0], []).append(row)
    for rows in turns.values():
        history.extend(json.loads(unpack_rows(rows)))
    return history


def _message_row(partition: str, message: Message) -> dict[str, Any]:
    if message.kind == MessageKind.TASK and message.event is not None:
        key = f"m:task:{message.execution_id}:{completes(message.event):08d}"
    else:
        key = f"m:{message.enqueued.astimezone(UTC):%Y%m%d%H%M%S%f}:{uuid.uuid4().hex}"
    row: dict[str, Any] = {
        "PartitionKey": partition,
        "RowKey": key,
        "Kind": str(message.kind),
        "Enqueued": message.enqueued.isoformat(),
        "Name": message.name,
        "ExecutionId": message.execution_id,
        **pack_text("Input", message.input),
    }
    if message.event is not None:
        row.update(pack_text("Event", json.dumps(message.event)))
    return row


def _read_message(row: Any) -> Message:
    shown = unpack_text("Event", row)
    return Message(
        kind=MessageKind(row["Kind"]),
        enqueued=datetime.fromisoformat(row["Enqueued"]),
        key=row["RowKey"],
        name=row["Name"],
        input=unpack_text("Input", row),
        event=None if shown is None else json.loads(shown),
        execution_id=row["ExecutionId"],
    )
