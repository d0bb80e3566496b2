"""What is billed, and which key sits where: stories in, exact rows out."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.backlog import stays
from pipeline.costs import Usage
from pipeline.partitions import partition_keys, partition_load, partition_skew
from pipeline.usage import usage, usage_of
from shared.domain.pair import EntityPath
from shared.telemetry_events import Pinged, SetAside, TelemetryStarted
from tests.support.records import after, dead_lettered, failed, forwarded, frame, received, rows, sent, story

Row = dict[str, Any]


def key(name: str, partition: int) -> dict[str, Any]:
    return {"key_hash": name, "partition": partition}


STORIES = {
    # Twelve messages of a hot key and four of others, as expected; no receipts.
    "expected": [
        *[sent(n, f"h{n}", **key("hot", 5)) for n in range(12)],
        *[sent(20 + n, f"c{n}", body_bytes=200, **key(f"cold-{n}", n)) for n in range(3)],
        sent(30, "keyless"),
    ],
    # Receipts tell better: key `moved` was expected in 3, is in 9, and a keyless one in 15.
    "observed": [
        sent(0, "o1", **key("moved", 3)),
        received(1, "o1", partition=9),
        sent(2, "o2"),
        received(3, "o2", partition=15),
        received(4, "of-another-sender", partition=9),
    ],
    "plain": [sent(0, "p1", **key("one", 3)), received(1, "p1"), sent(2, "p2", **key("two", 0)), received(3, "p2")],
    "plain-keyless": [sent(0, "k1"), received(1, "k1"), sent(2, "k2"), received(3, "k2")],
    "never-keyed": [sent(0, "n1"), sent(1, "n2")],
    "order": [
        sent(0, "a1", queue=0, **key("broken", 1)),
        sent(5, "a2", **key("broken", 1)),
        sent(6, "a3", **key("broken", 1)),
        forwarded(10, "a1"),
        sent(10, "a4", **key("broken", 1)),
        sent(0, "b1", queue=0, **key("late", 2)),
        forwarded(10, "b1"),
        sent(11, "b2", **key("late", 2)),
        sent(0, "w1", queue=0, **key("waits", 2)),
        sent(999, "w2", **key("waits", 2)),
        sent(0, "s1", **key("straight", 2)),
    ],
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, list[Row]]:
    told = [one for path, events in STORIES.items() for one in story(path, *events)]
    events = frame(spark, *told).localCheckpoint()
    load, keys = partition_load(events).localCheckpoint(), partition_keys(events, stays(events)).localCheckpoint()
    frames = {"load": load, "keys": keys, "skew": partition_skew(events, load, keys)}
    return {name: [row.asDict() for row in table.collect()] for name, table in frames.items()}


def of(table: list[Row], entity: str, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in columns) for row in table if row["entity"] == entity)


def test_a_partitioned_entity_has_sixteen_rows_with_what_each_partition_holds(tables: dict[str, list[Row]]) -> None:
    busy = {0: (1, 200, 1, 1 / 15), 1: (1, 200, 1, 1 / 15), 2: (1, 200, 1, 1 / 15), 5: (12, 1200, 1, 12 / 15)}
    assert [("expected", index, *busy.get(index, (0, 0, 0, 0.0))) for index in range(16)] == of(
        tables["load"], "expected", "basis", "partition", "messages", "bytes", "keys", "share"
    )


def test_receipts_overrule_what_was_expected(tables: dict[str, list[Row]]) -> None:
    found = of(tables["load"], "observed", "basis", "partition", "messages", "keys")
    assert [("observed", 9, 2, 1), ("observed", 15, 1, 0)] == [row for row in found if row[2]]
    assert [("moved", 9, 1)] == of(tables["keys"], "observed", "key_hash", "partition", "partitions_seen")


def test_entities_without_partitions_are_left_out(tables: dict[str, list[Row]]) -> None:
    assert {"expected", "observed", "order"} == {row["entity"] for row in tables["load"]}


def test_skew_tells_the_hottest_partition_and_key(tables: dict[str, list[Row]]) -> None:
    (found,) = [row for row in tables["skew"] if row["entity"] == "expected"]
    assert {
        "entity": "expected",
        "basis": "expected",
        "messages": 15,
        "partitions_used": 4,
        "hottest_partition": 5,
        "hottest_share": 0.8,
        "skew": 12.8,
        "keys": 4,
        "hottest_key_share": 0.75,  # of all 16 messages
        "keys_diverted": 0,
        "keys_overtaken": 0,
        "overtaken": 0,
    } == {name: value for name, value in found.items() if name != "variation"}
    assert 3.0746 == round(found["variation"], 4)


def test_a_key_is_overtaken_by_what_goes_straight_while_an_older_one_waits(tables: dict[str, list[Row]]) -> None:
    assert [
        ("broken", 1, 2, "overtaken"),
        ("late", 1, 0, "delayed"),
        ("straight", 0, 0, "none"),
        ("waits", 1, 1, "overtaken"),
    ] == of(tables["keys"], "order", "key_hash", "diverted", "overtaken", "order_risk")


QUEUE = EntityPath("contoso/x-servicebus-transfer/0")


def test_usage_counts_everything_that_is_billed(spark: SparkSession) -> None:
    path = EntityPath("orders")
    events = frame(
        spark,
        TelemetryStarted(at=after(0), flush_seconds=0.5, backlog_queue_count=3, ping_primary_interval_seconds=30.0),
        sent(1, "1", seconds=0.5, body_bytes=70_000),
        sent(2, "2", seconds=0.25, body_bytes=0),
        failed(10),
        sent(10, "3", queue=0, seconds=5.25, body_bytes=65_537),
        sent(12, "4", queue=0, body_bytes=10, seconds=0.0),
        Pinged(at=after(20), path=path, succeeded=False, detail="", seconds=1.0),
        Pinged(at=after(50), path=path, succeeded=True, detail="", seconds=1.0, pings=16),
        SetAside(at=after(55), path=path, backlog_queue=QUEUE, messages=2),
        forwarded(60, "3", body_bytes=65_537),
        dead_lettered(70, "4"),
        ("b", sent(80, "5", seconds=0.0)),
        ("b", sent(100, "6", seconds=0.0)),
    )
    assert Usage(
        seconds=100.0,
        direct_messages=4,
        direct_steps=5,
        diverted_messages=2,
        diverted_steps=3,
        diverted_bytes=65_547,
        forwarded_messages=1,
        forwarded_steps=2,
        forwarded_bytes=65_537,
        dead_lettered=1,
        failed_attempts=1,
        set_aside=2,
        pings=17,
        ping_rounds=2,
        send_calls_seconds=6.0,
        instance_seconds=90.0,
        waiting_queue_seconds=60.0,
        queues_used=1,
        backlog_queue_count=3,
        ping_interval_seconds=30.0,
    ) == usage_of(usage(events, stays(events)))


def test_no_events_are_no_usage_and_no_partitions(spark: SparkSession) -> None:
    nothing = frame(spark)
    assert Usage() == usage_of(usage(nothing, stays(nothing)))
    assert [] == rows(partition_load(nothing), "entity")
