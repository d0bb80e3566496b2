"""The factories of a pair in Table Storage: a row for each side, both of them changed in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shared.adapters.table_rows import Row, factory_of, factory_row, factory_row_key
from shared.adapters.tables import TableStateStore
from shared.domain.factory import Factories, Factory
from shared.domain.pair import Side

_ROW_KEYS = [factory_row_key(side) for side in (Side.PRIMARY, Side.SECONDARY)]


class TableFactoryStore:
    def __init__(self, table: TableStateStore) -> None:
        self._table = table

    async def load(self) -> Factories:
        before, _ = await self.change(lambda factories: factories)
        return before

    async def change(self, decide: Callable[[Factories], Factories]) -> tuple[Factories, Factories]:
        before = after = Factories()

        def decide_rows(rows: Sequence[Row | None]) -> list[dict[str, Any]] | None:
            nonlocal before, after
            primary, secondary = (Factory() if row is None else factory_of(row) for row in rows)
            before = Factories(primary=primary, secondary=secondary)
            after = decide(before)
            # The row that stays as it is is written too: what was decided holds only while neither has changed.
            return None if after == before else [factory_row(after.primary), factory_row(after.secondary)]

        await self._table.change_together(_ROW_KEYS, decide_rows)
        return before, after
