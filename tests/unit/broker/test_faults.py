"""Fault rules: strict to write, seeded, counted, and aimed."""

from __future__ import annotations

from typing import Any

import pytest

from local.broker.errors import SERVER_BUSY, BrokerError
from local.broker.faults import CALM, HELD_MAX, KINDS, RULES_MAX, FaultPlan, FaultRule, FaultSpec, Point


def plan(**fault: Any) -> tuple[FaultPlan, FaultRule]:
    made = FaultPlan()
    return made, made.add(FaultSpec.from_json(fault))


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("throttle", "JSON object"),
        ({"kind": "throttel"}, "unknown kind 'throttel'"),
        ({"kind": "throttle", "entiti": "x"}, "unknown field 'entiti'"),
        ({"kind": "throttle", "rate": 2}, "rate must be from 0 to 1"),
        ({"kind": "throttle", "rate": "1"}, "rate has the wrong type"),
        ({"kind": "throttle", "rate": True}, "rate has the wrong type"),
        ({"kind": "throttle", "count": -1}, "count has the wrong type or is negative"),
        ({"kind": "throttle", "points": ["nowhere"]}, "points is a list of cbs, attach"),
        ({"kind": "throttle", "points": "send"}, "points is a list"),
        ({"kind": "throttle", "direction": "up"}, "direction is send or receive"),
        ({"kind": "delay"}, "a delay needs delay_s or jitter_s"),
        ({"kind": "delay", "delay_s": 4000}, "delay_s \\+ jitter_s must be from 0 to 3600"),
        ({"kind": "refuse", "entity": "orders"}, "refuse strikes a whole namespace"),
        ({"kind": "refuse", "count": 3}, "refuse of a whole namespace has no points"),
        ({"kind": "black-hole", "points": ["send"]}, "black-hole of a whole namespace has no points"),
        ({"kind": "drop-cbs", "points": ["send"]}, "drop-cbs cannot strike at send"),
        ({"kind": "lose-acknowledgement", "points": ["cbs"]}, "cannot strike at cbs"),
        ({"kind": "reset", "reset": "yes"}, "reset has the wrong type"),
        ({"kind": "partition-down"}, "needs partition, from 0 to 15"),
        ({"kind": "partition-down", "partition": 16}, "needs partition, from 0 to 15"),
        ({"kind": "partition-slow", "partition": 1}, "needs delay_s"),
        ({"kind": "partition-full", "partition": 1, "rate": 0.5}, "holds until it is cleared"),
        ({"kind": "throttle", "partition": 1}, "does not strike single partitions"),
    ],
)
def test_a_wrong_fault_is_refused_by_name(fault: object, problem: str) -> None:
    with pytest.raises(BrokerError, match=problem):
        FaultSpec.from_json(fault)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_written_and_read_back(kind: str) -> None:
    needed = {"partition": 3} if kind.startswith("partition") else {}
    delay = {"delay_s": 1.0} if kind in ("delay", "partition-slow") else {}
    fault = {"kind": kind, "namespace": "primary", **needed, **delay}
    assert fault == FaultSpec.from_json(fault).to_json()


def test_points_are_shown_as_they_were_written() -> None:
    fault = {"kind": "error", "points": ["attach", "settle"], "rate": 0.5, "seed": 3, "condition": "amqp:not-found"}
    assert fault == FaultSpec.from_json(fault).to_json()


def test_without_rules_everything_is_calm() -> None:
    assert CALM is FaultPlan().at(Point.SEND, "primary", "orders")


def test_a_rule_strikes_its_namespace_entity_and_point_only() -> None:
    made, rule = plan(kind="throttle", namespace="Primary", entity="ORDERS")
    assert CALM is made.at(Point.SEND, "secondary", "orders")
    assert CALM is made.at(Point.SEND, "primary", "other")
    assert CALM is made.at(Point.SETTLE, "primary", "orders")
    strike = made.at(Point.SEND, "primary", "Orders")
    assert strike.error is not None
    assert (SERVER_BUSY, 1, 1) == (strike.error.condition, rule.hits, rule.seen)


def test_an_entity_may_be_a_pattern() -> None:
    made, _ = plan(kind="full", entity="backlog/*")
    assert CALM is not made.at(Point.SEND, "primary", "backlog/7")
    assert CALM is made.at(Point.SEND, "primary", "orders")


def test_a_direction_aims_at_senders_or_receivers() -> None:
    made, _ = plan(kind="disable", direction="receive")
    assert CALM is made.at(Point.SEND, "primary", "orders")
    assert CALM is made.at(Point.ATTACH, "primary", "orders", "send")
    assert CALM is made.at(Point.MANAGEMENT, "primary", "orders")
    assert CALM is not made.at(Point.ATTACH, "primary", "orders", "receive")
    assert CALM is not made.at(Point.DELIVER, "primary", "orders")


def test_after_and_count_bound_the_strikes() -> None:
    made, rule = plan(kind="full", after=2, count=3)
    struck = [made.at(Point.SEND, "p", "q") is not CALM for _ in range(8)]
    assert [False, False, True, True, True, False, False, False] == struck
    assert (3, 8) == (rule.hits, rule.seen)


def test_the_same_seed_strikes_the_same_operations() -> None:
    def run(seed: int) -> list[bool]:
        made, _ = plan(kind="full", rate=0.3, seed=seed)
        return [made.at(Point.SEND, "p", "q") is not CALM for _ in range(200)]

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert 30 < sum(run(1)) < 90


def test_random_delays_stay_within_their_bounds() -> None:
    made, _ = plan(kind="delay", delay_s=1, jitter_s=0.5)
    delays = {made.at(Point.SEND, "p", "q").delay_s for _ in range(50)}
    assert len(delays) > 40
    assert all(1 <= delay <= 1.5 for delay in delays)


def test_several_rules_strike_together() -> None:
    made, _ = plan(kind="delay", delay_s=1)
    made.add(FaultSpec.from_json({"kind": "full"}))
    strike = made.at(Point.SEND, "p", "q")
    assert 1 == strike.delay_s
    assert strike.error is not None


def test_what_a_black_hole_holds_goes_on_in_order_when_it_is_cleared() -> None:
    made, rule = plan(kind="black-hole", entity="orders")
    done: list[int] = []
    for index in range(3):
        held_by = made.at(Point.SEND, "p", "orders").held_by
        assert held_by is rule
        held_by.hold(lambda index=index: done.append(index))  # type: ignore[misc]
    assert [] == done
    assert 1 == made.clear(rule.id)
    assert [0, 1, 2] == done


def test_a_black_hole_holds_so_much_and_no_more() -> None:
    _, rule = plan(kind="black-hole", entity="orders")
    for _ in range(HELD_MAX + 5):
        rule.hold(lambda: None)
    assert HELD_MAX == len(rule.held)


def test_network_faults_are_for_whole_namespaces() -> None:
    made, rule = plan(kind="black-hole", namespace="primary")
    assert (rule, None) == (made.network("black-hole", "primary"), made.network("black-hole", "secondary"))
    assert CALM is made.at(Point.SEND, "primary", "orders")


def test_a_reset_by_input_strikes_at_no_point() -> None:
    made, rule = plan(kind="reset", after_bytes=100)
    assert CALM is made.at(Point.SEND, "p", "q")
    assert [rule] == made.resets_after("p")


def test_listeners_hear_of_every_change_and_rules_have_a_limit() -> None:
    made = FaultPlan()
    heard: list[int] = []
    made.on_change(lambda: heard.append(len(made.rules)))
    spec = FaultSpec(kind="full")
    first = made.add(spec)
    made.clear(first.id)
    assert 0 == made.clear(first.id)
    assert [1, 0] == heard
    for _ in range(RULES_MAX):
        made.add(spec)
    with pytest.raises(BrokerError, match="clear some"):
        made.add(spec)
    assert RULES_MAX == made.clear()
