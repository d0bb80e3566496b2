"""What the syphon sends on together, by what the destination goes by."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.domain.failures import Failure
from shared.domain.partitions import Traits
from shared.services.entity_facts import EntityFacts
from shared.services.retired import Retired
from shared.services.syphon_forwarder import Forwarder
from tests.support.send_fakes import failed, letter
from tests.support.send_instances import ORDERS, Offices, SameFacts

LETTERS = [letter("a"), letter("b"), letter("c", key="k"), letter("d", key="k")]


async def forwarder(offices: Offices, traits: Traits) -> Forwarder:
    facts = EntityFacts(SameFacts(traits))
    assert await facts.learnt(ORDERS, seconds=5)
    second = timedelta(seconds=1)
    return Forwarder(
        links=offices, facts=facts, retired=Retired(), attempt_timeout=second, partitioned_attempt_timeout=second
    )


@pytest.mark.parametrize(
    ("traits", "transfers"),
    [
        (Traits(partitioned=False, detects_duplicates=True), [["a", "b", "c", "d"]]),
        (Traits(partitioned=True), [["a", "b"], ["c", "d"]]),
        (Traits(partitioned=True, detects_duplicates=True), [["a"], ["b"], ["c", "d"]]),
    ],
)
async def test_a_transfer_holds_one_key_where_there_are_partitions(traits: Traits, transfers: list[list[str]]) -> None:
    offices = Offices()
    outcomes = await (await forwarder(offices, traits)).forward(ORDERS, LETTERS)
    assert transfers == offices.primary.arrived
    assert [None] * 4 == [outcome.failed for outcome in outcomes]


async def test_a_message_id_whose_partition_is_sick_fails_alone() -> None:
    offices = Offices()
    offices.primary.unwelcome["a"] = failed(Failure.ENTITY_FULL)
    sender = await forwarder(offices, Traits(partitioned=True, detects_duplicates=True))
    outcomes = await sender.forward(ORDERS, LETTERS)
    assert [True, False, False, False] == [outcome.failed is not None for outcome in outcomes]
    assert "a" == sender.key_of(ORDERS, LETTERS[0])
