"""Operations and money, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from pipeline.costs import (
    Assumptions,
    Phase,
    Tier,
    Usage,
    base_charge,
    charges,
    month_of_operations,
    operation_price,
    operations_failed_over,
    operations_normal,
    stages,
    steps,
    without_failover,
)
from pipeline.prices import default_prices
from pipeline.what_if import as_recorded, outcome, scenarios

ASSUMED = Assumptions()
PRICES = default_prices()
# One hour: 1,000 messages went straight to the primary, 100 were diverted for half an hour and came home, one
# of two dead letters among them never did.
USAGE = Usage(
    seconds=3600,
    direct_messages=1000,
    direct_steps=1000,
    diverted_messages=102,
    diverted_steps=202,
    diverted_bytes=10_000_000,
    forwarded_messages=100,
    forwarded_steps=200,
    forwarded_bytes=9_800_000,
    dead_lettered=2,
    failed_attempts=3,
    set_aside=5,
    pings=30,
    ping_rounds=30,
    send_calls_seconds=55.1,
    instance_seconds=7200,
    waiting_queue_seconds=1800,
    queues_used=1,
    backlog_queue_count=10,
    ping_interval_seconds=60,
)


def quantities(usage: Usage, assumed: Assumptions = ASSUMED) -> dict[str, Decimal]:
    return {stage.name: stage.quantity for stage in stages(usage, assumed)}


@pytest.mark.parametrize(
    ("body_bytes", "expected"), [(0, 1), (1, 1), (65_536, 1), (65_537, 2), (98_304, 2), (262_144, 4)]
)
def test_a_message_is_billed_by_steps_of_64_kb(body_bytes: int, expected: int) -> None:
    assert expected == steps(body_bytes)


def test_a_message_takes_three_operations_and_a_diverted_one_six() -> None:
    assert 3 == operations_normal(1_000)
    assert 6 == operations_failed_over(1_000)


def test_a_message_of_96_kb_takes_five_operations_and_a_diverted_one_ten() -> None:
    """Two steps to send and two to receive; completing moves no body."""
    assert 5 == operations_normal(98_304)
    assert 10 == operations_failed_over(98_304)


def test_a_topic_with_three_subscriptions_takes_seven_operations() -> None:
    assert 7 == operations_normal(1_000, Assumptions(deliveries_per_message=3))
    assert 10 == operations_failed_over(1_000, Assumptions(deliveries_per_message=3))


def test_a_million_messages_cost_2_40_and_a_million_diverted_4_80() -> None:
    price = operation_price(PRICES, Tier.STANDARD)
    assert Decimal("2.40") == 1_000_000 * operations_normal(1_000) * price
    assert Decimal("4.80") == 1_000_000 * operations_failed_over(1_000) * price


def test_every_stage_is_counted() -> None:
    expected = {
        "send to primary": 1000,
        "receive from primary": 1000,
        "complete in primary": 1000,
        "failed sends": 3,
        "send to backlog": 202,
        "receive from backlog": 202,
        "complete in backlog": 102,
        "put aside in backlog": 10,
        "send to primary (syphon)": 200,
        "receive from primary (syphon)": 200,
        "complete in primary (syphon)": 100,
        "pings": 30,
        "data between regions": Decimal(19_800_000) / 1024**3,
        # 30 minutes x 62, and the rest of ten queue-hours once an hour: 1,860 + 9.5
        "idle receives of backlog queues": 1870,
        "state storage": 3600,
        "function executions": 1132,
        "function time": Decimal("110.2"),
    }
    assert expected == quantities(USAGE)


def test_records_without_events_cost_nothing() -> None:
    assert {Decimal(0)} == set(quantities(Usage()).values())
    assert 0 == sum(charge.money for charge in charges(stages(Usage(), ASSUMED), PRICES, Tier.STANDARD))


def test_waiting_longer_than_the_records_last_is_not_billed() -> None:
    """One queue, one hour: at most 60 x 62."""
    usage = replace(USAGE, waiting_queue_seconds=99_999.0, backlog_queue_count=1)
    assert 3720 == quantities(usage)["idle receives of backlog queues"]


def test_each_stage_is_charged_at_the_price_of_its_unit() -> None:
    money = {one.stage.name: one.money for one in charges(stages(USAGE, ASSUMED), PRICES, Tier.STANDARD)}
    assert Decimal("0.0008") == money["send to primary"]
    assert Decimal("0.000129600") == money["state storage"]  # 3,600 at 0.00036 for 10,000
    assert Decimal("0.0004528") == money["function executions"]  # 1,132 at 0.40 for a million
    assert Decimal("0.0028652") == money["function time"]  # 110.2 at 0.000026


def test_operations_are_free_in_premium_and_cheap_in_basic() -> None:
    listed = stages(USAGE, ASSUMED)
    premium = {one.stage.name: one.money for one in charges(listed, PRICES, Tier.PREMIUM)}
    basic = {one.stage.name: one.money for one in charges(listed, PRICES, Tier.BASIC)}
    assert 0 == premium["send to primary"]
    assert Decimal("0.00005") == basic["send to primary"]


def test_the_base_charge_of_a_month_by_tier() -> None:
    """A second Standard namespace adds none; each Premium one pays for its messaging unit."""
    hours = Decimal(730)
    assert 0 == base_charge(PRICES, Tier.BASIC, hours, ASSUMED)
    assert Decimal("9.8550") == base_charge(PRICES, Tier.STANDARD, hours, ASSUMED)
    assert Decimal("1354.880") == base_charge(PRICES, Tier.PREMIUM, hours, ASSUMED)


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (0, "0"),
        (13_000_000, "0"),
        (14_000_000, "0.80"),
        (100_000_000, "69.60"),
        (101_000_000, "70.10"),
        (2_500_000_000, "1269.60"),
        (2_501_000_000, "1269.80"),
    ],
)
def test_a_month_of_operations_pays_band_by_band(operations: int, expected: str) -> None:
    assert Decimal(expected) == month_of_operations(Decimal(operations), PRICES, Tier.STANDARD)


def test_without_failover_every_message_takes_the_short_way() -> None:
    direct = quantities(without_failover(USAGE))
    assert 1202 == direct["send to primary"]
    assert 1102 == direct["complete in primary"]
    failover = [stage for stage in stages(without_failover(USAGE), ASSUMED) if stage.phase is Phase.FAILOVER]
    assert {Decimal(0)} == {stage.quantity for stage in failover}


def test_scenarios_change_one_thing_each_and_leave_out_what_is_recorded() -> None:
    listed = scenarios(as_recorded(USAGE, ASSUMED, Tier.STANDARD))
    # fmt: off
    assert [
        "as recorded",
        "1 backlog queue", "5 backlog queues", "20 backlog queues", "50 backlog queues",
        "a ping every 1 s", "a ping every 10 s", "a ping every 5 min", "a ping every 30 min",
        "Basic tier", "Premium tier",
    ] == [one.name for one in listed]
    # fmt: on


def test_a_ping_six_times_as_often_costs_six_times_the_pings() -> None:
    recorded = as_recorded(USAGE, ASSUMED, Tier.STANDARD)
    before = outcome(recorded, recorded, USAGE, ASSUMED, PRICES)
    after = outcome(replace(recorded, ping_interval_seconds=10.0), recorded, USAGE, ASSUMED, PRICES)
    assert 150 == after.operations - before.operations


def test_twenty_queues_stand_for_14600_operations_a_month_and_no_money_beyond_the_base_charge() -> None:
    recorded = as_recorded(USAGE, ASSUMED, Tier.STANDARD)
    twenty = outcome(replace(recorded, queues=20), recorded, USAGE, ASSUMED, PRICES)
    assert 14_600 == twenty.standing_operations_per_month
    assert Decimal("9.8550") == twenty.standing_money_per_month


def test_a_premium_pair_costs_137_times_a_standard_pair_to_keep() -> None:
    recorded = as_recorded(USAGE, ASSUMED, Tier.STANDARD)
    standard, premium = (
        outcome(replace(recorded, tier=tier), recorded, USAGE, ASSUMED, PRICES).standing_money_per_month
        for tier in (Tier.STANDARD, Tier.PREMIUM)
    )
    assert 137 == int(premium / standard)
