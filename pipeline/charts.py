"""Charts as inline SVG, written by hand: no script, no library, no outside resource; colours come from the page's CSS.

Every function returns one `<svg>` with a text alternative and a tooltip (`<title>`) on each mark. Times are seconds
since the epoch. A chart is drawn for a width in pixels and is not stretched, so that its text stays readable: a page
asks for a wide and a narrow one and shows the one that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from pipeline.axes import Scale, decade_ticks, moment_text, round_ticks, time_ticks

_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 26
_LINE_HEIGHT = 220
_LABEL_CHARS_PX = 6.7
POINTS_MAX = 2_000


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points by time; None leaves a gap. `style` is a class of the page's CSS that names the colour."""

    name: str
    style: str
    points: Sequence[tuple[float, float | None]]


@dataclass(frozen=True, kw_only=True)
class Span:
    """A stretch of a row of a time line; no end: it is not over."""

    style: str
    start: float
    end: float | None
    text: str


@dataclass(frozen=True, kw_only=True)
class Bar:
    name: str
    value: float
    style: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Texts:
    """How a chart writes a value: in a tooltip, and at its axis."""

    value: Callable[[float], str]
    tick: Callable[[float], str]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What charts of a report have in common: the time they show, and how wide they are."""

    start: float
    end: float
    width: int

    @property
    def x(self) -> Scale:
        return Scale(low=self.start, high=max(self.end, self.start + 1), start=_LEFT, end=self.width - _RIGHT)


# -- by time


def line(frame: Frame, title: str, series: Sequence[Series], text: Texts, *, log: bool = False) -> str:
    values = [y for one in series for _, y in one.points if y is not None]
    low, high = min(values, default=0.001), max(values, default=1.0)
    ticks = decade_ticks(low, high) if log else round_ticks(high, 4)
    y = Scale(low=ticks[0], high=ticks[-1], start=_LINE_HEIGHT - _BOTTOM, end=_TOP, log=log)
    body = [_grid(frame, y, ticks, text.tick)]
    for one in series:
        for run in _runs(one.points):
            path = " ".join(f"{frame.x(at):.1f},{y(value):.1f}" for at, value in run)
            body.append(f'<polyline class="line {one.style}" points="{path}"/>')
            alone = " alone" if len(run) == 1 else ""
            body += [
                f'<circle class="dot {one.style}{alone}" cx="{frame.x(at):.1f}" cy="{y(value):.1f}" r="2.6">'
                f"<title>{escape(f'{one.name}: {text.value(value)} at {moment_text(at)}')}</title></circle>"
                for at, value in run
            ]
    return _svg(frame.width, _LINE_HEIGHT, title, body)


def stacked_area(
    frame: Frame, title: str, series: Sequence[Series], text: Callable[[float], str], *, step: bool = False
) -> str:
    """Series over the same times, one on top of the other; `step` holds a value until the next one."""
    times = [at for at, _ in series[0].points] if series else []
    stacks = [[one.points[index][1] or 0.0 for one in series] for index in range(len(times))]
    ticks = round_ticks(max((sum(stack) for stack in stacks), default=1) or 1, 4, whole=True)
    y = Scale(low=0, high=ticks[-1], start=_LINE_HEIGHT - _BOTTOM, end=_TOP)
    body = [_grid(frame, y, ticks, text)]
    ends = [*times[1:], frame.end] if step else times
    for layer, one in enumerate(series):
        floor = [(at, end, y(sum(stack[:layer]))) for at, end, stack in zip(times, ends, stacks, strict=True)]
        top = [(at, end, y(sum(stack[: layer + 1]))) for at, end, stack in zip(times, ends, stacks, strict=True)]
        outline = _corners(frame, top, step) + list(reversed(_corners(frame, floor, step)))
        body.append(f'<polygon class="area {one.style}" points="{" ".join(outline)}"/>')
    for index, (at, stack) in enumerate(zip(times, stacks, strict=True)):
        left = frame.x(at)
        right = frame.x(ends[index] if step else times[min(index + 1, len(times) - 1)])
        words = "; ".join(f"{one.name} {text(value)}" for one, value in zip(series, stack, strict=True))
        body.append(
            f'<rect class="hover" x="{left:.1f}" y="{_TOP}" width="{max(2.0, right - left):.1f}" '
            f'height="{_LINE_HEIGHT - _TOP - _BOTTOM}"><title>{escape(f"{moment_text(at)}: {words}")}</title></rect>'
        )
    return _svg(frame.width, _LINE_HEIGHT, title, body)


def time_line(frame: Frame, title: str, rows: Sequence[tuple[str, Sequence[Span]]]) -> str:
    """One row for each name. A state is told by its height as well as by its colour: the worse, the taller."""
    pitch, label, heights = 46, 16, {"available": 6, "suspect": 14, "unavailable": 22}
    x = Scale(low=frame.start, high=max(frame.end, frame.start + 1), start=_RIGHT, end=frame.width - _RIGHT)
    height = len(rows) * pitch + _BOTTOM + 4
    ticks = time_ticks(frame.start, frame.end, max(3, frame.width // 110))
    body = [_time_axis(x, ticks, height)]
    for index, (name, spans) in enumerate(rows):
        middle = index * pitch + label + 14
        room = int((frame.width - 2 * _RIGHT) / _LABEL_CHARS_PX)
        body.append(f'<text class="name" x="{_RIGHT}" y="{index * pitch + 12}">{_cut(name, room)}</text>')
        for span in spans:
            left, right = x(span.start), x(frame.end if span.end is None else span.end)
            tall = heights.get(span.style, 10)
            body.append(
                f'<rect class="{escape(span.style)}" x="{left:.1f}" y="{middle - tall / 2}" rx="2" '
                f'width="{max(2.0, right - left):.1f}" height="{tall}"><title>{escape(span.text)}</title></rect>'
            )
            if span.end is None and span.style != "available":
                body.append(f'<path class="open {escape(span.style)}" d="M{right - 1:.1f} {middle - 11}l9 11l-9 11z"/>')
    return _svg(frame.width, height, title, body)


# -- not by time


def bars(width: int, title: str, rows: Sequence[Bar]) -> str:
    """Lying bars, each under its name, so that long names fit a phone."""
    pitch = 38
    high = max((row.value for row in rows), default=0) or 1
    x = Scale(low=0, high=high, start=0, end=width - 140)
    body = []
    for index, row in enumerate(rows):
        top = index * pitch
        length = max(2.0, x(row.value)) if row.value else 0.0
        body.append(
            f"<g><title>{escape(f'{row.name}: {row.text}')}</title>"
            f'<text class="name" x="0" y="{top + 12}">{_cut(row.name, int(width / _LABEL_CHARS_PX))}</text>'
            f'<rect class="{escape(row.style)}" x="0" y="{top + 18}" width="{length:.1f}" height="12" rx="2"/>'
            f'<text class="value" x="{length + 8:.1f}" y="{top + 28}">{escape(row.text)}</text></g>'
        )
    return _svg(width, len(rows) * pitch, title, body)


def heat_map(
    width: int, title: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[tuple[float, str]]]]
) -> str:
    """Cells of (share of the row's highest, text). Ten depths of one colour, so that the page's CSS can name them."""
    label, pitch, gap = 18, 58, 2
    cell = (width - gap) / max(len(columns), 1)
    body = [
        f'<text class="tick" x="{index * cell + cell / 2:.1f}" y="11" text-anchor="middle">{escape(name)}</text>'
        for index, name in enumerate(columns)
    ]
    for row, (name, cells) in enumerate(rows):
        top = 18 + row * pitch
        body.append(f'<text class="name" x="0" y="{top + 13}">{_cut(name, int(width / _LABEL_CHARS_PX))}</text>')
        for column, (share, text) in enumerate(cells):
            depth = 0 if share <= 0 else min(9, 1 + int(share * 8.999))
            body.append(
                f'<rect class="heat{depth}" x="{column * cell + gap / 2:.1f}" y="{top + label + 2}" rx="3" '
                f'width="{cell - gap:.1f}" height="30"><title>{escape(f"{columns[column]}: {text}")}</title></rect>'
            )
    return _svg(width, 18 + len(rows) * pitch, title, body)


# -- parts


def _svg(width: int, height: float, title: str, body: Iterable[str]) -> str:
    return (
        f'<svg class="chart" role="img" aria-label="{escape(title)}" width="{width}" height="{height:.0f}" '
        f'viewBox="0 0 {width} {height:.0f}">{"".join(body)}</svg>'
    )


def _grid(frame: Frame, y: Scale, ticks: Sequence[float], text: Callable[[float], str]) -> str:
    lines = "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{frame.width - _RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{escape(text(tick))}</text>'
        for tick in ticks
    )
    return lines + _time_axis(frame.x, time_ticks(frame.start, frame.end, max(3, frame.width // 110)), _LINE_HEIGHT)


def _time_axis(x: Scale, ticks: Sequence[tuple[float, str]], height: float) -> str:
    return "".join(
        f'<line class="grid faint" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="4" y2="{height - _BOTTOM:.1f}"/>'
        f'<text class="tick" x="{min(max(x(at), 20), x.end - 14):.1f}" y="{height - 8:.1f}" text-anchor="middle">'
        f"{escape(label)}</text>"
        for at, label in ticks
    )


def _runs(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in points:
        if value is not None:
            runs[-1].append((at, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _corners(frame: Frame, edge: Sequence[tuple[float, float, float]], step: bool) -> list[str]:
    corners = []
    for at, end, level in edge:
        corners.append(f"{frame.x(at):.1f},{level:.1f}")
        if step:
            corners.append(f"{frame.x(end):.1f},{level:.1f}")
    return corners


def _cut(name: str, room: int) -> str:
    return escape(name if len(name) <= room else name[: max(1, room - 1)] + "…")
