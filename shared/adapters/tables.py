"""Shared state in Table Storage: one table, one partition for each pair, a row for each entity, queue and factory.

A row is replaced only if its ETag is still the one that was read; after a conflict it is read and decided again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from shared.adapters.table_rows import (
    PAIRING_ROW,
    drain_of,
    drain_row,
    drain_row_key,
    entity_record,
    entity_row,
    entity_row_key,
    factory_of,
    pairing_record,
    pairing_row,
    queue_record,
    queue_row,
    queue_row_key,
    side_of,
)
from shared.connections import StateStorage
from shared.domain.pair import EntityPath
from shared.domain.syphon import Drain
from shared.errors import StateConflict
from shared.ports import EntityRecord, PairingRecord, QueueRecord, SharedState, StorageTrouble

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential

TABLE_NAME = "PairState"
#: A single operation on the table; the SDK's own retries would take minutes.
OPERATION_SECONDS_MAX = 5.0
CONFLICTS_MAX = 8
_RETRIES = 1

T = TypeVar("T")
Row = Mapping[str, Any]


class TableStateStore:
    def __init__(self, storage: StateStorage, pair: str, credential: AsyncTokenCredential | None = None) -> None:
        self._client = _client(storage, credential)
        self._pair = pair
        self._exists = False

    async def load(self) -> SharedState:
        return await self._call(self._load)

    async def _load(self) -> SharedState:
        entities, queues, drains = [], [], []
        factories, pairing = {}, None
        query = self._client.query_entities("PartitionKey eq @pair", parameters={"pair": self._pair})
        async for row in query:
            key = str(row["RowKey"])
            if key.startswith("entity:"):
                entities.append(entity_record(row))
            elif key.startswith("queue:"):
                queues.append(queue_record(row))
            elif key.startswith("drain:"):
                drains.append(drain_of(row))
            elif key == PAIRING_ROW:
                pairing = pairing_record(row)
            elif (side := side_of(key)) is not None:
                factories[side] = factory_of(row)
        return SharedState(
            entities=tuple(entities),
            queues=tuple(queues),
            factories=factories,
            pairing=pairing,
            drains=tuple(drains),
        )

    async def change_entity(
        self, path: EntityPath, decide: Callable[[EntityRecord | None], EntityRecord | None]
    ) -> EntityRecord | None:
        return await self._change(entity_row_key(path), entity_record, entity_row, decide)

    async def forget_entity(self, path: EntityPath, *, until: datetime) -> None:
        await self._call(lambda: self._forget(entity_row_key(path), until))

    async def _forget(self, row_key: str, until: datetime) -> None:
        found = await self._get(row_key)
        if found is None or entity_record(found).changed_at > until:
            return
        try:
            await self._client.delete_entity(
                self._pair,
                row_key,
                etag=found.metadata["etag"],  # type: ignore[attr-defined]
                match_condition=MatchConditions.IfNotModified,
            )
        except (ResourceModifiedError, ResourceNotFoundError):
            return  # somebody has later news of it

    async def change_queue(
        self, path: EntityPath, decide: Callable[[QueueRecord | None], QueueRecord | None]
    ) -> QueueRecord | None:
        return await self._change(queue_row_key(path), queue_record, queue_row, decide)

    async def save_pairing(self, record: PairingRecord) -> None:
        row = {"PartitionKey": self._pair, "RowKey": PAIRING_ROW, **pairing_row(record)}
        await self._call(lambda: self._client.upsert_entity(row, mode=UpdateMode.REPLACE))

    async def save_drain(self, drain: Drain) -> None:
        row = {"PartitionKey": self._pair, "RowKey": drain_row_key(drain.queue), **drain_row(drain)}
        await self._call(lambda: self._client.upsert_entity(row, mode=UpdateMode.REPLACE))

    async def _change(
        self,
        row_key: str,
        read: Callable[[Row], T],
        write: Callable[[T], dict[str, Any]],
        decide: Callable[[T | None], T | None],
    ) -> T | None:
        for _ in range(CONFLICTS_MAX):
            found = await self._call(lambda: self._get(row_key))
            before = read(found) if found is not None else None
            after = decide(before)
            if after is None:
                return before
            row = {"PartitionKey": self._pair, "RowKey": row_key, **write(after)}
            if await self._call(lambda row=row, found=found: self._replace(row, found)):  # type: ignore[misc]
                return after
        raise StorageTrouble(str(StateConflict(pair=self._pair)))

    async def change_together(
        self, row_keys: Sequence[str], decide: Callable[[Sequence[Row | None]], Sequence[dict[str, Any]] | None]
    ) -> None:
        """Several rows as one: all are what was decided, or none, and none of them changed in between.

        `decide` is given the rows as they are and returns all of them as they shall be, or None to leave them.
        """
        for _ in range(CONFLICTS_MAX):
            found = [await self._call(lambda key=key: self._get(key)) for key in row_keys]  # type: ignore[misc]
            after = decide(found)
            if after is None:
                return
            keys = [{"PartitionKey": self._pair, "RowKey": key} for key in row_keys]
            rows = [{**key, **row} for key, row in zip(keys, after, strict=True)]
            if await self._call(lambda rows=rows, found=found: self._submit(rows, found)):  # type: ignore[misc]
                return
        raise StorageTrouble(str(StateConflict(pair=self._pair)))

    async def _submit(self, rows: Sequence[dict[str, Any]], found: Sequence[Row | None]) -> bool:
        """Whether nobody else was faster. Rows of one partition can change in one transaction."""
        operations: list[Any] = [
            ("create", row)
            if before is None
            else (
                "update",
                row,
                {
                    "mode": UpdateMode.REPLACE,
                    "etag": before.metadata["etag"],  # type: ignore[attr-defined]
                    "match_condition": MatchConditions.IfNotModified,
                },
            )
            for row, before in zip(rows, found, strict=True)
        ]
        try:
            await self._client.submit_transaction(operations)
        except HttpResponseError as error:
            if _is_missing_table(error) or error.status_code not in (404, 409, 412):
                raise
            return False
        return True

    async def _get(self, row_key: str) -> Row | None:
        try:
            return await self._client.get_entity(self._pair, row_key)
        except ResourceNotFoundError as error:
            if _is_missing_table(error):
                raise
            return None

    async def _replace(self, row: dict[str, Any], found: Row | None) -> bool:
        """Whether nobody else was faster."""
        try:
            if found is None:
                await self._client.create_entity(row)
            else:
                etag = found.metadata["etag"]  # type: ignore[attr-defined]
                await self._client.update_entity(
                    row, mode=UpdateMode.REPLACE, etag=etag, match_condition=MatchConditions.IfNotModified
                )
        except (ResourceExistsError, ResourceModifiedError):
            return False
        except ResourceNotFoundError as error:
            if _is_missing_table(error):
                raise
            return False
        return True

    async def _call(self, operation: Callable[[], Awaitable[T]]) -> T:
        """One operation in bounded time, creating the table when it is missing; any failure is StorageTrouble."""
        try:
            async with asyncio.timeout(OPERATION_SECONDS_MAX):
                try:
                    return await operation()
                except ResourceNotFoundError as error:
                    if not _is_missing_table(error):
                        raise
                await self._create_table()
                return await operation()
        except TimeoutError:
            raise StorageTrouble(f"no answer within {OPERATION_SECONDS_MAX:g} s") from None
        except ClientAuthenticationError as error:
            raise StorageTrouble("the table refused the app's credentials") from error
        except (AzureError, OSError) as error:
            raise StorageTrouble(_first_line(error)) from error

    async def _create_table(self) -> None:
        try:
            await self._client.create_table()
        except ResourceExistsError:
            return

    async def close(self) -> None:
        await self._client.close()


def _client(storage: StateStorage, credential: AsyncTokenCredential | None) -> TableClient:
    if storage.connection_string is not None:
        text = storage.connection_string.reveal()
        return TableClient.from_connection_string(text, TABLE_NAME, retry_total=_RETRIES)
    if credential is None:
        raise ValueError(f"{storage.setting} connects by identity, which needs a credential")
    return TableClient(storage.table_endpoint, TABLE_NAME, credential=credential, retry_total=_RETRIES)


def _is_missing_table(error: HttpResponseError) -> bool:
    return getattr(error, "error_code", None) == "TableNotFound" or "TableNotFound" in str(error)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200] or type(error).__name__
