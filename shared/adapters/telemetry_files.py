"""Files of telemetry: lines under a hidden name, published closed, in a folder for each date and hour.

Whoever reads the folder (Spark reads a file once and never looks again) ignores names that begin with a dot, so it sees
a file only when nothing more will be written to it. The hidden file is locked while its writer lives: one that can be
locked belongs to a writer that was killed, and the next writer publishes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Protocol

SUFFIX = ".jsonl"
OPEN_PREFIX = ".open-"
#: Closed files that could not be published yet; beyond that the oldest is given up, and its lines count as dropped.
UNPUBLISHED_FILES_MAX = 1_000
LEFTOVERS_MAX = 1_000


class PublishFailed(Exception):
    """The file could not be brought to where it is read from; it is tried again."""


class Publisher(Protocol):
    """Brings a closed file to where it is read from."""

    def publish(self, file: Path, name: str) -> None:
        """`name` is date/hour/file; the file is gone from its place afterwards. PublishFailed: it is still there."""
        ...

    def close(self) -> None: ...


class FolderPublisher:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def publish(self, file: Path, name: str) -> None:
        target = self._folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)
        except OSError as error:
            raise PublishFailed(f"{target} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        pass


class OpenFile:
    """The file that is being written."""

    def __init__(self, folder: Path, name: str, opened_at: float) -> None:
        self.name = name
        self.opened_at = opened_at
        self.lines = 0
        self.bytes = 0
        self.path = folder / f"{OPEN_PREFIX}{name.replace('/', '_')}"
        self._file: TextIOWrapper = self.path.open("a", encoding="utf-8", newline="\n")
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, lines: list[str]) -> None:
        text = "".join(lines)
        self._file.write(text)
        self._file.flush()
        self.lines += len(lines)
        self.bytes += len(text)

    def close(self) -> None:
        self._file.flush()
        with contextlib.suppress(OSError):  # a file system without it: the rename still comes after the data
            os.fsync(self._file.fileno())
        self._file.close()


def file_name(at: datetime, instance: str, number: int) -> str:
    """date=2026-11-18/hour=09/instance-000001.jsonl, which Spark understands as partitions."""
    return f"date={at:%Y-%m-%d}/hour={at:%H}/{instance}-{number:06d}{SUFFIX}"


def leftovers(folder: Path) -> Iterator[tuple[Path, str]]:
    """Hidden files whose writer is gone, with the names to publish them under."""
    for _, path in zip(range(LEFTOVERS_MAX), sorted(folder.glob(f"{OPEN_PREFIX}*{SUFFIX}")), strict=False):
        if _is_abandoned(path):
            yield path, path.name.removeprefix(OPEN_PREFIX).replace("_", "/", 2)


def _is_abandoned(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
