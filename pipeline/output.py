"""A folder of results appears whole or not at all: written beside its place under a hidden name, then renamed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import PipelineError

#: The file that says that a folder is ours and may be replaced.
MARK = "summary.json"


def checked_output(out: str, events: str | None, *, mark: str = MARK) -> Path:
    """The folder to write to, if that does no harm."""
    if "://" in out:
        raise PipelineError(f"--out {out} is no local folder (or mount), and results are renamed into their place")
    target = Path(out).resolve()
    source = None if events is None or "://" in events else Path(events).resolve()
    if source and (target == source or target in source.parents or source in target.parents):
        raise PipelineError(f"--out {out} and --events {events} lie in each other; choose a folder apart")
    if target.exists() and not target.is_dir():
        raise PipelineError(f"--out {out} is a file; name a folder")
    if target.is_dir() and any(target.iterdir()) and not (target / mark).exists():
        raise PipelineError(f"--out {out} holds something that is not ours (no {mark}); name a new or an empty folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PipelineError(f"--out {out} cannot be made: {error.strerror}") from None
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PipelineError(f"--out {out} cannot be made: {target.parent} is not writable")
    return target


@contextlib.contextmanager
def appears_whole(target: Path) -> Iterator[Path]:
    """Where to write. Afterwards it is at its place, and what was there is gone; after an error nothing changed."""
    writing = target.with_name(f".{target.name}.{os.getpid()}.writing")
    before = target.with_name(f".{target.name}.{os.getpid()}.before")
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir()
    try:
        yield writing
        if target.exists():
            target.rename(before)
        try:
            writing.rename(target)
        except OSError:
            if before.exists():
                before.rename(target)
            raise
    finally:
        shutil.rmtree(writing, ignore_errors=True)
        shutil.rmtree(before, ignore_errors=True)
