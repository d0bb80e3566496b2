"""The summary and the tables of a made-up afternoon, for tests of the page: every chart has something to show."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeline.cost_report import costs_of
from pipeline.costs import Usage
from pipeline.prices import default_prices
from pipeline.proof import proof

Row = dict[str, Any]
BEGIN = datetime(2026, 11, 18, 12, 0, 0, tzinfo=UTC)
MINUTES = 120
#: entity, when it became suspect and unavailable and available again, in minutes; None: not over.
OUTAGES = (
    ("orders", 20.0, 21.0, 48.0),
    ("orders", 80.0, 80.0, 86.5),
    ("invoices", 24.0, 25.0, 47.0),
    ("telemetry/devices", 60.0, None, 61.5),
    ("notifications", 100.0, 101.0, None),
)
ENTITIES = ("orders", "invoices", "telemetry/devices", "notifications", "audit-trail")


def at(minutes: float) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


def sample(*, lost: int = 0, killed: int = 0, seed: int = 7) -> tuple[dict[str, Any], dict[str, list[Row]]]:
    rng = random.Random(seed)
    tables = {
        "deliveries": _deliveries(lost),
        "time_line": _time_line(),
        "outages": [_outage(*one) for one in OUTAGES],
        "sends": [_sends(entity, 400_000 - 70_000 * rank) for rank, entity in enumerate(ENTITIES)],
        "sends_by_time": [row for entity in ENTITIES[:3] for row in _by_time(entity, rng)],
        "drain": _drain(),
        "partitions": [row for entity in ("orders", "telemetry/devices") for row in _partitions(entity, rng)],
        "partition_skew": [_skew("orders", 4.1, 3), _skew("telemetry/devices", 1.2, 0)],
        "partition_keys": [_key(index, rng) for index in range(40)],
    }
    return json.loads(json.dumps(_summary(lost, killed), default=str)), tables


def _summary(lost: int, killed: int) -> dict[str, Any]:
    usage = Usage(
        seconds=MINUTES * 60.0,
        direct_messages=1_180_000,
        direct_steps=1_204_000,
        diverted_messages=86_420,
        diverted_steps=88_000,
        diverted_bytes=412_000_000,
        forwarded_messages=86_100,
        forwarded_steps=87_700,
        forwarded_bytes=410_500_000,
        dead_lettered=12,
        failed_attempts=311,
        set_aside=640,
        pings=92,
        ping_rounds=62,
        send_calls_seconds=31_800.0,
        instance_seconds=21_600.0,
        waiting_queue_seconds=5_400.0,
        queues_used=4,
        backlog_queue_count=10,
        ping_interval_seconds=60.0,
    )
    summary: dict[str, Any] = {
        "first_at": at(0).isoformat(),
        "last_at": at(MINUTES).isoformat(),
        "events": 2_710_233,
        "instances": 3,
        "accepted": 1_266_420,
        "delivered": 1_266_100 - lost,
        "delivered_via_primary": 1_180_000,
        "delivered_via_backlog": 86_100 - lost,
        "waiting": 308,
        "dead_lettered": 9,
        "expired": 3,
        "lost": lost,
        "duplicated": 2,
        "possible_duplicates": 0,
        "refused": 41,
        "unrecorded": 0,
        "on_the_brokers_word": 0,
        "sent_again": 4,
        "killed_instances": killed,
        "missing_records": 17 if killed else 0,
        "longest_wait_seconds": 1_743.2,
        "outage_count": 5,
        "lane_count": 23,
        "entity_count": 22,
        "key_count": 1_840,
        "usage": usage.__class__.__name__,
        "costs": costs_of(usage, default_prices()),
    }
    return {**summary, "proof": proof(summary)}


def _deliveries(lost: int) -> list[Row]:
    fates = ["lost"] * lost + ["waiting"] * 40 + ["dead-lettered"] * 9 + ["expired"] * 3 + ["refused"] * 20
    return [
        {
            "path": ENTITIES[index % 3],
            "message_id": f"order-{index:06}-8c1f6a" if index else '<img src=x onerror="alert(1)">',
            "status": fate,
            "route": "primary" if index % 3 else "backlog",
            "evidence": "audit" if fate == "lost" else "record",
            "accepted_at": None if fate == "refused" else at(22 + index / 10),
            "waited_seconds": None if fate in ("lost", "waiting", "refused") else 120.5 * index,
            "copies": None,
            "duplicated": False,
        }
        for index, fate in enumerate(fates)
    ]


def _time_line() -> list[Row]:
    rows = []
    for entity in ENTITIES:
        cursor = 0.0
        for _, suspect, down, over in (one for one in OUTAGES if one[0] == entity):
            end = MINUTES if over is None else over
            rows.append(_interval(entity, "available", cursor, suspect))
            if down is None or suspect < down:
                rows.append(_interval(entity, "suspect", suspect, end if down is None else down))
            if down is not None:
                rows.append(_interval(entity, "unavailable", down, over))
            cursor = float(end)
            if over is None:
                break
        else:
            rows.append(_interval(entity, "available", cursor, None))
    rows += [{**_interval("orders", "unavailable", 63, 71), "key": "9f86d081884c"}]
    return rows


def _interval(entity: str, state: str, start: float, end: float | None) -> Row:
    return {
        "entity": entity,
        "key": None,
        "state": state,
        "started_at": at(start),
        "ended_at": None if end is None else at(end),
        "seconds": None if end is None else (end - start) * 60,
        "reason": None if state == "available" else "timeout: no answer within 5 s",
    }


def _outage(entity: str, suspect: float, down: float | None, over: float | None) -> Row:
    failed_over = down is not None
    return {
        "entity": entity,
        "key": None,
        "started_at": at(suspect),
        "first_failure_at": at(suspect),
        "suspected_at": at(suspect),
        "unavailable_at": at(down) if down is not None else None,
        "ended_at": None if over is None else at(over),
        "reason": "timeout: no answer within 5 s",
        "failovers": int(failed_over),
        "seconds": None if over is None else (over - suspect) * 60,
        "unavailable_seconds": None,
        "seconds_to_detect": 0.0,
        "seconds_to_fail_over": (down - suspect) * 60 + 0.4 if down is not None else None,
        "seconds_to_fail_back": None if over is None else 1.3,
        "seconds_to_drain": None if over is None or not failed_over else 212.0,
        "diverted": 31_200 if failed_over else 0,
        "still_waiting": 308 if over is None else 0,
        "accepted": 31_200 if failed_over else 412,
        "refused": 11,
        "mistakes": 0,
        "availability": 0.99965 if failed_over else 0.974,
        "p50": 0.012,
        "p95": 0.041,
        "p99": 5.02,
        "slowest": 6.1,
    }


def _sends(entity: str, accepted: int) -> Row:
    refused = accepted // 70_000 % 3 * 7
    return {
        "entity": entity, "accepted": accepted, "diverted": accepted // 14, "refused": refused, "mistakes": 2,
        "availability": accepted / (accepted + refused), "p50": 0.009, "p95": 0.031, "p99": 0.6, "slowest": 6.1,
    }  # fmt: skip


def _by_time(entity: str, rng: random.Random) -> list[Row]:
    rows = []
    for minute in range(0, MINUTES):
        if entity == "telemetry/devices" and 30 <= minute < 38:
            continue  # nothing was sent
        down = any(one[0] == entity and (one[2] or 999) <= minute < (one[3] or MINUTES) for one in OUTAGES)
        suspect = any(one[0] == entity and one[1] <= minute < (one[2] or one[3] or MINUTES) for one in OUTAGES)
        sent = round(4000 + 900 * rng.random() + 1500 * (minute > 70))
        slow = 5.0 if suspect else 0.09 if down else 0.03
        rows.append(
            {
                "entity": entity, "bucket": at(minute), "bucket_seconds": 60, "accepted": sent,
                "diverted": sent if down else 0, "refused": 700 if suspect and not down else 0, "mistakes": 0,
                "p50": 0.008 + 0.004 * rng.random() + 0.01 * down, "p95": slow * (0.8 + rng.random()),
                "p99": slow * (2 + rng.random()), "slowest": slow * 4,
            }
        )  # fmt: skip
    return rows


def _drain() -> list[Row]:
    rows = []
    for entity, down, over in (
        ("orders", 21, 48),
        ("invoices", 25, 47),
        ("orders", 80, 86),
        ("notifications", 101, None),
    ):
        depth = 0
        for minute in range(down, MINUTES if over is None else over):
            depth += 700 + 90 * (minute % 5)
            rows.append({"entity": entity, "bucket": at(minute), "entered": 700, "left": 0, "depth": depth})
        for index in range(1, 6 if over is not None else 1):
            left = depth - round(depth * index / 5)
            rows.append({"entity": entity, "bucket": at((over or 0) + index), "entered": 0, "left": 0, "depth": left})
    return rows


def _partitions(entity: str, rng: random.Random) -> list[Row]:
    weights = [rng.random() + (6 if index == 11 and entity == "orders" else 0.6) for index in range(16)]
    if entity != "orders":
        weights[3] = 0.0
    total = sum(weights)
    return [
        {
            "entity": entity, "basis": "observed", "partition": index, "messages": round(600_000 * weight / total),
            "bytes": round(9e8 * weight / total), "keys": round(120 * weight), "share": weight / total,
        }
        for index, weight in enumerate(weights)
    ]  # fmt: skip


def _skew(entity: str, skew: float, overtaken: int) -> Row:
    return {
        "entity": entity, "basis": "observed", "messages": 600_000, "partitions_used": 16, "hottest_partition": 11,
        "hottest_share": skew / 16, "skew": skew, "variation": 0.4, "keys": 920, "hottest_key_share": skew / 20,
        "keys_diverted": 220, "keys_overtaken": overtaken, "overtaken": overtaken * 2,
    }  # fmt: skip


def _key(index: int, rng: random.Random) -> Row:
    risk = "overtaken" if index < 3 else "delayed" if index < 12 else "none"
    return {
        "entity": "orders", "key_hash": f"{rng.getrandbits(64):016x}", "partition": rng.randrange(16),
        "partitions_seen": 1, "messages": 90_000 // (index + 1), "bytes": 140_000_000 // (index + 1),
        "share": 0.2 / (index + 1), "diverted": 0 if risk == "none" else 420, "overtaken": 2 * (index < 3),
        "order_risk": risk,
    }  # fmt: skip
