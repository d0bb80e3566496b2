"""The page's section on costs: the headline, the arithmetic behind every figure, and what other options would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pipeline.axes import count_text, seconds_text, share_text
from pipeline.charts import Bar, bars
from pipeline.markup import Column, bullets, figure, paragraph, section, table, tile

BARS_MAX = 10
_STYLES = {"normal": "primary", "failover": "backlog", "standing": "standing"}
_LEGEND = (
    ("primary", "every message"),
    ("backlog", "because of outages"),
    ("standing", "to keep the pair and the app"),
)


def money_text(value: float, currency: str) -> str:
    """Small sums with as many digits as it takes to see them."""
    digits = 2 if value == 0 or abs(value) >= 0.1 else 4 if abs(value) >= 0.001 else 6
    return f"{currency} {value:,.{digits}f}"


def costs(summary: Mapping[str, Any]) -> str:
    found = summary.get("costs")
    lead = (
        "What the service bills for these records, and why. Every figure is marked: counted in the records, or assumed."
    )
    if not found:
        return section("costs", "Costs", lead, paragraph("Costs were not computed for this report."))
    currency = found["prices"]["currency"]
    about = (
        f"Prices of {found['prices']['date']} in {currency}, {found['tier'].capitalize()} tier. "
        f"Source: {found['prices']['source']} Other prices: --prices FILE."
    )
    return section(
        "costs",
        "Costs",
        lead,
        _headline(found, currency),
        _stages(found, currency),
        "<h3>What other options would have cost</h3>",
        paragraph(
            "The same records with one thing changed. The recorded time is charged with its share of the base charge. "
            "A quiet month is one without messages and outages, included operations deducted.",
            "lead",
        ),
        _what_if(found, currency),
        _assumptions(found),
        paragraph(about, "note"),
    )


def _headline(found: Mapping[str, Any], currency: str) -> str:
    each, before, after = found["per_message"], found["before"], found["after"]
    price = money_text(float(each["operation_price_per_million"]), currency)
    tiles = (
        tile(money_text(float(each["normal_per_million"]), currency), "a million messages straight to the primary")
        + tile(money_text(float(each["failed_over_per_million"]), currency), "a million messages through the backlog")
        + tile(money_text(float(before["money"]), currency), "these records, had nothing failed")
        + tile(money_text(float(after["money"]), currency), "these records, as they were")
    )
    normal, failed_over = each["normal_operations"], each["failed_over_operations"]
    straight = money_text(float(each["normal_per_million"]), currency)
    detour = money_text(float(each["failed_over_per_million"]), currency)
    text = (
        f"A message takes {normal} operations (send, receive, complete); a diverted one takes {failed_over} (the same "
        f"in the backlog queue first). At {price} for a million operations, a million messages cost {normal} × {price} "
        f"= {straight}, and {failed_over} × {price} = {detour} if all of them are diverted. The base charge of the "
        f"recorded {seconds_text(found['hours'] * 3600)}, {money_text(float(found['base']), currency)}, comes on top."
    )
    return f'<div class="sum">{tiles}</div><p class="note">{escape(text)}</p>'


def _stages(found: Mapping[str, Any], currency: str) -> str:
    stages: Sequence[dict[str, Any]] = [one for one in found["stages"] if float(one["quantity"])]
    ranked = sorted(stages, key=lambda one: -float(one["money"]))
    rest = len(ranked) - BARS_MAX
    rows = [
        Bar(
            name=one["name"],
            value=float(one["money"]),
            style=_STYLES[one["phase"]],
            text=f"{money_text(float(one['money']), currency)}",
        )
        for one in ranked[:BARS_MAX]
    ]
    title = "Money by stage"
    note = f"{rest} more, none of them above {rows[-1].text}, are in the table." if rest > 0 else ""
    chart = figure(title, lambda width: bars(width, title, rows), _LEGEND, note) if rows else ""
    columns = (
        Column(head="stage", text=lambda row: str(row["name"]), style=lambda row: "long"),
        Column(head="quantity", text=_quantity, number=True),
        Column(head="of", text=lambda row: str(row["unit"])),
        Column(
            head="is", text=lambda row: str(row["basis"]), style=lambda row: "warn" if row["basis"] == "assumed" else ""
        ),
        Column(head="how it comes about", text=lambda row: str(row["arithmetic"]), style=lambda row: "long dim"),
        Column(head="price of one", text=_unit_price, number=True),
        Column(head=currency, text=lambda row: money_text(float(row["money"]), "").strip(), number=True),
    )
    listed = table(columns, found["stages"], label="Stages", of=len(found["stages"]), where="")
    share = found.get("measured_share")
    counted = (
        f"{share_text(share)} of the operations were counted in the records; the rest is assumed." if share else ""
    )
    return chart + "<h3>The arithmetic</h3>" + listed + (paragraph(counted, "note") if counted else "")


def _quantity(row: Mapping[str, Any]) -> str:
    value = float(row["quantity"])
    return f"{value:,.4g}" if row["unit"] == "GB" else count_text(value)


def _unit_price(row: Mapping[str, Any]) -> str:
    return f"{float(row['unit_price']):.10f}".rstrip("0").rstrip(".")


def _what_if(found: Mapping[str, Any], currency: str) -> str:
    recorded = float(found["what_if"][0]["money"])
    columns = (
        Column(head="with", text=lambda row: str(row["name"]), style=lambda row: "long"),
        Column(head="tier", text=lambda row: str(row["tier"])),
        Column(head="backlog queues", text=lambda row: count_text(row["queues"]), number=True),
        Column(head="ping every", text=lambda row: seconds_text(row["ping_interval_seconds"]), number=True),
        Column(head="operations", text=lambda row: count_text(float(row["operations"])), number=True),
        Column(head="recorded time", text=lambda row: money_text(float(row["money"]), currency), number=True),
        Column(
            head="difference",
            text=lambda row: _difference(float(row["money"]) - recorded, currency),
            number=True,
            style=lambda row: "good" if float(row["money"]) < recorded else "",
        ),
        Column(
            head="a quiet month",
            text=lambda row: money_text(float(row["standing_money_per_month"]), currency),
            number=True,
        ),
    )
    return table(columns, found["what_if"], label="What if", of=len(found["what_if"]), where="")


def _difference(value: float, currency: str) -> str:
    if abs(value) < 0.0000005:
        return "–"
    return f"{'+' if value > 0 else '−'}{money_text(abs(value), currency)}"


def _assumptions(found: Mapping[str, Any]) -> str:
    assumed = [f"{one['value']}: {one['meaning']}" for one in found["assumptions"]]
    return (
        f"<details open><summary>What is assumed</summary>{bullets(assumed)}</details>"
        f"<details><summary>What the figures leave out</summary>{bullets(found['limits'])}</details>"
    )
