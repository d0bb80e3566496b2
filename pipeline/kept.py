"""What a stream has taken in: a folder of Parquet for each batch, with a note of what is in it.

A batch that is taken in again after a kill overwrites itself. Small batches are merged in time: the merged folder
appears whole, and while its parts are still there they are not looked at. A batch that is older than what the live view
keeps is let go.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from pipeline.errors import PipelineError

#: Single batches that may lie side by side before they are merged.
UNMERGED_MAX = 50
_NAME = re.compile(r"(\d{9})-(\d{9})")
NOTE = "_note.json"


@dataclass(frozen=True, kw_only=True)
class Note:
    """What is in one folder."""

    rows: int
    newest: datetime | None
    #: The newest record of all batches up to this one.
    newest_so_far: datetime | None = None
    #: Rows dropped by then because they came too late; they lie in folders of their own.
    late_so_far: int = 0
    #: Rows of batches that were behind the watermark by then. They are deleted when the next batch comes, not before:
    #: a batch that is done again after a kill must find what it counted.
    forgotten_so_far: int = 0


@dataclass(frozen=True, kw_only=True)
class Span:
    first: int
    last: int

    @property
    def name(self) -> str:
        return f"{self.first:09d}-{self.last:09d}"

    def holds(self, other: Span) -> bool:
        return self.first <= other.first and other.last <= self.last and self != other


class Kept:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "lines").mkdir(parents=True, exist_ok=True)

    def lines_of(self, span: Span) -> Path:
        return self._folder / "lines" / span.name

    def late_of(self, span: Span) -> Path:
        return self._folder / "late" / span.name

    def late_folders(self) -> list[Path]:
        return sorted((self._folder / "late").glob("*")) if (self._folder / "late").is_dir() else []

    def spans(self, *, before: int | None = None) -> list[Span]:
        """Complete folders that are not part of a larger one, in order."""
        found = [
            Span(first=int(name[1]), last=int(name[2]))
            for folder in (self._folder / "lines").iterdir()
            if (name := _NAME.fullmatch(folder.name)) and (folder / NOTE).exists()
        ]
        whole = [span for span in found if not any(other.holds(span) for other in found)]
        return sorted((span for span in whole if before is None or span.last < before), key=lambda span: span.first)

    def note(self, span: Span) -> Note:
        found = json.loads((self.lines_of(span) / NOTE).read_text())
        times = {name: found[name] and datetime.fromisoformat(found[name]) for name in ("newest", "newest_so_far")}
        return Note(**{**found, **times})

    def complete(self, span: Span, note: Note) -> None:
        """The note comes last: a folder without one is not there."""
        path = self.lines_of(span) / NOTE
        writing = path.with_name(f".{NOTE}")
        writing.write_text(json.dumps(asdict(note), default=lambda time: time.isoformat()))
        os.replace(writing, path)

    def let_go(self, spans: Iterable[Span]) -> None:
        for span in spans:
            # The note goes first, for the same reason.
            (self.lines_of(span) / NOTE).unlink(missing_ok=True)
            shutil.rmtree(self.lines_of(span), ignore_errors=True)


def check_owner(checkpoint: Path, events: str) -> None:
    """A checkpoint belongs to the folder of records that it was begun with."""
    owner = checkpoint / "events.txt"
    wanted = events if "://" in events else str(Path(events).resolve())
    if checkpoint.exists() and any(checkpoint.iterdir()) and not owner.exists():
        raise PipelineError(
            f"--checkpoint {checkpoint} holds something that is not ours; name a new or an empty folder"
        )
    if owner.exists() and owner.read_text() != wanted:
        raise PipelineError(f"--checkpoint {checkpoint} belongs to {owner.read_text()}; name another for {wanted}")
    checkpoint.mkdir(parents=True, exist_ok=True)
    owner.write_text(wanted)
