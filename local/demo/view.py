"""Two ways to watch: one live picture where somebody sits at a terminal, plain lines anywhere else."""

from __future__ import annotations

from typing import Protocol, TextIO

from rich.console import Console

from local.demo.board import Note, Snapshot
from local.demo.figures import Outcome, figures
from local.demo.picture import LiveScreen
from local.demo.schedule import Phase

PROGRESS_EVERY_S = 5.0


class View(Protocol):
    def note(self, note: Note) -> None: ...

    def show(self, snapshot: Snapshot) -> None: ...

    def close(self) -> None:
        """Nothing more is shown after it but the verdict."""
        ...

    def verdict(self, outcome: Outcome) -> None: ...


class PlainView:
    """One line for everything that happens, and one now and then for how it goes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next_s = PROGRESS_EVERY_S

    def note(self, note: Note) -> None:
        self._line(f"{note.at_s:6.1f} s  {note.text}")

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.elapsed_s < self._next_s or snapshot.phase is Phase.REPORT:
            return
        self._next_s = snapshot.elapsed_s + PROGRESS_EVERY_S
        states = ", ".join(f"{row.path} {row.state}" for row in snapshot.rows)
        self._line(
            f"{snapshot.elapsed_s:6.1f} s  [{snapshot.phase.value}] sent {snapshot.sent}, "
            f"accepted {snapshot.accepted} ({snapshot.accepted_per_s:.0f}/s), "
            f"delivered {snapshot.delivered} ({snapshot.delivered_per_s:.0f}/s), waiting {snapshot.waiting}, "
            f"refusals {snapshot.refusals}, longest send {snapshot.longest_send_s:.2f} s; {states}"
        )

    def close(self) -> None:
        pass

    def verdict(self, outcome: Outcome) -> None:
        self._line("")
        for label, value in figures(outcome):
            self._line(f"  {label:<14} {value}")
        self._line("")
        self._line(outcome.headline)

    def _line(self, text: str) -> None:
        # A reader that is gone (`| head`) must not keep the stack from being stopped.
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (BrokenPipeError, ValueError):
            return


def view_for(stream: TextIO, title: str) -> View:
    console = Console(file=stream)
    return LiveScreen(console, title) if console.is_terminal and not console.is_dumb_terminal else PlainView(stream)
