"""The proof says no more than the records do: every hole in them is named."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from pipeline.instances import instances, summary_of_instances
from pipeline.proof import HOLES, proof
from pipeline.schemas import EVENTS
from shared.telemetry_events import EventsDropped, TelemetryEvent, TelemetryStarted, TelemetryStopped

SOUND = {"accepted": 10, "lost": 0, "on_the_brokers_word": 0}
START = datetime(2026, 11, 18, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        ({}, "proved"),
        ({"on_the_brokers_word": 3}, "acknowledged"),
        ({"killed_instances": 1, "on_the_brokers_word": 3}, "incomplete"),
        ({"lost": 2, "killed_instances": 1}, "lost"),
    ],
)
def test_the_worst_that_is_known_is_the_word(found: dict[str, int], word: str) -> None:
    assert word == proof({**SOUND, **found})["word"]


@pytest.mark.parametrize("hole", HOLES)
def test_every_hole_is_counted_and_told(hole: str) -> None:
    told = proof({**SOUND, hole: 1_234})
    assert "incomplete" == told["word"]
    assert [(hole, 1_234)] == [(one["kind"], one["count"]) for one in told["holes"]]
    assert "1,234" in told["sentence"]


def test_records_that_are_missing_repeated_or_dropped_are_counted_for_each_writer(spark: SparkSession) -> None:
    """Numbers around 64 and 128, since they are counted in rows of 64."""

    def row(instance: str, number: int, event: TelemetryEvent) -> tuple[object, ...]:
        fields = {"v": 1, "event": event.name, "instance": instance, "seq": number}
        fields |= {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
        return tuple(fields.get(name) for name in EVENTS.names)

    started = TelemetryStarted(at=START, flush_seconds=0.5)
    stopped = TelemetryStopped(at=START + timedelta(hours=1))
    dropped = EventsDropped(at=START, events=5)
    whole = [row("whole", 0, started), *(row("whole", number, dropped) for number in (1, 2)), row("whole", 3, stopped)]
    holes = [row("holes", number, started) for number in (0, 62, 63, 64, 64, 64, 127, 130)]
    table = instances(spark.createDataFrame([*whole, *holes], EVENTS)).cache()
    columns = ("instance", "records", "repeated", "missing", "dropped", "stopped")
    assert {("whole", 4, 0, 0, 10, True), ("holes", 8, 2, 125, 0, False)} == {
        tuple(found[name] for name in columns) for found in table.collect()
    }
    summary = summary_of_instances(table)
    assert (10, 2, 125, 10, 1) == tuple(
        summary[name]
        for name in ("events", "repeated_records", "missing_records", "dropped_events", "killed_instances")
    )
