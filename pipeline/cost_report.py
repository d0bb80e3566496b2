"""The costs of a report as plain values: for summary.json, and for the page to print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from decimal import Decimal
from typing import Any

from pipeline.costs import (
    MILLION,
    Assumptions,
    Basis,
    Phase,
    Tier,
    Usage,
    base_charge,
    charges,
    operation_price,
    operations_failed_over,
    operations_normal,
    queue_count,
    stages,
    without_failover,
)
from pipeline.prices import Prices
from pipeline.what_if import Outcome, as_recorded, outcome, scenarios

#: What the report says about each assumption.
ASSUMPTIONS = {
    "deliveries_per_message": "receivers of each message: 1 for a queue, matching subscriptions for a topic",
    "empty_queue_operations_per_hour": "operations an hour to wait at an empty backlog queue",
    "waiting_queue_operations_per_minute": "operations a minute at a backlog queue while something waits in it",
    "operations_per_set_aside": "operations to get past a message that cannot move yet, and to fetch it later",
    "state_refresh_seconds": "seconds between two looks of an instance at shared state",
    "function_gb": "GB of memory billed while a function runs",
    "messages_per_call": "messages in one call of the send function",
    "messaging_units_per_namespace": "messaging units of each Premium namespace",
    "backlog_queue_count": "backlog queues, where the records do not tell",
    "ping_interval_seconds": "seconds between pings, where the records do not tell",
}
LIMITS = (
    "Only bodies are on record: properties, which count towards a step of 64 KB as well, are left out.",
    "Operations are charged at the first price beyond the included ones, as in a subscription that is in use already.",
    "Receiving and completing in the primary is done by the receivers, of whom the records know nothing: one of each "
    "for every message is assumed.",
    "Basic has queues only: no topics, sessions, transactions or duplicate detection. Premium has no partitioned "
    "entities of this kind.",
    "The base charge of Standard is paid once for a subscription, so the second namespace adds none.",
    "Transfer is charged for bodies that went to the other region and back, as if the two namespaces were in two.",
    "Functions are charged as if no two sends ever ran at once: an upper bound. Free grants are ignored.",
)


def costs_of(usage: Usage, prices: Prices, tier: Tier = Tier.STANDARD) -> dict[str, Any]:
    assumed = Assumptions()
    listed = stages(usage, assumed)
    recorded = as_recorded(usage, assumed, tier)
    hours = Decimal(str(round(usage.seconds, 6))) / 3600
    base = base_charge(prices, tier, hours, assumed)
    return {
        "prices": {"date": prices.date.isoformat(), "currency": prices.currency, "source": prices.source},
        "tier": tier.value,
        "hours": float(hours),
        "accepted": usage.accepted_messages,
        "base": float(base),
        "per_message": _per_message(assumed, prices, tier),
        "stages": [
            {**asdict(one.stage), "unit_price": one.unit_price, "money": one.money}
            for one in charges(listed, prices, tier)
        ],
        "before": _total(without_failover(usage), assumed, prices, tier),
        "after": _total(usage, assumed, prices, tier),
        "what_if": [_outcome(outcome(one, recorded, usage, assumed, prices)) for one in scenarios(recorded)],
        "queues": queue_count(usage, assumed),
        "assumptions": [
            {"name": field.name, "value": getattr(assumed, field.name), "meaning": ASSUMPTIONS[field.name]}
            for field in fields(Assumptions)
            if not _is_recorded(field.name, usage)
        ],
        "limits": list(LIMITS),
    } | {"measured_share": _measured_share(listed)}


def _per_message(assumed: Assumptions, prices: Prices, tier: Tier) -> dict[str, Any]:
    price = operation_price(prices, tier)
    normal, failed_over = operations_normal(1, assumed), operations_failed_over(1, assumed)
    return {
        "normal_operations": normal,
        "failed_over_operations": failed_over,
        "operation_price_per_million": price * MILLION,
        "normal_per_million": normal * price * MILLION,
        "failed_over_per_million": failed_over * price * MILLION,
    }


def _total(usage: Usage, assumed: Assumptions, prices: Prices, tier: Tier) -> dict[str, Any]:
    billed = charges(stages(usage, assumed), prices, tier)
    return {
        "operations": sum((one.stage.quantity for one in billed if one.stage.unit == "operations"), Decimal(0)),
        "money": sum((one.money for one in billed), Decimal(0)),
        **{phase.value: sum((one.money for one in billed if one.stage.phase is phase), Decimal(0)) for phase in Phase},
    }


def _outcome(found: Outcome) -> Mapping[str, Any]:
    return {
        "name": found.scenario.name,
        "tier": found.scenario.tier.value,
        "queues": found.scenario.queues,
        "ping_interval_seconds": found.scenario.ping_interval_seconds,
        "operations": found.operations,
        "money": found.money,
        "standing_operations_per_month": found.standing_operations_per_month,
        "standing_money_per_month": found.standing_money_per_month,
    }


def _is_recorded(name: str, usage: Usage) -> bool:
    return getattr(usage, name, None) is not None


def _measured_share(listed: tuple[Any, ...]) -> float | None:
    """How much of the operations was counted, and not assumed."""
    operations = [one for one in listed if one.unit == "operations"]
    total = sum(one.quantity for one in operations)
    measured = sum(one.quantity for one in operations if one.basis is Basis.MEASURED)
    return float(measured / total) if total else None
