"""From records in a folder to the page: every table goes through Spark, and every chart has something to show."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.job import ReportOptions, Wanted, report
from pipeline.prices import default_prices
from shared.telemetry_events import TelemetryStarted, TelemetryStopped, as_line
from tests.support.records import after, failed, forwarded, received, refused, sent, turned

STORY = [
    TelemetryStarted(at=after(0), flush_seconds=0.5, backlog_queue_count=10, ping_primary_interval_seconds=60.0),
    *[sent(index, f"p{index}", key_hash=f"key-{index % 3}", partition=index % 3) for index in range(10)],
    failed(10),
    refused(10),
    turned(10, "available", "unavailable", reason="timeout: <no> answer"),
    *[sent(20 + index, f"b{index}", queue=0, key_hash="key-0", partition=0) for index in range(5)],
    turned(60, "unavailable", "available"),
    sent(61, "overtaking", key_hash="key-0", partition=0),
    *[forwarded(62 + index, f"b{index}") for index in range(5)],
    *[received(70, f"b{index}", partition=7, number=index) for index in range(5)],
    TelemetryStopped(at=after(120)),
]
CHARTS = {
    "States of each entity by time",
    "orders: sends in each 1 s",
    "orders: how long a send took",
    "Messages waiting, by entity",
    "Money by stage",
    "Messages by partition, the darker the more",
}


def test_records_become_a_page_with_every_chart_and_prices_of_ones_own(spark: SparkSession, tmp_path: Path) -> None:
    events, out = tmp_path / "events", tmp_path / "report"
    events.mkdir()
    lines = [as_line(event, instance="a", sequence=number) for number, event in enumerate(STORY)]
    (events / "one.jsonl").write_text("".join(lines))
    # Any prices but the shipped ones.
    shipped = default_prices()
    dear = tuple(replace(band, per_million_operations=Decimal(1000)) for band in shipped.standard_bands)
    prices = replace(shipped, currency="EUR", standard_bands=dear)

    report(spark, ReportOptions(events=str(events), out=str(out), wanted=Wanted(prices=prices)), lambda text: None)

    page = (out / "report.html").read_text()
    assert CHARTS == set(re.findall(r'<svg[^>]*aria-label="([^"]*)"', page))
    assert "timeout: &lt;no&gt; answer" in page
    assert "3 × EUR 1,000.00 = EUR 3,000.00, and 6 × EUR 1,000.00 = EUR 6,000.00" in page
    summary = json.loads((out / "summary.json").read_text())
    figures = ("accepted", "delivered_via_backlog", "lost", "outage_count", "key_count", "keys_overtaken")
    assert [16, 5, 0, 1, 3, 1] == [summary[name] for name in figures]
    assert "EUR" == summary["costs"]["prices"]["currency"]
    # 16 sends, the five of the backlog forwarded, a ping never: 3 x 11 + 6 x 5 + the failed one, and idle receives.
    by_stage = {stage["name"]: float(stage["quantity"]) for stage in summary["costs"]["stages"]}
    idle = by_stage["idle receives of backlog queues"]
    assert 3 * 11 + 6 * 5 + 1 + idle == float(summary["costs"]["after"]["operations"])
