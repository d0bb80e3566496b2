"""The page about the source: its examples run, and its tables name every option and column there is."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipeline.servicebus.columns import COLUMNS
from pipeline.servicebus.given import OWN
from pipeline.servicebus.rows import SCHEMA
from tests.support.app_process import ROOT
from tests.support.spark_pair import SparkPair

PAGE = (ROOT / "docs" / "spark-source.md").read_text()


def test_the_examples_run(spark: SparkSession, bus: SparkPair, tmp_path: Path) -> None:
    bus.create_entities("orders", "inspection")
    names: dict[str, Any] = {"spark": spark, "settings": bus.options(), "checkpoint": str(tmp_path)}
    register, write, read, stream = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(register, names)
    exec(write, names)
    assert Counter(["order-1", "order-2"]) == bus.ids("orders")
    bus.dead_letter("orders", 2, reason="a reason")
    exec(read, names)
    reasons = {row.message_id: row.dead_letter_reason for row in names["reasons"].collect()}
    assert {"order-1": "a reason", "order-2": "a reason"} == reasons
    exec(stream, names)
    assert Counter(["order-1", "order-2"]) == bus.ids("inspection")


def test_every_option_and_column_is_on_the_page() -> None:
    named = set(re.findall(r"`([A-Za-z_]+)`", PAGE))
    assert set() == {*OWN, *COLUMNS, *SCHEMA.names} - named
