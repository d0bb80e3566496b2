"""The last events tell the story of an outage however many sends it had, in bounded memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from shared.adapters.recent_events import SAME_WITHIN, RecentEvents
from shared.domain.pair import EntityPath
from shared.telemetry_events import AvailabilityChanged, Pinged, SendAccepted, TelemetryEvent

AT = datetime(2026, 11, 18, 10, 42, tzinfo=UTC)
ORDERS = EntityPath("orders")


def diverted(seconds: float = 0.0, path: EntityPath = ORDERS) -> SendAccepted:
    at = AT + timedelta(seconds=seconds)
    queue = EntityPath("contoso/x-servicebus-transfer/0")
    return SendAccepted(at=at, path=path, message_id="m", backlog_queue=queue, seconds=0.01, body_bytes=1)


def changed(after: str, seconds: float = 0.0) -> AvailabilityChanged:
    at = AT + timedelta(seconds=seconds)
    return AvailabilityChanged(at=at, path=ORDERS, before="available", after=after, reason="time-out")


def recent(*events: TelemetryEvent, limit: int = 200) -> RecentEvents:
    noted = RecentEvents(limit)
    for event in events:
        noted.emit(event)
    return noted


def test_thousands_of_sends_do_not_push_out_what_tells_the_story() -> None:
    noted = recent(changed("unavailable"), *(diverted(number / 100) for number in range(2000)), limit=3)
    assert [("send.accepted", 2000), ("availability.changed", 1)] == [
        (one.event.name, one.times) for one in noted.after(0)
    ]
    assert {"send.accepted": 2000, "availability.changed": 1} == noted.counts


def test_a_reader_gets_what_is_new_and_knows_an_entry_again() -> None:
    noted = recent(diverted(0), changed("suspect", 1))
    (first,) = [one for one in noted.after(0) if one.event.name == "send.accepted"]
    seen = noted.number
    assert [] == noted.after(seen)
    noted.emit(diverted(2))
    (again,) = noted.after(seen)
    assert (first.id, 2, AT) == (again.id, again.times, again.first_at)


def test_changes_of_state_are_told_one_by_one() -> None:
    noted = recent(changed("unavailable"), changed("unavailable", 1))
    assert [1, 1] == [one.times for one in noted.after(0)]


def test_the_like_of_long_ago_is_another_entry() -> None:
    late = SAME_WITHIN.total_seconds() + 1
    noted = recent(diverted(0), diverted(1), diverted(1 + late), diverted(2 + late))
    assert [2, 2] == [one.times for one in noted.after(0)]


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    noted = recent(*(diverted(path=EntityPath(f"entity-{number}")) for number in range(500)), limit=10)
    assert [f"entity-{number}" for number in range(499, 489, -1)] == [event.path for event in noted.latest()]  # type: ignore[union-attr]


def test_an_entry_as_json_has_its_event_and_no_time_that_json_cannot_hold() -> None:
    pinged = Pinged(at=AT, path=ORDERS, succeeded=False, detail="refused", seconds=0.5)
    (one,) = recent(pinged).after(0)
    when = "2026-11-18T10:42:00+00:00"
    head = {"id": 1, "number": 1, "event": "entity.pinged", "times": 1, "first_at": when}
    body = {"at": when, "path": "orders", "succeeded": False, "detail": "refused", "seconds": 0.5, "pings": 1}
    assert head | body == one.as_json()
