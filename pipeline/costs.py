"""From counts to money: plain arithmetic over frozen values. What is counted comes from `pipeline.usage`.

An operation is any call that the service bills: sending, receiving and settling one message each, by steps of 64 KB
where the message travels. So a message that goes straight through takes three (send, receive, complete), and one that
was diverted takes six (the same three in the backlog queue first).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from pipeline.prices import Prices

STEP_BYTES = 64 * 1024
HOURS_PER_MONTH = 730
MILLION = Decimal(1_000_000)
_GIB = Decimal(1 << 30)


class Tier(StrEnum):
    BASIC = "basic"
    STANDARD = "standard"
    PREMIUM = "premium"


class Basis(StrEnum):
    MEASURED = "measured"
    ASSUMED = "assumed"


class Phase(StrEnum):
    """Why a stage is there at all."""

    NORMAL = "normal"
    FAILOVER = "failover"
    STANDING = "standing"


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """What the records do not say. The report prints every one of them."""

    #: Receivers of each message: 1 for a queue, the number of matching subscriptions for a topic.
    deliveries_per_message: int = 1
    #: Operations of a backlog queue's receiver while the queue is empty: the renewal of a token.
    empty_queue_operations_per_hour: int = 1
    #: While something waits: one look a second, and the renewal of one lock.
    waiting_queue_operations_per_minute: int = 62
    #: Putting a message aside, and fetching it again.
    operations_per_set_aside: int = 2
    state_refresh_seconds: int = 2
    #: What is billed while a function runs.
    function_gb: int = 2
    messages_per_call: int = 1
    messaging_units_per_namespace: int = 1
    #: Used where the records do not tell; both are the options' defaults.
    backlog_queue_count: int = 10
    ping_interval_seconds: int = 60


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What was counted in the records. Steps are units of 64 KB; a message has at least one."""

    seconds: float = 0.0
    direct_messages: int = 0
    direct_steps: int = 0
    diverted_messages: int = 0
    diverted_steps: int = 0
    diverted_bytes: int = 0
    forwarded_messages: int = 0
    forwarded_steps: int = 0
    forwarded_bytes: int = 0
    dead_lettered: int = 0
    failed_attempts: int = 0
    set_aside: int = 0
    pings: int = 0
    ping_rounds: int = 0
    send_calls_seconds: float = 0.0
    instance_seconds: float = 0.0
    #: Summed over backlog queues: how long something waited in them.
    waiting_queue_seconds: float = 0.0
    queues_used: int = 0
    backlog_queue_count: int | None = None
    ping_interval_seconds: float | None = None

    @property
    def accepted_messages(self) -> int:
        return self.direct_messages + self.diverted_messages


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One kind of work: how much of it, and how that figure came about."""

    name: str
    phase: Phase
    unit: str
    quantity: Decimal
    basis: Basis
    arithmetic: str


@dataclass(frozen=True, kw_only=True)
class Charge:
    stage: Stage
    unit_price: Decimal
    money: Decimal


def steps(body_bytes: int) -> int:
    return max(1, -(-body_bytes // STEP_BYTES))


def operations_normal(body_bytes: int, assumed: Assumptions = Assumptions()) -> int:
    """Send, then receive and complete for every receiver."""
    return steps(body_bytes) + assumed.deliveries_per_message * (steps(body_bytes) + 1)


def operations_failed_over(body_bytes: int, assumed: Assumptions = Assumptions()) -> int:
    """Into the backlog queue and out of it, and then as any other message."""
    return steps(body_bytes) + steps(body_bytes) + 1 + operations_normal(body_bytes, assumed)


def stages(usage: Usage, assumed: Assumptions) -> tuple[Stage, ...]:
    return (*_normal(usage, assumed), *_failover(usage, assumed), *_standing(usage, assumed))


def _normal(usage: Usage, assumed: Assumptions) -> tuple[Stage, ...]:
    each, sent = assumed.deliveries_per_message, usage.direct_messages
    received = f"{usage.direct_steps:,} steps × {each} receiver(s)"
    return (
        _stage("send to primary", Phase.NORMAL, usage.direct_steps, f"{sent:,} accepted, by 64 KB steps"),
        _stage("receive from primary", Phase.NORMAL, usage.direct_steps * each, received, Basis.ASSUMED),
        _stage("complete in primary", Phase.NORMAL, sent * each, f"{sent:,} × {each} receiver(s)", Basis.ASSUMED),
    )


def _failover(usage: Usage, assumed: Assumptions) -> tuple[Stage, ...]:
    each, moved, gone = assumed.deliveries_per_message, usage.forwarded_messages, usage.dead_lettered
    aside = assumed.operations_per_set_aside
    size = Decimal(usage.diverted_bytes + usage.forwarded_bytes) / _GIB
    taken = f"{moved:,} forwarded, by 64 KB steps, + {gone:,} dead-lettered"
    received = f"{usage.forwarded_steps:,} steps × {each} receiver(s)"
    phase = Phase.FAILOVER
    return (
        _stage("failed sends", phase, usage.failed_attempts, "attempts that failed, billed as if they had arrived"),
        _stage("send to backlog", phase, usage.diverted_steps, f"{usage.diverted_messages:,} diverted, by 64 KB steps"),
        _stage("receive from backlog", phase, usage.forwarded_steps + gone, taken),
        _stage("complete in backlog", phase, moved + gone, f"{moved:,} forwarded + {gone:,} dead-lettered"),
        _stage("put aside in backlog", phase, usage.set_aside * aside, f"{usage.set_aside:,} put aside × {aside}"),
        _stage("send to primary (syphon)", phase, usage.forwarded_steps, f"{moved:,} forwarded, by 64 KB steps"),
        _stage("receive from primary (syphon)", phase, usage.forwarded_steps * each, received, Basis.ASSUMED),
        _stage("complete in primary (syphon)", phase, moved * each, f"{moved:,} × {each} receiver(s)", Basis.ASSUMED),
        _stage("pings", phase, usage.pings, f"{usage.pings:,} sent"),
        Stage(
            name="data between regions",
            phase=phase,
            unit="GB",
            quantity=size,
            basis=Basis.MEASURED,
            arithmetic=f"{usage.diverted_bytes:,} bytes out + {usage.forwarded_bytes:,} bytes back",
        ),
    )


def _standing(usage: Usage, assumed: Assumptions) -> tuple[Stage, ...]:
    queues = queue_count(usage, assumed)
    all_queue_seconds = queues * _decimal(usage.seconds)
    waiting = min(_decimal(usage.waiting_queue_seconds), all_queue_seconds)
    empty_hours = (all_queue_seconds - waiting) / 3600
    rate, per_hour = assumed.waiting_queue_operations_per_minute, assumed.empty_queue_operations_per_hour
    idle = waiting / 60 * rate + empty_hours * per_hour
    refreshes = _decimal(usage.instance_seconds) / assumed.state_refresh_seconds
    calls = Decimal(usage.accepted_messages) / assumed.messages_per_call + usage.ping_rounds
    busy = _decimal(usage.send_calls_seconds) / assumed.messages_per_call * assumed.function_gb
    # fmt: off
    return (
        Stage(name="idle receives of backlog queues", phase=Phase.STANDING, unit="operations", quantity=_whole(idle),
              basis=Basis.ASSUMED, arithmetic=f"{waiting / 60:,.1f} queue-minutes with something waiting × {rate} + "
              f"{empty_hours:,.1f} empty queue-hours × {per_hour} ({queues} queues)"),
        Stage(name="state storage", phase=Phase.STANDING, unit="transactions", quantity=_whole(refreshes),
              basis=Basis.ASSUMED, arithmetic=f"{usage.instance_seconds:,.0f} instance-seconds ÷ "
              f"{assumed.state_refresh_seconds} s between refreshes"),
        Stage(name="function executions", phase=Phase.STANDING, unit="executions", quantity=_whole(calls),
              basis=Basis.ASSUMED, arithmetic=f"{usage.accepted_messages:,} sends ÷ {assumed.messages_per_call} "
              f"to a call + {usage.ping_rounds:,} ping rounds"),
        Stage(name="function time", phase=Phase.STANDING, unit="GB-seconds", quantity=busy,
              basis=Basis.ASSUMED, arithmetic=f"{usage.send_calls_seconds:,.1f} s of sends × {assumed.function_gb} GB, "
              "as if no two ran at once"),
    )
    # fmt: on


def queue_count(usage: Usage, assumed: Assumptions) -> int:
    return usage.backlog_queue_count or assumed.backlog_queue_count


def charges(listed: tuple[Stage, ...], prices: Prices, tier: Tier) -> tuple[Charge, ...]:
    """At the price of an operation beyond the included ones: what this traffic adds to a subscription in use."""
    by_unit = {
        "operations": operation_price(prices, tier),
        "GB": prices.transfer_per_gb,
        "transactions": prices.storage_per_10000 / 10_000,
        "executions": prices.functions_per_million / MILLION,
        "GB-seconds": prices.functions_per_gb_second,
    }
    return tuple(
        Charge(stage=one, unit_price=by_unit[one.unit], money=one.quantity * by_unit[one.unit]) for one in listed
    )


def operation_price(prices: Prices, tier: Tier) -> Decimal:
    match tier:
        case Tier.BASIC:
            return prices.basic_per_million / MILLION
        case Tier.STANDARD:
            return prices.standard_per_million / MILLION
        case Tier.PREMIUM:
            return Decimal(0)


def base_charge(prices: Prices, tier: Tier, hours: Decimal, assumed: Assumptions) -> Decimal:
    """Of both namespaces. Standard's is charged once for a subscription, however many namespaces it has."""
    match tier:
        case Tier.BASIC:
            return Decimal(0)
        case Tier.STANDARD:
            return hours * prices.standard_base_per_hour
        case Tier.PREMIUM:
            return hours * prices.premium_per_unit_hour * 2 * assumed.messaging_units_per_namespace


def month_of_operations(operations: Decimal, prices: Prices, tier: Tier) -> Decimal:
    """What so many operations cost in one month, with included operations and discounts by volume."""
    if tier is not Tier.STANDARD:
        return operations * operation_price(prices, tier)
    money, floor = Decimal(0), Decimal(prices.standard_included_per_month)
    for band in prices.standard_bands:
        limit = band.up_to_operations_per_month
        ceiling = operations if limit is None else min(operations, Decimal(limit))
        if ceiling > floor:
            money += (ceiling - floor) * band.per_million_operations / MILLION
            floor = ceiling
    return money


def without_failover(usage: Usage) -> Usage:
    """The same messages, had the primary taken each of them at once."""
    return replace(
        Usage(
            seconds=usage.seconds,
            instance_seconds=usage.instance_seconds,
            send_calls_seconds=usage.send_calls_seconds,
            backlog_queue_count=usage.backlog_queue_count,
            ping_interval_seconds=usage.ping_interval_seconds,
        ),
        direct_messages=usage.accepted_messages,
        direct_steps=usage.direct_steps + usage.diverted_steps,
    )


def _stage(name: str, phase: Phase, quantity: int, arithmetic: str, basis: Basis = Basis.MEASURED) -> Stage:
    return Stage(
        name=name, phase=phase, unit="operations", quantity=Decimal(quantity), basis=basis, arithmetic=arithmetic
    )


def _decimal(value: float) -> Decimal:
    return Decimal(str(round(value, 6)))


def _whole(value: Decimal) -> Decimal:
    return value.to_integral_value()
