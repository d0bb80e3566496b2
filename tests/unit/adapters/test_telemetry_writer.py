"""Records reach files that are complete when they can be seen, and what does not reach them is counted."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.adapters.recent_events import RecentEvents
from shared.adapters.system_clock import SystemClock
from shared.adapters.telemetry_files import FolderPublisher, PublishFailed
from shared.adapters.telemetry_sinks import Fanout
from shared.adapters.telemetry_writer import TelemetryWriter, WriterOptions
from shared.domain.pair import EntityPath
from shared.domain.partitions import entity_of, key_lane
from shared.telemetry_events import (
    AvailabilityChanged,
    EventsDropped,
    SendAccepted,
    StateStorageChanged,
    TelemetryEvent,
    as_line,
    key_hash_of,
)

AT = datetime(2026, 11, 18, 9, 59, 59, 5, tzinfo=UTC)
SECONDS_MAX = 20.0


def accepted(number: int, **changes: Any) -> SendAccepted:
    fields = {"path": EntityPath("orders"), "message_id": f"m{number}", "backlog_queue": None, **changes}
    return SendAccepted(at=AT, seconds=0.01, body_bytes=5, **fields)


def writer(folder: Path, **options: Any) -> TelemetryWriter:
    publisher, also = options.pop("publisher", None), options.pop("also", None)
    return TelemetryWriter(
        WriterOptions(folder=folder, **options), instance="one", clock=SystemClock(), publisher=publisher, also=also
    )


def published(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("date=*/hour=*/*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_record_about_a_key_does_not_tell_the_key() -> None:
    lanes = [key_lane(EntityPath("orders"), key) for key in ("customer-7", "customer-8")]
    events = [AvailabilityChanged(at=AT, path=lane, before="a", after="b", reason="") for lane in lanes]
    lines = [as_line(event, instance="a", sequence=0) for event in events]
    assert not any("customer" in line for line in lines)
    paths = {json.loads(line)["path"] for line in lines}
    assert 2 == len(paths)
    assert {"orders"} == {entity_of(path) for path in paths}



def test_a_record_holds_version_name_instance_number_and_fields_but_no_key() -> None:
    event = accepted(1, key_hash=key_hash_of("customer-7"), partition=3)
    record = json.loads(as_line(event, instance="a", sequence=4))
    assert {"v": 1, "event": "send.accepted", "instance": "a", "seq": 4} == {
        name: record[name] for name in ("v", "event", "instance", "seq")
    }
    assert ("2026-11-18T09:59:59.000005+00:00", 3) == (record["at"], record["partition"])
    assert "customer-7" not in json.dumps(record)


def test_everything_emitted_before_stop_is_published_in_order(tmp_path: Path) -> None:
    one = writer(tmp_path)
    for number in range(12_000):
        one.emit(accepted(number))
    one.stop()
    records = published(tmp_path)
    assert list(range(12_002)) == [record["seq"] for record in records]
    assert ["telemetry.started", "telemetry.stopped"] == [records[0]["event"], records[-1]["event"]]
    assert [f"m{number}" for number in range(12_000)] == [record["message_id"] for record in records[1:-1]]
    assert [] == list(tmp_path.glob(".open*"))


def test_a_file_that_can_be_seen_is_never_written_again(tmp_path: Path) -> None:
    one = writer(tmp_path, file_bytes_max=1_000)
    sizes: dict[Path, int] = {}
    for number in range(300):
        one.emit(accepted(number))
        for file in tmp_path.glob("date=*/hour=*/*.jsonl"):
            assert sizes.setdefault(file, file.stat().st_size) == file.stat().st_size
    one.stop()
    assert len(list(tmp_path.glob("date=*/hour=*/*.jsonl"))) >= 1
    assert 302 == len(published(tmp_path))


def test_a_file_is_published_when_it_is_old_enough_though_small(tmp_path: Path) -> None:
    one = writer(tmp_path, file_age_max=timedelta(milliseconds=1))
    one.emit(accepted(1))
    wait_for(lambda: len(published(tmp_path)) == 2)
    one.stop()


class Blocked:
    """Publishing that waits until the test lets it."""

    def __init__(self, folder: Path) -> None:
        self.folder = FolderPublisher(folder)
        self.reached, self.open = threading.Event(), threading.Event()

    def publish(self, file: Path, name: str) -> None:
        self.reached.set()
        assert self.open.wait(SECONDS_MAX)
        self.folder.publish(file, name)

    def close(self) -> None:
        self.folder.close()


def test_a_full_buffer_drops_and_counts_and_never_blocks(tmp_path: Path) -> None:
    publisher = Blocked(tmp_path)
    told = RecentEvents()
    one = writer(tmp_path, buffer_events_max=100, file_bytes_max=1, publisher=publisher, also=told)
    one.emit(accepted(0))
    assert publisher.reached.wait(SECONDS_MAX)
    for number in range(1, 1_000):
        one.emit(accepted(number))
    publisher.open.set()
    wait_for(lambda: [record for record in published(tmp_path) if record["event"] == "telemetry.dropped"])
    one.stop()
    records = published(tmp_path)
    sends = [record for record in records if record["event"] == "send.accepted"]
    dropped = sum(record["events"] for record in records if record["event"] == "telemetry.dropped")
    assert (101, 1_000) == (len(sends), len(sends) + dropped)
    assert [dropped] == [event.events for event in told.latest() if isinstance(event, EventsDropped)]
    assert list(range(len(records))) == sorted(record["seq"] for record in records)


class Broken:
    """Publishing that fails a number of times."""

    def __init__(self, folder: Path, failures: int) -> None:
        self.folder, self.failures = FolderPublisher(folder), failures

    def publish(self, file: Path, name: str) -> None:
        if self.failures:
            self.failures -= 1
            raise PublishFailed("not now")
        self.folder.publish(file, name)

    def close(self) -> None:
        self.folder.close()


def test_a_file_that_cannot_be_published_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = writer(tmp_path, file_bytes_max=1, publisher=Broken(tmp_path, 2))
    one.emit(accepted(1))
    wait_for(lambda: len(published(tmp_path)) == 2)
    one.stop()
    assert 3 == len(published(tmp_path))
    assert "not published yet: not now" in caplog.text


def test_what_a_killed_writer_left_is_published_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / ".open-date=2026-11-18_hour=09_dead-000001.jsonl"
    left.write_text(as_line(accepted(1), instance="dead", sequence=0))
    one = writer(tmp_path)
    one.emit(accepted(2))
    one.stop()
    assert {"dead", "one"} == {record["instance"] for record in published(tmp_path)}
    assert (tmp_path / "date=2026-11-18" / "hour=09" / "dead-000001.jsonl").exists()


def test_the_open_file_of_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    living = writer(tmp_path)
    living.emit(accepted(1))
    wait_for(lambda: list(tmp_path.glob(".open*")))
    other = writer(tmp_path)
    other._instance = "two"
    other.emit(accepted(2))
    other.stop()
    assert {"two"} == {record["instance"] for record in published(tmp_path)}
    living.stop()


def test_an_unusable_folder_is_logged_and_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    one = writer(tmp_path / "file")
    one.emit(accepted(1))
    one.stop()
    assert "telemetry cannot be written to" in caplog.text


def test_plain_sends_go_only_to_sinks_that_want_every_send() -> None:
    class Eager(RecentEvents):
        wants_every_send = True

    eager, calm = Eager(), RecentEvents(limit=2)
    both = Fanout([eager, calm])
    events: list[TelemetryEvent] = [
        accepted(1),
        accepted(2, possible_duplicate=True),
        accepted(3, backlog_queue=EntityPath("b/0")),
        StateStorageChanged(at=AT, reachable=False, reason="gone"),
    ]
    for event in events:
        both.emit(event)
    assert both.wants_every_send
    assert events[::-1] == eager.latest()
    assert [events[3], events[2]] == calm.latest()
    assert [events[3]] == calm.latest(1)
    assert not Fanout([calm]).wants_every_send
