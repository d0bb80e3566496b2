"""The page's section on partitions: how evenly keys are spread, and whose order may have suffered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.axes import bytes_text, count_text, share_text
from pipeline.charts import heat_map
from pipeline.markup import Column, figure, paragraph, section, table

Rows = Sequence[dict[str, Any]]
HEAT_ROWS_MAX = 12
KEYS_MAX = 30
SKEWED = 2.0
_LEAD = (
    "Messages of one key stay in one of an entity's 16 partitions, so a busy key makes a busy partition. Observed: by "
    "the sequence numbers of receipts. Expected: as the embedded broker spreads keys; the service may do it otherwise, "
    "and whether the entity is partitioned at all is not on record."
)


def partitions(summary: Mapping[str, Any], tables: Mapping[str, Rows]) -> str:
    load, skew, keys = (tables.get(name, ()) for name in ("partitions", "partition_skew", "partition_keys"))
    if not load:
        text = "No message on record has a key or was seen in a partition other than the first."
        return section("partitions", "Partitions", _LEAD, paragraph(text))
    ranked = sorted(skew, key=lambda row: (-(row["skew"] or 0.0), row["entity"]))
    left_out = max(0, len(ranked) - HEAT_ROWS_MAX)
    parts = [_heat(load, ranked[:HEAT_ROWS_MAX], left_out)]
    total = max(len(ranked), summary.get("partitioned_entity_count", 0))
    parts.append(
        table(_SKEW_COLUMNS, ranked[:HEAT_ROWS_MAX], label="Skew", of=total, where="see the table partition_skew")
    )
    parts.append(_keys(keys, summary))
    return section("partitions", "Partitions", _LEAD, *parts)


def _heat(load: Rows, ranked: Rows, left_out: int) -> str:
    cells: dict[str, dict[int, dict[str, Any]]] = {}
    for row in load:
        cells.setdefault(row["entity"], {})[int(row["partition"])] = row
    rows = []
    for entity in (row["entity"] for row in ranked if row["entity"] in cells):
        by_partition = cells[entity]
        hottest = max(int(row["messages"]) for row in by_partition.values()) or 1
        marks = [_mark(by_partition.get(index), hottest) for index in range(16)]
        basis = next(iter(by_partition.values()))["basis"]
        rows.append((f"{entity} ({basis})", marks))
    columns = [str(index) for index in range(16)]
    title = "Messages by partition, the darker the more"
    note = f"{left_out:,} more entities, spread more evenly, are not shown." if left_out else ""
    return figure(title, lambda width: heat_map(width, title, columns, rows), (), note)


def _mark(row: Mapping[str, Any] | None, hottest: int) -> tuple[float, str]:
    if row is None:
        return 0.0, "nothing"
    text = (
        f"{count_text(row['messages'])} messages ({share_text(row['share'])}), {bytes_text(row['bytes'])}, "
        f"{count_text(row['keys'])} keys"
    )
    return int(row["messages"]) / hottest, f"partition {row['partition']}: {text}"


_SKEW_COLUMNS = (
    Column(head="entity", text=lambda row: str(row["entity"])),
    Column(head="basis", text=lambda row: str(row["basis"])),
    Column(head="messages", text=lambda row: count_text(row["messages"]), number=True),
    Column(head="keys", text=lambda row: count_text(row["keys"]), number=True),
    Column(head="partitions used", text=lambda row: count_text(row["partitions_used"]), number=True),
    Column(head="hottest", text=lambda row: str(row["hottest_partition"]), number=True),
    Column(head="its share", text=lambda row: share_text(row["hottest_share"]), number=True),
    Column(
        head="over the mean",
        text=lambda row: "–" if row["skew"] is None else f"{row['skew']:.2f} ×",
        number=True,
        style=lambda row: "warn" if (row["skew"] or 0) >= SKEWED else "good",
    ),
    Column(head="hottest key", text=lambda row: share_text(row["hottest_key_share"]), number=True),
    Column(head="keys diverted", text=lambda row: count_text(row["keys_diverted"]), number=True),
    Column(
        head="keys overtaken",
        text=lambda row: count_text(row["keys_overtaken"]),
        number=True,
        style=lambda row: "warn" if row["keys_overtaken"] else "",
    ),
)

_KEY_COLUMNS = (
    Column(head="entity", text=lambda row: str(row["entity"])),
    Column(head="key (hash)", text=lambda row: str(row["key_hash"])),
    Column(head="partition", text=lambda row: "–" if row["partition"] is None else str(row["partition"]), number=True),
    Column(head="messages", text=lambda row: count_text(row["messages"]), number=True),
    Column(head="share", text=lambda row: share_text(row["share"]), number=True),
    Column(head="size", text=lambda row: bytes_text(row["bytes"]), number=True),
    Column(head="diverted", text=lambda row: count_text(row["diverted"]), number=True),
    Column(head="overtaken", text=lambda row: count_text(row["overtaken"]), number=True),
    Column(
        head="order",
        text=lambda row: "–" if row["order_risk"] == "none" else str(row["order_risk"]),
        style=lambda row: "plain bad" if row["order_risk"] == "overtaken" else "plain",
    ),
)


def _keys(keys: Rows, summary: Mapping[str, Any]) -> str:
    if not keys:
        return ""
    text = (
        "Keys whose order suffered come first, then the busiest. Overtaken: messages that went straight to the primary "
        "while an older one of the same key still waited in the backlog."
    )
    total = max(len(keys), summary.get("key_count", 0))
    listed = table(_KEY_COLUMNS, keys[:KEYS_MAX], label="Keys", of=total, where="see the table partition_keys")
    return "<h3>Keys</h3>" + paragraph(text, "lead") + listed
