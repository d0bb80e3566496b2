"""Records as the app writes them, as rows of a Spark frame: built from the events themselves, so they cannot drift."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pipeline.schemas import EVENTS
from shared.domain.pair import EntityPath
from shared.telemetry_events import (
    AvailabilityChanged,
    DeadLettered,
    FailureCounted,
    Forwarded,
    MessageReceived,
    SendAccepted,
    SendRefused,
    TelemetryEvent,
    as_line,
)

NOON = datetime(2026, 11, 18, 12, 0, 0, tzinfo=UTC)
_TIMES = frozenset({"at", "since", "until", "enqueued_at"})


def after(seconds: float) -> datetime:
    """So many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def naive(seconds: float) -> datetime:
    """The same, as Spark hands it back: without a zone, in that of the machine."""
    return after(seconds).astimezone().replace(tzinfo=None)


def frame(spark: SparkSession, *events: TelemetryEvent | tuple[str, TelemetryEvent]) -> DataFrame:
    """Events of instance `a`, or of the instance named beside them; numbered in the order given."""
    return spark.createDataFrame([_row(*_named(one), number) for number, one in enumerate(events)], EVENTS)


def _named(one: TelemetryEvent | tuple[str, TelemetryEvent]) -> tuple[str, TelemetryEvent]:
    return one if isinstance(one, tuple) else ("a", one)


def _row(instance: str, event: TelemetryEvent, number: int) -> tuple[Any, ...]:
    record = json.loads(as_line(event, instance=instance, sequence=number))
    return tuple(
        datetime.fromisoformat(record[name]) if name in _TIMES and name in record else record.get(name)
        for name in EVENTS.names
    )


# -- events in short


def sent(
    at: float, message_id: str, *, path: str = "orders", queue: int | None = None, seconds: float = 0.01, **more: Any
) -> SendAccepted:
    backlog_queue = None if queue is None else EntityPath(f"contoso/x-servicebus-transfer/{queue}")
    more.setdefault("body_bytes", 100)
    return SendAccepted(
        at=after(at), path=EntityPath(path), message_id=message_id, backlog_queue=backlog_queue, seconds=seconds, **more
    )


def refused(at: float, *, path: str = "orders", reason: str = "PrimaryFailed", seconds: float = 5.0) -> SendRefused:
    return SendRefused(at=after(at), path=EntityPath(path), message_id=f"r{at}", reason=reason, seconds=seconds)


def failed(at: float, *, path: str = "orders") -> FailureCounted:
    return FailureCounted(at=after(at), path=EntityPath(path), failure="timeout", detail="no answer")


def turned(at: float, before: str, now: str, *, path: str = "orders", reason: str = "") -> AvailabilityChanged:
    return AvailabilityChanged(at=after(at), path=EntityPath(path), before=before, after=now, reason=reason)


def forwarded(at: float, message_id: str, *, path: str = "orders", queue: int = 0, **more: Any) -> Forwarded:
    more.setdefault("waited_seconds", 1.0)
    return Forwarded(
        at=after(at),
        path=EntityPath(path),
        message_id=message_id,
        backlog_queue=EntityPath(f"contoso/x-servicebus-transfer/{queue}"),
        **more,
    )


def dead_lettered(at: float, message_id: str, *, path: str | None = "orders", queue: int = 0) -> DeadLettered:
    return DeadLettered(
        at=after(at),
        message_id=message_id,
        backlog_queue=EntityPath(f"contoso/x-servicebus-transfer/{queue}"),
        reason="TTLExpiredException",
        description="it waited too long",
        path=None if path is None else EntityPath(path),
    )


def received(
    at: float, message_id: str, *, path: str = "orders", partition: int = 0, number: int = 1
) -> MessageReceived:
    return MessageReceived(
        at=after(at), path=EntityPath(path), message_id=message_id, sequence_number=(partition << 48) + number
    )


def rows(table: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """All rows, in the order of the named columns."""
    return sorted((tuple(row) for row in table.select(*columns).collect()), key=_order)


def _order(row: Iterable[Any]) -> list[tuple[bool, str]]:
    return [(value is not None, f"{value:020.6f}" if isinstance(value, int | float) else str(value)) for value in row]


def story(path: str, *events: TelemetryEvent | tuple[str, TelemetryEvent]) -> list[tuple[str, TelemetryEvent]]:
    """The events moved to an entity of their own, and to instances of its own: many stories share one frame.

    Spark takes seconds for any frame and hardly longer for ten stories in it.
    """
    moved = []
    for instance, event in map(_named, events):
        own = getattr(event, "path", None)
        about: dict[str, Any] = {} if own is None else {"path": EntityPath(own.replace("orders", path, 1))}
        moved.append((f"{path}-{instance}", dataclasses.replace(event, **about)))
    return moved
