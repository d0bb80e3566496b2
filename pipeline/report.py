"""One page for people, from the summary and from the rows of the tables: self-contained, no script, nothing fetched.

The verdict comes first, with every hole in it; then outages, what callers saw, the backlog, costs and partitions. Long
lists are cut, and say by how much.
"""

from __future__ import annotations

import base64
import hashlib
import pkgutil
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pipeline.axes import count_text, moment_text, seconds_text
from pipeline.charts import Frame
from pipeline.markup import Column, bullets, paragraph, seconds_of, section, table, tile
from pipeline.report_costs import costs
from pipeline.report_outages import backlog, callers, outages
from pipeline.report_partitions import partitions

Rows = Sequence[dict[str, Any]]
LISTED_MAX = 50
_WHERE = "the table deliveries has them all"
HEADLINES = {
    "lost": "{lost} lost",
    "incomplete": "0 known to be lost, but the records have holes",
    "acknowledged": "0 lost",
    "proved": "0 lost, and proved",
}
SECTIONS = (
    ("outages", "Outages"),
    ("callers", "What callers saw"),
    ("backlog", "Backlog"),
    ("costs", "Costs"),
    ("partitions", "Partitions"),
    ("messages", "Messages"),
)


def render(summary: Mapping[str, Any], tables: Mapping[str, Rows]) -> str:
    """The page. `summary` is what summary.json holds; `tables` the rows of each table that people are shown."""
    begin, end = seconds_of(summary.get("first_at")) or 0.0, seconds_of(summary.get("last_at")) or 0.0
    frame = Frame(start=begin, end=end, width=0)
    body = [
        _verdict(summary, tables.get("deliveries", ())),
        "<nav>" + "".join(f'<a href="#{name}">{title}</a>' for name, title in SECTIONS) + "</nav>",
        outages(frame, summary, tables),
        callers(frame, summary, tables),
        backlog(frame, summary, tables),
        costs(summary),
        partitions(summary, tables),
        _messages(summary, tables.get("deliveries", ())),
    ]
    return _page(_header(summary, begin, end), "".join(body))


def _page(header: str, body: str) -> str:
    data = pkgutil.get_data(__name__, "report.css")
    style = data.decode() if data else ""
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'; img-src data:; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer"><link rel="icon" href="data:,"><title>Delivery report</title>'
        f"<style>{style}</style></head><body>{header}<main>{body}</main>"
        "<footer><p>Times are UTC. All figures come from the records of the app; the Parquet tables beside this page "
        "hold every row. Point at a mark in a chart to read its figures.</p></footer></body></html>\n"
    )


def _header(summary: Mapping[str, Any], begin: float, end: float) -> str:
    told = (
        f"{moment_text(begin)} to {moment_text(end)} UTC ({seconds_text(end - begin)}), "
        f"{count_text(summary.get('events', 0))} records of {count_text(summary.get('instances', 0))} instances"
    )
    return f'<header><h1>Paired namespaces: delivery report</h1><p class="period">{escape(told)}</p></header>'


# -- the verdict


def _verdict(summary: Mapping[str, Any], deliveries: Rows) -> str:
    proof = summary["proof"]
    headline = HEADLINES[proof["word"]].format(lost=count_text(summary["lost"]))
    notes = [note["text"] for note in proof["notes"]]
    return (
        f'<div class="verdict {escape(proof["word"])}" role="status"><h2>{escape(headline)}</h2>'
        f"{paragraph(_first_sentence(summary), 'sentence')}{_holes(proof)}{_equation(summary)}"
        f"{_lost(summary, deliveries)}{bullets(notes, 'notes') if notes else ''}</div>"
    )


def _first_sentence(summary: Mapping[str, Any]) -> str:
    """What the proof says; where it has holes they follow as a list of their own."""
    proof = summary["proof"]
    if not proof["holes"]:
        return str(proof["sentence"])
    accepted = count_text(summary["accepted"])
    if summary["lost"]:
        return f"{count_text(summary['lost'])} of {accepted} accepted messages should have been seen and were not."
    return (
        f"None of {accepted} accepted messages is known to be lost. This is not a proof, because records are missing."
    )


def _holes(proof: Mapping[str, Any]) -> str:
    holes = [hole["text"] for hole in proof["holes"]]
    if not holes:
        return ""
    return f'<div class="holes" role="alert"><strong>Holes in the proof</strong>{bullets(holes)}</div>'


def _equation(summary: Mapping[str, Any]) -> str:
    parts = (
        ("delivered", "delivered", "good"),
        ("waiting", "waiting in the backlog", "warn"),
        ("dead_lettered", "dead-lettered", "warn"),
        ("expired", "expired while waiting", "warn"),
        ("lost", "lost", "bad"),
    )
    tiles = [tile(count_text(summary["accepted"]), "accepted")]
    for index, (name, text, style) in enumerate(parts):
        tiles.append(f'<span class="sign" aria-hidden="true">{"+" if index else "="}</span>')
        value = summary.get(name, 0)
        tiles.append(tile(count_text(value), text, style if value else "good" if name == "lost" else ""))
    beside = [
        tile(count_text(summary.get("duplicated", 0)), "arrived twice", "warn" if summary.get("duplicated") else ""),
        tile(count_text(summary.get("refused", 0)), "refused and never accepted"),
        tile(count_text(summary.get("delivered_via_backlog", 0)), "delivered through the backlog"),
        tile(seconds_text(summary.get("longest_wait_seconds")), "longest wait"),
    ]
    return f'<div class="sum">{"".join(tiles)}</div><h3>Beside that</h3><div class="sum">{"".join(beside)}</div>'


def _lost(summary: Mapping[str, Any], deliveries: Rows) -> str:
    if not summary["lost"]:
        return ""
    rows = [row for row in deliveries if row["status"] == "lost"][:LISTED_MAX]
    listed = table(_MESSAGE_COLUMNS, rows, label="Lost messages", of=summary["lost"], where=_WHERE)
    return f"<h3>Lost messages</h3>{listed}"


# -- messages that did not simply arrive


def _moment(name: str) -> Any:
    return lambda row: moment_text(seconds_of(row.get(name)))


_MESSAGE_COLUMNS = (
    Column(head="message id", text=lambda row: str(row["message_id"])),
    Column(head="entity", text=lambda row: str(row["path"])),
    Column(
        head="ended",
        text=lambda row: str(row["status"]) + (" twice" if row.get("duplicated") else ""),
        style=lambda row: "plain bad" if row["status"] == "lost" else "plain",
    ),
    Column(head="route", text=lambda row: str(row.get("route") or "–")),
    Column(head="by the word of", text=lambda row: str(row.get("evidence") or "–")),
    Column(head="accepted", text=_moment("accepted_at"), style=lambda row: "plain"),
    Column(head="waited", text=lambda row: seconds_text(row.get("waited_seconds")), number=True),
    Column(head="copies", text=lambda row: count_text(row.get("copies")), number=True),
)


def _messages(summary: Mapping[str, Any], deliveries: Rows) -> str:
    lead = (
        "Everything that did not simply arrive once: still waiting, dead-lettered, expired, refused, twice, unrecorded."
    )
    rows = [row for row in deliveries if row["status"] != "lost"]
    names = ("waiting", "dead_lettered", "expired", "refused", "unrecorded", "duplicated", "possible_duplicates")
    total = max(len(rows), sum(summary.get(name, 0) or 0 for name in names))
    if not rows:
        return section("messages", "Messages", lead, paragraph("There are none."))
    listed = table(_MESSAGE_COLUMNS, rows[:LISTED_MAX], label="Messages", of=total, where=_WHERE)
    return section("messages", "Messages", lead, listed)
