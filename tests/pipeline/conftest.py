"""One Spark for all tests of the pipeline in a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.session import spark_session, use_java
from tests.support.optional import unavailable

#: Starts sooner, and small data never gets hot enough for the second compiler.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: The first test of a run waits for Spark to start as well, on a busy machine for a minute.
SECONDS_MAX = 300
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    # Compiling a query takes longer than running it on a few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("timeout") is None and item.get_closest_marker("soak") is None:
        item.add_marker(pytest.mark.timeout(SECONDS_MAX))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    try:
        use_java()
    except PipelineError as error:
        unavailable(str(error))
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = spark_session(
        name="tests",
        master="local[2]",
        java_options=JAVA_OPTIONS,
        settings={**SETTINGS, "spark.sql.warehouse.dir": warehouse.as_uri()},
    )
    yield session
    session.stop()
