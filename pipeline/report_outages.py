"""The page's sections on outages, on what callers saw of them, and on the backlog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline.axes import count_text, moment_text, seconds_text, seconds_tick, share_text, short_moment_text
from pipeline.charts import POINTS_MAX, Frame, Series, Span, Texts, line, stacked_area, time_line
from pipeline.markup import Column, figure, paragraph, seconds_of, section, table

Rows = Sequence[dict[str, Any]]
LANES_MAX = 16
OUTAGES_MAX = 30
BUSIEST_MAX = 3
DRAINS_MAX = 5
ENTITIES_MAX = 40
_STATES = (("available", "available"), ("suspect", "suspect"), ("unavailable", "unavailable: sends go to the backlog"))
_SECONDS = Texts(value=seconds_text, tick=seconds_tick)
_STYLES = ("one", "two", "three", "four", "five")


def lane_name(row: Mapping[str, Any]) -> str:
    return f"{row['entity']} (key {row['key']})" if row.get("key") else str(row["entity"])


# -- outages


def outages(frame: Frame, summary: Mapping[str, Any], tables: Mapping[str, Rows]) -> str:
    lines, found = tables.get("time_line", ()), tables.get("outages", ())
    lead = (
        "When each entity was not available, and how long it took to notice, to divert sends to the backlog, and to go "
        "back. Times to notice and to divert count from the first failure of a send."
    )
    if not lines:
        return section("outages", "Outages", lead, paragraph("There are no sends and no changes of state on record."))
    total = summary.get("outage_count", len(found))
    parts = [_time_lines(frame, summary, lines)]
    if found:
        parts.append(
            table(_OUTAGE_COLUMNS, found[:OUTAGES_MAX], label="Outages", of=total, where="see the table outages")
        )
    else:
        parts.append(paragraph("No entity was ever suspect or unavailable in this time."))
    return section("outages", "Outages", lead, *parts)


def _time_lines(frame: Frame, summary: Mapping[str, Any], lines: Rows) -> str:
    lanes: dict[str, list[Span]] = {}
    for row in sorted(lines, key=lambda row: seconds_of(row["started_at"]) or 0.0):
        lanes.setdefault(lane_name(row), []).append(_span(row))
    keys = {lane_name(row) for row in lines if row.get("key")}

    def order(name: str) -> tuple[bool, bool, float, str]:
        """Trouble first; entities before their keys, of which there may be many."""
        trouble = _trouble(lanes[name], frame.end)
        return trouble == 0, name in keys, -trouble, name

    troubled = sorted(lanes, key=order)
    rows = [(name, lanes[name]) for name in troubled[:LANES_MAX]]
    left_out = max(summary.get("lane_count", 0), len(lanes)) - len(rows)
    note = (
        f"{left_out:,} more, with less or no trouble, are not shown: see the table time_line." if left_out > 0 else ""
    )
    return figure(
        "States by time",
        lambda width: time_line(replace(frame, width=width), "States of each entity by time", rows),
        _STATES,
        note,
    )


def _trouble(spans: Sequence[Span], end: float) -> float:
    return sum((end if span.end is None else span.end) - span.start for span in spans if span.style != "available")


def _span(row: Mapping[str, Any]) -> Span:
    start, end = seconds_of(row["started_at"]) or 0.0, seconds_of(row["ended_at"])
    until = f"to {moment_text(end)} ({seconds_text(row['seconds'])})" if end is not None else "and not over"
    reason = f": {row['reason']}" if row.get("reason") else ""
    return Span(style=row["state"], start=start, end=end, text=f"{row['state']} {moment_text(start)} {until}{reason}")


def _ended(row: dict[str, Any]) -> str:
    return seconds_text(row["seconds"]) if row["ended_at"] is not None else "not over"


_OUTAGE_COLUMNS = (
    Column(head="entity", text=lane_name),
    Column(head="began", text=lambda row: short_moment_text(seconds_of(row["started_at"]))),
    Column(head="lasted", text=_ended, number=True, style=lambda row: "" if row["ended_at"] is not None else "bad"),
    Column(head="to notice", text=lambda row: seconds_text(row["seconds_to_detect"]), number=True),
    Column(
        head="to divert",
        text=lambda row: seconds_text(row["seconds_to_fail_over"]) if row["unavailable_at"] else "no failover",
        number=True,
    ),
    Column(head="to go back", text=lambda row: seconds_text(row["seconds_to_fail_back"]), number=True),
    Column(head="to drain", text=lambda row: seconds_text(row["seconds_to_drain"]), number=True),
    Column(head="sends succeeded", text=lambda row: share_text(row["availability"]), number=True),
    Column(head="refused", text=lambda row: count_text(row["refused"]), number=True),
    Column(head="diverted", text=lambda row: count_text(row["diverted"]), number=True),
    Column(
        head="waiting",
        text=lambda row: count_text(row["still_waiting"]),
        number=True,
        style=lambda row: "warn" if row["still_waiting"] else "",
    ),
    Column(head="99 % within", text=lambda row: seconds_text(row["p99"]), number=True),
    Column(head="why", text=lambda row: str(row["reason"] or "–"), style=lambda row: "dim"),
)


# -- callers


def callers(frame: Frame, summary: Mapping[str, Any], tables: Mapping[str, Rows]) -> str:
    over_all, by_time = tables.get("sends", ()), tables.get("sends_by_time", ())
    lead = (
        "A send succeeds when it is accepted, by the primary or by a backlog queue. Refusals that are the caller's own "
        "mistake (no such entity, too large, malformed) are counted apart and not against availability."
    )
    if not over_all:
        return section("callers", "What callers saw", lead, paragraph("There are no sends on record."))
    busiest = sorted(over_all, key=lambda row: -(row["accepted"] + row["refused"]))
    parts = []
    for row in busiest[:BUSIEST_MAX]:
        rows = sorted((one for one in by_time if one["entity"] == row["entity"]), key=lambda one: str(one["bucket"]))
        if rows:
            parts += [_outcomes(frame, row["entity"], rows), _latency(frame, row["entity"], rows)]
    total = summary.get("entity_count", len(over_all))
    listed = table(
        _SENDS_COLUMNS, busiest[:ENTITIES_MAX], label="Sends by entity", of=total, where="see the table sends"
    )
    return section("callers", "What callers saw", lead, listed, *parts)


_SENDS_COLUMNS = (
    Column(head="entity", text=lambda row: str(row["entity"])),
    Column(
        head="succeeded",
        text=lambda row: share_text(row["availability"]),
        number=True,
        style=lambda row: "warn" if row["refused"] else "good",
    ),
    Column(head="accepted", text=lambda row: count_text(row["accepted"]), number=True),
    Column(head="of them diverted", text=lambda row: count_text(row["diverted"]), number=True),
    Column(head="refused", text=lambda row: count_text(row["refused"]), number=True),
    Column(head="callers' mistakes", text=lambda row: count_text(row["mistakes"]), number=True),
    Column(head="half within", text=lambda row: seconds_text(row["p50"]), number=True),
    Column(head="95 % within", text=lambda row: seconds_text(row["p95"]), number=True),
    Column(head="99 % within", text=lambda row: seconds_text(row["p99"]), number=True),
    Column(head="slowest", text=lambda row: seconds_text(row["slowest"]), number=True),
)


def _outcomes(frame: Frame, entity: str, rows: Rows) -> str:
    width = float(rows[0]["bucket_seconds"])
    filled = _filled(frame, rows, width)

    def points(value: Any) -> list[tuple[float, float | None]]:
        return [(at, 0.0 if row is None else float(value(row))) for at, row in filled]

    series = [
        Series(name="primary", style="primary", points=points(lambda row: row["accepted"] - row["diverted"])),
        Series(name="backlog", style="backlog", points=points(lambda row: row["diverted"])),
        Series(name="refused", style="refused", points=points(lambda row: row["refused"])),
    ]
    title = f"{entity}: sends in each {seconds_text(width)}"
    return figure(
        title,
        lambda pixels: stacked_area(replace(frame, width=pixels), title, series, count_text, step=True),
        (("primary", "accepted by the primary"), ("backlog", "accepted by the backlog"), ("refused", "refused")),
    )


def _latency(frame: Frame, entity: str, rows: Rows) -> str:
    filled = _filled(frame, rows, float(rows[0]["bucket_seconds"]))
    names = (("one", "p50", "half within"), ("four", "p95", "95 % within"), ("five", "p99", "99 % within"))
    series = [
        Series(name=text, style=style, points=[(at, None if row is None else row[name]) for at, row in filled])
        for style, name, text in names
    ]
    title = f"{entity}: how long a send took"
    return figure(
        title,
        lambda pixels: line(replace(frame, width=pixels), title, series, _SECONDS, log=True),
        [(style, text) for style, _, text in names],
        "The scale is logarithmic. No line: no sends.",
    )


def _filled(frame: Frame, rows: Rows, width: float) -> list[tuple[float, dict[str, Any] | None]]:
    """Every step from the first to the last, also those in which nothing was sent."""
    by_time = {round(seconds_of(row["bucket"]) or 0.0): row for row in rows}
    first, last = min(by_time), max(by_time)
    # One more than the last, where the records go on: nothing was sent there.
    steps = int((last - first) // width) + 2
    times = [round(first + index * width) for index in range(min(steps, POINTS_MAX))]
    return [(max(float(at), frame.start), by_time.get(at)) for at in times if at < frame.end or at == first]


# -- the backlog


def backlog(frame: Frame, summary: Mapping[str, Any], tables: Mapping[str, Rows]) -> str:
    rows = tables.get("drain", ())
    lead = (
        "How many accepted messages waited in backlog queues: rising in an outage, falling while the syphon drains it."
    )
    if not rows:
        return section("backlog", "Backlog", lead, paragraph("Nothing was ever diverted in this time."))
    series, left_out = _depths(frame, rows)
    note = f"{left_out:,} more entities are summed up as others." if left_out else ""
    title = "Messages waiting, by entity"
    chart = figure(
        title,
        lambda pixels: stacked_area(replace(frame, width=pixels), title, series, count_text, step=True),
        [(one.style, one.name) for one in series],
        note,
    )
    return section("backlog", "Backlog", lead, chart)


def _depths(frame: Frame, rows: Rows) -> tuple[list[Series], int]:
    """Depths hold until the next change, so every entity gets a point wherever any of them changes."""
    changes: dict[str, dict[float, float]] = {}
    for row in rows:
        at = max(seconds_of(row["bucket"]) or 0.0, frame.start)
        changes.setdefault(str(row["entity"]), {})[at] = float(row["depth"])
    deepest = sorted(changes, key=lambda name: (-max(changes[name].values()), name))
    times = sorted({at for by_time in changes.values() for at in by_time} | {frame.start})
    held = {name: _held(changes[name], times) for name in deepest}
    shown, others = deepest[:DRAINS_MAX], deepest[DRAINS_MAX:]
    series = [
        Series(name=name, style=style, points=list(zip(times, held[name], strict=True)))
        for name, style in zip(shown, _STYLES, strict=False)
    ]
    if others:
        sums = [float(sum(held[name][index] for name in others)) for index in range(len(times))]
        series.append(Series(name="others", style="six", points=list(zip(times, sums, strict=True))))
    return series, len(others)


def _held(changes: Mapping[float, float], times: Sequence[float]) -> list[float]:
    held, depths = 0.0, []
    for at in times:
        held = max(0.0, changes.get(at, held))
        depths.append(held)
    return depths
