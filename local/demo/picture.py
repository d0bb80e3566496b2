"""The live picture, drawn with rich: phases as bars, a line of states for each entity, and the latest events."""

from __future__ import annotations

import io

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from local.demo.board import Note, Row, Snapshot
from local.demo.figures import Outcome, figures
from local.demo.schedule import Phase

#: From the best state to the worst.
COLOURS = {
    "available": "green", "draining": "cyan", "partly available": "magenta", "suspect": "yellow", "unavailable": "red",
}  # fmt: skip
PHASE_COLOURS = {Phase.HEALTHY: "green", Phase.OUTAGE: "red", Phase.DRAIN: "cyan", Phase.REPORT: "magenta"}
HISTORY_WIDTH = 28
PICTURE_WIDTH = 110
# Without the web font of rich's own template: a picture loads nothing from anywhere.
SVG_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px;
  line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: Arial, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class LiveScreen:
    """Repaints in place; what was last shown stays on the screen."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()

    def note(self, note: Note) -> None:
        """Notes are part of the picture."""

    def show(self, snapshot: Snapshot) -> None:
        self._live.update(draw(snapshot, self._title), refresh=True)

    def close(self) -> None:
        self._live.stop()

    def verdict(self, outcome: Outcome) -> None:
        self._console.print(draw_verdict(outcome))


def draw(snapshot: Snapshot, title: str) -> RenderableType:
    return Panel(
        Group(_phases(snapshot), Text(), _entities(snapshot), Text(), _figures(snapshot), Text(), _notes(snapshot)),
        title=title,
        subtitle=f"{snapshot.elapsed_s:.0f} s",
    )


def _phases(snapshot: Snapshot) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
    for _ in Phase:
        grid.add_column(ratio=1)
    names, bars = [], []
    for phase in Phase:
        colour = PHASE_COLOURS[phase]
        is_now = phase is snapshot.phase
        names.append(Text(phase.value, style=f"bold {colour}" if is_now else "dim"))
        bars.append(
            ProgressBar(total=1.0, completed=snapshot.shares[phase], complete_style=colour, finished_style=colour)
        )
    grid.add_row(*names)
    grid.add_row(*bars)
    return grid


def _entities(snapshot: Snapshot) -> RenderableType:
    table = Table(box=None, expand=True, pad_edge=False)
    table.add_column("entity", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for name in ("accepted", "diverted", "waiting", "delivered"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", ratio=1, min_width=8)
    for row in snapshot.rows:
        bar = ProgressBar(total=max(1, row.accepted), completed=row.delivered, complete_style="green")
        counts = (row.accepted, row.diverted, row.waiting, row.delivered)
        table.add_row(f"{row.path}\n[dim]{row.about}", _states(row), *map(str, counts), bar)
    return table


def _states(row: Row) -> Text:
    """The whole history in a fixed width, each sign in the colour of the worst state of its time."""
    order = list(COLOURS)
    signs = min(HISTORY_WIDTH, len(row.history))
    line = Text()
    for index in range(signs):
        first, last = index * len(row.history) // signs, (index + 1) * len(row.history) // signs
        worst = max(row.history[first:last], key=lambda state: order.index(state) if state in order else 0)
        line.append("━", style=COLOURS.get(worst, "white"))
    return Text.assemble(line, "\n", (row.state, COLOURS.get(row.state, "white")))


def _figures(snapshot: Snapshot) -> RenderableType:
    return Text.assemble(
        ("sent ", "dim"), f"{snapshot.sent}   ",
        ("accepted ", "dim"), f"{snapshot.accepted} ({snapshot.accepted_per_s:.0f}/s)   ",
        ("delivered ", "dim"), f"{snapshot.delivered} ({snapshot.delivered_per_s:.0f}/s)   ",
        ("waiting ", "dim"), (f"{snapshot.waiting}   ", "bold yellow" if snapshot.waiting else ""),
        ("\nrefusals ", "dim"), f"{snapshot.refusals}   ",
        ("duplicates ", "dim"), f"{snapshot.duplicated}   ",
        ("longest send ", "dim"), f"{snapshot.longest_send_s:.2f} s",
    )  # fmt: skip


def _notes(snapshot: Snapshot) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for note in snapshot.notes:
        grid.add_row(f"{note.at_s:.1f} s", Text(note.text))
    return grid


def draw_verdict(outcome: Outcome) -> RenderableType:
    colour = "green" if outcome.verdict.is_exact else "red"
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for label, value in figures(outcome):
        grid.add_row(label, Text(value, style="bold" if label == "lost" else ""))
    return Panel(Group(Text(outcome.headline, style=f"bold {colour}"), Text(), grid), title="verdict", style="")


def as_svg(snapshot: Snapshot, outcome: Outcome, title: str) -> str:
    """A moment of the run, and its verdict."""
    console = Console(record=True, width=PICTURE_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(draw(snapshot, title))
    console.print(draw_verdict(outcome))
    return console.export_svg(title="make demo", code_format=SVG_FORMAT)
