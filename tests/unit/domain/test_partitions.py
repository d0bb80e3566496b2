"""Keys of partitioned entities: their lanes, whom a failure counts against, where they wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.failures import Failure
from shared.domain.pair import EntityPath
from shared.domain.partitions import (
    KEY_TEXT_MAX,
    entity_of,
    is_key_lane,
    key_lane,
    may_be_a_partitions_fault,
    queue_order,
    read_key_lane,
)

ORDERS = EntityPath("Orders/eu")
_KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
QUEUES = tuple(EntityPath(f"q/{n}") for n in range(5))


@given(_KEYS)
def test_a_lane_gives_its_key_back(key: str) -> None:
    lane = key_lane(ORDERS, key)
    assert (ORDERS, key) == read_key_lane(lane)
    assert ORDERS == entity_of(lane)
    assert is_key_lane(lane)


@given(_KEYS, _KEYS)
def test_different_keys_have_different_lanes_also_where_case_does_not_count(one: str, other: str) -> None:
    if one != other:
        assert key_lane(ORDERS, one).lower() != key_lane(ORDERS, other).lower()


def test_a_key_too_long_for_a_row_goes_by_its_digest() -> None:
    lanes = {key_lane(ORDERS, letter * 128) for letter in "ÄÖ"}
    assert 2 == len(lanes)
    for lane in lanes:
        assert (ORDERS, None) == read_key_lane(lane)
        assert len(lane) <= len(ORDERS) + 1 + KEY_TEXT_MAX


def test_an_entity_is_its_own() -> None:
    assert ORDERS == entity_of(ORDERS)
    assert not is_key_lane(ORDERS)


@pytest.mark.parametrize("failure", Failure)
def test_only_what_one_partition_can_cause_counts_against_a_key(failure: Failure) -> None:
    expected = failure in (Failure.TIMEOUT, Failure.SERVICE_ERROR, Failure.ENTITY_FULL)
    assert expected is may_be_a_partitions_fault(failure)


def test_all_that_waits_of_a_key_waits_in_the_same_queue_whoever_sends_it() -> None:
    lane = key_lane(ORDERS, "customer")
    assert queue_order(lane, QUEUES) == queue_order(EntityPath(lane.upper()), QUEUES)
    assert set(QUEUES) == set(queue_order(lane, QUEUES))
    assert len({queue_order(key_lane(ORDERS, f"{n}"), QUEUES)[0] for n in range(50)}) > 1
