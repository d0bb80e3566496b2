"""What the same records would have cost with other options: the figures scaled, and nothing else pretended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from pipeline.axes import seconds_text
from pipeline.costs import (
    HOURS_PER_MONTH,
    Assumptions,
    Tier,
    Usage,
    base_charge,
    charges,
    month_of_operations,
    queue_count,
    stages,
)
from pipeline.prices import Prices

QUEUE_COUNTS = (1, 5, 10, 20, 50)
PING_INTERVALS_S = (1, 10, 60, 300, 1800)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    name: str
    tier: Tier
    queues: int
    ping_interval_seconds: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    scenario: Scenario
    operations: Decimal
    #: Of the recorded time, at the price of an operation beyond the included ones; base charge in.
    money: Decimal
    #: Of a month with no outage and no message: base charge, and idle receives after the included operations.
    standing_operations_per_month: Decimal
    standing_money_per_month: Decimal


def as_recorded(usage: Usage, assumed: Assumptions, tier: Tier) -> Scenario:
    return Scenario(
        name="as recorded",
        tier=tier,
        queues=queue_count(usage, assumed),
        ping_interval_seconds=usage.ping_interval_seconds or assumed.ping_interval_seconds,
    )


def scenarios(recorded: Scenario) -> tuple[Scenario, ...]:
    """The recorded one, and each with one thing changed."""
    queues = [
        replace(recorded, name=f"{count} backlog queue{'s' if count > 1 else ''}", queues=count)
        for count in QUEUE_COUNTS
    ]
    pings = [
        replace(recorded, name=f"a ping every {seconds_text(seconds)}", ping_interval_seconds=float(seconds))
        for seconds in PING_INTERVALS_S
    ]
    tiers = [replace(recorded, name=f"{tier.value.capitalize()} tier", tier=tier) for tier in Tier]
    others = [one for one in (*queues, *pings, *tiers) if replace(one, name=recorded.name) != recorded]
    return (recorded, *others)


def outcome(scenario: Scenario, recorded: Scenario, usage: Usage, assumed: Assumptions, prices: Prices) -> Outcome:
    changed = stages(scaled(usage, recorded, scenario), assumed)
    billed = charges(changed, prices, scenario.tier)
    hours = Decimal(str(round(usage.seconds, 6))) / 3600
    idle = Decimal(scenario.queues * assumed.empty_queue_operations_per_hour * HOURS_PER_MONTH)
    month = Decimal(HOURS_PER_MONTH)
    return Outcome(
        scenario=scenario,
        operations=sum((one.quantity for one in changed if one.unit == "operations"), Decimal(0)),
        money=sum((one.money for one in billed), Decimal(0)) + base_charge(prices, scenario.tier, hours, assumed),
        standing_operations_per_month=idle,
        standing_money_per_month=base_charge(prices, scenario.tier, month, assumed)
        + month_of_operations(idle, prices, scenario.tier),
    )


def scaled(usage: Usage, recorded: Scenario, scenario: Scenario) -> Usage:
    """Pings go with their rate. Queues that hold nothing add idle receives; fewer queues than were in use wait less."""
    rate = recorded.ping_interval_seconds / scenario.ping_interval_seconds
    kept = min(1.0, scenario.queues / usage.queues_used) if usage.queues_used else 1.0
    return replace(
        usage,
        pings=round(usage.pings * rate),
        ping_rounds=round(usage.ping_rounds * rate),
        waiting_queue_seconds=usage.waiting_queue_seconds * kept,
        backlog_queue_count=scenario.queues,
    )
