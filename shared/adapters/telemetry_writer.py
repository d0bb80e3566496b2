"""Telemetry to files, off the hot path: emitting appends to a buffer, and a thread of its own does the rest.

The buffer is bounded. While it is full, events are dropped and counted, and the count is an event of its own as soon as
there is room. A killed process loses what it did not flush, at most FLUSH_SECONDS of events.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
import weakref
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from shared.adapters.telemetry_files import (
    UNPUBLISHED_FILES_MAX,
    FolderPublisher,
    OpenFile,
    Publisher,
    PublishFailed,
    file_name,
    leftovers,
)
from shared.ports import Clock, Telemetry
from shared.telemetry_events import EventsDropped, TelemetryEvent, TelemetryStarted, TelemetryStopped, as_line

_LOGGER = logging.getLogger(__name__)

FLUSH_SECONDS = 0.5
LINES_AT_ONCE_MAX = 5_000
#: How long closing waits for the last file to be published.
CLOSE_SECONDS_MAX = 10.0


@dataclass(frozen=True, kw_only=True)
class WriterOptions:
    folder: Path
    file_bytes_max: int = 32 * 1024 * 1024
    file_age_max: timedelta = timedelta(minutes=1)
    buffer_events_max: int = 100_000
    #: What the first event says of the app, for reports.
    backlog_queue_count: int | None = None
    ping_primary_interval: timedelta | None = None


class TelemetryWriter:
    wants_every_send = True

    def __init__(
        self,
        options: WriterOptions,
        *,
        instance: str,
        clock: Clock,
        publisher: Publisher | None = None,
        also: Telemetry | None = None,
    ) -> None:
        """`also` is told of drops: those who read the files learn of them too late to do anything about it."""
        self._options = options
        self._instance = instance
        self._clock = clock
        self._publisher = publisher or FolderPublisher(options.folder)
        self._also = also
        self._buffer: deque[TelemetryEvent] = deque()
        self._buffer_max = options.buffer_events_max
        self._hurry_from = max(1, self._buffer_max // 2)
        self._dropped = 0
        self._sequence = 0
        self._files = 0
        self._open: OpenFile | None = None
        self._closed_files: deque[tuple[Path, str, int]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._buffer.append(self._started())

    # -- the hot path

    def emit(self, event: TelemetryEvent) -> None:
        waiting = len(self._buffer)
        if waiting >= self._buffer_max:
            self._dropped += 1
            return
        self._buffer.append(event)
        if self._thread is None:
            self._start()
        elif waiting == self._hurry_from:
            self._wake.set()

    # -- the life of the thread

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="telemetry writer", daemon=True)
                self._thread.start()
                _WRITING.add(self)

    async def close(self) -> None:
        self.stop()

    def stop(self) -> None:
        """Everything emitted so far is in a published file afterwards, unless publishing fails."""
        self._stopping = True
        thread = self._thread
        if thread is None:
            return
        self._wake.set()
        thread.join(CLOSE_SECONDS_MAX)
        if thread.is_alive():
            _LOGGER.error("telemetry: the last file is not published after %s s", CLOSE_SECONDS_MAX)

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            self._options.folder.mkdir(parents=True, exist_ok=True)
        self._closed_files.extend((path, name, 0) for path, name in leftovers(self._options.folder))
        while not self._stopping:
            self._wake.wait(FLUSH_SECONDS)
            self._wake.clear()
            self._guarded_round()
        self._buffer.append(TelemetryStopped(at=self._clock.now()))
        self._guarded_round(last=True)
        self._publisher.close()

    def _guarded_round(self, *, last: bool = False) -> None:
        try:
            self._write_buffer()
            self._rotate(at_once=last)
        except OSError as error:
            self._give_up_open_file()
            _LOGGER.error("telemetry cannot be written to %s: %s", self._options.folder, error.strerror or error)
        self._publish()

    # -- writing

    def _write_buffer(self) -> None:
        while self._buffer:
            lines: list[str] = []
            while self._buffer and len(lines) < LINES_AT_ONCE_MAX:
                lines.append(self._line(self._buffer.popleft()))
            dropped, self._dropped = self._dropped, 0
            if dropped:
                _LOGGER.warning("telemetry: the buffer was full, %s events are dropped", dropped)
                event = EventsDropped(at=self._clock.now(), events=dropped)
                lines.append(self._line(event))
                if self._also is not None:
                    self._also.emit(event)
            self._write(lines)

    def _write(self, lines: list[str]) -> None:
        if self._open is None:
            self._files += 1
            name = file_name(self._clock.now(), self._instance, self._files)
            self._open = OpenFile(self._options.folder, name, time.monotonic())
        try:
            self._open.write(lines)
        except OSError:
            self._dropped += len(lines)
            raise
        self._rotate()

    def _line(self, event: TelemetryEvent) -> str:
        line = as_line(event, instance=self._instance, sequence=self._sequence)
        self._sequence += 1
        return line

    def _rotate(self, *, at_once: bool = False) -> None:
        file = self._open
        if file is None:
            return
        age = time.monotonic() - file.opened_at
        is_due = file.bytes >= self._options.file_bytes_max or age >= self._options.file_age_max.total_seconds()
        if at_once or is_due:
            self._open = None
            file.close()
            self._closed_files.append((file.path, file.name, file.lines))

    def _give_up_open_file(self) -> None:
        """What is in it is kept: it is published with the others, or found by the next writer."""
        file, self._open = self._open, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
            self._closed_files.append((file.path, file.name, file.lines))

    def _publish(self) -> None:
        while self._closed_files:
            path, name, lines = self._closed_files[0]
            try:
                self._publisher.publish(path, name)
            except PublishFailed as error:
                _LOGGER.error("telemetry: %s is not published yet: %s", name, error)
                if len(self._closed_files) > UNPUBLISHED_FILES_MAX:
                    self._closed_files.popleft()
                    self._dropped += lines
                return
            self._closed_files.popleft()

    def _started(self) -> TelemetryStarted:
        interval = self._options.ping_primary_interval
        return TelemetryStarted(
            at=self._clock.now(),
            flush_seconds=FLUSH_SECONDS,
            backlog_queue_count=self._options.backlog_queue_count,
            ping_primary_interval_seconds=None if interval is None else interval.total_seconds(),
        )



#: Writers whose last file is published when the process ends in an orderly way and nobody closed them.
_WRITING: weakref.WeakSet[TelemetryWriter] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for writer in list(_WRITING):
        writer.stop()
