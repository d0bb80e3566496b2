"""The source registered with Spark, and a pair of namespaces it can reach."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipeline.servicebus.source import ServiceBusDataSource
from tests.support.send_fixtures import pair, storage
from tests.support.spark_pair import SparkPair, spark_pair

__all__ = ["pair", "storage"]

# Spark starts other Pythons, for the driver's side of a source and for its tasks: they are to be this one.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


@pytest.fixture(scope="session")
def source(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(ServiceBusDataSource)
    return spark


@pytest.fixture
def bus(storage: str) -> Iterator[SparkPair]:
    with spark_pair(storage) as pair:
        yield pair
