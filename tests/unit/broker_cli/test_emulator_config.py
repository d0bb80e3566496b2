"""Entities come from a file in the shape of Microsoft's emulator, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from local.broker import emulator_config
from local.broker.auth import KeyRing
from local.broker.clock import ManualClock
from local.broker.descriptions import CorrelationFilter, SqlFilter, SqlRuleAction
from local.broker.journal import MemoryJournal
from local.broker.namespace import Namespace

Load = Callable[[dict[str, Any]], int]

BROKEN_RULE = {"Name": "r", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "("}}}


@pytest.fixture
def namespace() -> Namespace:
    return Namespace("primary", clock=ManualClock(), journal=MemoryJournal(), keys=KeyRing())


@pytest.fixture
def load(tmp_path: Path, namespace: Namespace) -> Load:
    def run(content: dict[str, Any], name: str = "primary") -> int:
        file = tmp_path / "entities.json"
        file.write_text(json.dumps({"UserConfig": {"Namespaces": [{"Name": name, **content}]}}))
        return emulator_config.load(file, {"primary": namespace})

    return run


def test_queues_topics_subscriptions_and_rules_are_created_as_written(load: Load, namespace: Namespace) -> None:
    count = load(
        {
            "Queues": [{"Name": "orders", "Properties": {"LockDuration": "PT30S", "MaxDeliveryCount": 2147483647}}],
            "Topics": [
                {
                    "Name": "events",
                    "Properties": {"DefaultMessageTimeToLive": "P14D"},
                    "Subscriptions": [
                        {
                            "Name": "audit",
                            "Properties": {"RequiresSession": True},
                            "Rules": [
                                {
                                    "Name": "big",
                                    "Properties": {
                                        "FilterType": "Sql",
                                        "SqlFilter": {"SqlExpression": "amount > 10"},
                                        "Action": {"SqlExpression": "SET big = 1"},
                                    },
                                },
                                {
                                    "Name": "mine",
                                    "Properties": {
                                        "FilterType": "Correlation",
                                        "CorrelationFilter": {"Label": "a", "Properties": {"k": "v"}},
                                    },
                                },
                            ],
                        }
                    ],
                }
            ],
        }
    )
    assert count == 3
    assert namespace.queue("orders").description.lock_duration == timedelta(seconds=30)
    assert namespace.queue("orders").description.max_delivery_count == 2147483647
    assert namespace.topic("events").description.default_message_time_to_live == timedelta(days=14)
    assert namespace.subscription("events", "audit").description.requires_session
    big, mine = (rule.description for rule in namespace.rules("events", "audit"))
    assert (big.filter, big.action) == (
        SqlFilter(expression="amount > 10"),
        SqlRuleAction(expression="SET big = 1"),
    )
    assert mine.filter == CorrelationFilter(label="a", properties=(("k", "v"),))


def test_a_queue_may_forward_to_one_that_comes_later_in_the_file(load: Load, namespace: Namespace) -> None:
    load({"Queues": [{"Name": "in", "Properties": {"ForwardTo": "out"}}, {"Name": "out", "Properties": {}}]})
    assert namespace.queue("in").description.forward_to == "out"


def test_loading_again_leaves_what_exists_as_it_is(load: Load, namespace: Namespace) -> None:
    load({"Queues": [{"Name": "orders", "Properties": {"MaxDeliveryCount": 3}}]})
    load({"Queues": [{"Name": "orders", "Properties": {"MaxDeliveryCount": 7}}]})
    assert namespace.queue("orders").description.max_delivery_count == 3


def test_the_emulators_fixed_namespace_name_means_the_first_namespace(tmp_path: Path, namespace: Namespace) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [{"Name": "q"}]}]}}))
    assert emulator_config.load(file, {"primary": namespace}) == 1
    assert namespace.queue("q").path == "q"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"Queues": [{"Properties": {}}]}, "a queue has no Name"),
        ({"Queues": [{"Name": "q", "Properties": {"Lock": "PT1M"}}]}, "queue 'q': unknown property 'Lock'"),
        ({"Queues": [{"Name": "q", "Properties": {"LockDuration": "soon"}}]}, "queue 'q': LockDuration"),
        ({"Queues": [{"Name": "q", "Properties": {"MaxDeliveryCount": "3"}}]}, "must be int"),
        ({"Queues": [{"Name": "q", "Properties": {"LockDuration": "P25D"}}]}, "queue 'q'"),
        ({"Queues": [{"Name": "q", "Properties": {"ForwardTo": "nowhere"}}]}, "queue 'q'"),
        ({"Queues": {"Name": "q"}}, "Queues must be a list"),
        (
            {"Topics": [{"Name": "t", "Subscriptions": [{"Name": "s", "Rules": [{"Name": "r", "Properties": 1}]}]}]},
            "must be a JSON object",
        ),
        (
            {"Topics": [{"Name": "t", "Subscriptions": [{"Name": "s", "Rules": [BROKEN_RULE]}]}]},
            "subscription 't/s'",
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_the_place(load: Load, content: dict[str, Any], words: str) -> None:
    with pytest.raises(emulator_config.ConfigError) as caught:
        load(content)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_namespace_that_is_not_served_is_named(tmp_path: Path, namespace: Namespace) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"UserConfig": {"Namespaces": [{"Name": "other"}]}}))
    with pytest.raises(emulator_config.ConfigError, match=r"'other' is not served here; served: primary"):
        emulator_config.load(file, {"primary": namespace})
