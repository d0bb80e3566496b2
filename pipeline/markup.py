"""Pieces of the page. Everything that comes from records passes through `escape` here or in the charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

#: Widths that charts are drawn for; the page's CSS shows the one that fits.
WIDE, NARROW = 992, 340
CELL_CHARS_MAX = 160
TITLE_CHARS_MAX = 1_000
#: A text of so many characters is not broken into lines.
SHORT_CHARS_MAX = 30


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table: its heading, and the text of a row. Numbers stand to the right."""

    head: str
    text: Callable[[dict[str, Any]], str]
    number: bool = False
    style: Callable[[dict[str, Any]], str] = lambda row: ""


def table(columns: Sequence[Column], rows: Sequence[dict[str, Any]], *, label: str, of: int, where: str) -> str:
    """The rows, and how many of `of` are not shown and where they are."""
    head = "".join(f'<th scope="col"{_class(one.number, "")}>{escape(one.head)}</th>' for one in columns)
    body = "".join("<tr>" + "".join(_cell(one, row) for one in columns) + "</tr>" for row in rows)
    missing = of - len(rows)
    note = f'<p class="cut">{missing:,} more are not shown: {escape(where)}.</p>' if missing > 0 else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )


def _class(number: bool, style: str) -> str:
    names = " ".join(filter(None, ("number" if number else "", style)))
    return f' class="{escape(names)}"' if names else ""


def _cell(column: Column, row: dict[str, Any]) -> str:
    text = column.text(row)
    short = "plain" if len(text) <= SHORT_CHARS_MAX else ""
    shown = escape(text if len(text) <= CELL_CHARS_MAX else text[: CELL_CHARS_MAX - 1] + "…")
    whole = "" if len(text) <= CELL_CHARS_MAX else f' title="{escape(text[:TITLE_CHARS_MAX])}"'
    return f"<td{_class(column.number, f'{short} {column.style(row)}'.strip())}{whole}>{shown}</td>"


def section(name: str, title: str, lead: str, *parts: str) -> str:
    lead = f'<p class="lead">{escape(lead)}</p>' if lead else ""
    return f'<section id="{escape(name)}"><h2>{escape(title)}</h2>{lead}{"".join(parts)}</section>'


def figure(title: str, draw: Callable[[int], str], legend: Iterable[tuple[str, str]] = (), note: str = "") -> str:
    """A chart, drawn once for each width."""
    keys = "".join(f'<li><i class="{escape(style)}"></i>{escape(name)}</li>' for style, name in legend)
    keys = f'<ul class="legend">{keys}</ul>' if keys else ""
    note = f'<p class="note">{escape(note)}</p>' if note else ""
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>{keys}"
        f'<div class="wide">{draw(WIDE)}</div><div class="narrow">{draw(NARROW)}</div>{note}</figure>'
    )


def tile(value: str, name: str, style: str = "") -> str:
    return f'<div class="tile {escape(style)}"><b>{escape(value)}</b><span>{escape(name)}</span></div>'


def paragraph(text: str, style: str = "") -> str:
    return f'<p class="{escape(style)}">{escape(text)}</p>' if style else f"<p>{escape(text)}</p>"


def bullets(texts: Iterable[str], style: str = "") -> str:
    return f'<ul class="{escape(style)}">' + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def seconds_of(value: Any) -> float | None:
    """A time of a row or of the summary, since the epoch. Spark hands times out in the machine's own zone, unnamed."""
    if value is None:
        return None
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return float(moment.timestamp())
