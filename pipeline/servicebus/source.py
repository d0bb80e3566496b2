"""The data source as Spark sees it: options in, readers and writers out; everything is checked on the driver."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pipeline.servicebus.errors import ColumnRefused, OptionRefused, SourceError
from pipeline.servicebus.given import Given, Use, read_given
from pipeline.servicebus.plans import plan_read, plan_write
from shared.composition import AUTHORITY_SETTING
from shared.connections.reader import Secret

if TYPE_CHECKING:
    from pipeline.servicebus.plans import ReadPlan, WritePlan


class ServiceBusDataSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        # Not kept as the base class would, since a dict shows its values to everybody who prints it.
        super().__init__({name: "***" for name in options})
        self._secrets = {name: Secret(value) for name, value in options.items()}

    @classmethod
    def name(cls) -> str:
        return "servicebus"

    def schema(self) -> StructType:
        from pipeline.servicebus.rows import SCHEMA

        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        from pipeline.servicebus.reading import BatchReader

        self._check_schema(schema)
        return BatchReader(self._plan_read(Use.READ))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            from pipeline.servicebus.stream_reading import StreamReader
        except ImportError as error:
            raise SourceError(f"reading a stream needs PySpark 4.2 or newer ({error})") from None

        self._check_schema(schema)
        return StreamReader(self._plan_read(Use.READ_STREAM))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pipeline.servicebus.writing import BatchWriter

        self._check_mode(overwrite)
        return BatchWriter(self._plan_write(Use.WRITE), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        try:
            from pipeline.servicebus.stream_writing import StreamWriter
        except ImportError as error:
            raise SourceError(f"writing a stream needs PySpark 4.1 or newer ({error})") from None

        self._check_mode(overwrite)
        return StreamWriter(self._plan_write(Use.WRITE_STREAM), schema)

    def _plan_read(self, use: Use) -> ReadPlan:
        return plan_read(self._given(use), os.environ.get(AUTHORITY_SETTING) or None)

    def _plan_write(self, use: Use) -> WritePlan:
        return plan_write(self._given(use), os.environ.get(AUTHORITY_SETTING) or None)

    def _given(self, use: Use) -> Given:
        return read_given({name: value.reveal() for name, value in self._secrets.items()}, os.environ, use)

    def _check_schema(self, schema: StructType) -> None:
        if schema != self.schema():
            raise ColumnRefused("the columns of a message are given: leave out .schema(...) and select from them")

    def _check_mode(self, overwrite: bool) -> None:
        if overwrite:
            raise OptionRefused(
                "mode overwrite (complete, of a stream) is refused: messages are not replaced; use append"
            )
