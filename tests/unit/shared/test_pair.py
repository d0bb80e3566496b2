from __future__ import annotations

import pytest

from shared.domain.backlog import backlog_queue_path, backlog_queue_paths
from shared.domain.pair import ENTITY_PATH_LENGTH_MAX, Namespace, Pair, Side, entity_path
from shared.errors import Rejected

CONTOSO = Namespace(side=Side.PRIMARY, name="contoso")
FABRIKAM = Namespace(side=Side.SECONDARY, name="fabrikam")


def test_the_first_backlog_queue_of_contoso_has_the_documented_path() -> None:
    assert backlog_queue_path(CONTOSO, 0) == "contoso/x-servicebus-transfer/0"


def test_backlog_queues_are_numbered_from_zero_up_to_the_count() -> None:
    expected = ("contoso/x-servicebus-transfer/0", "contoso/x-servicebus-transfer/1", "contoso/x-servicebus-transfer/2")
    assert expected == backlog_queue_paths(CONTOSO, 3)


def test_backlog_queue_paths_are_paths_the_service_accepts() -> None:
    assert all(path == entity_path(path) for path in backlog_queue_paths(CONTOSO, 11))


def test_backlog_queues_are_never_named_after_the_secondary() -> None:
    with pytest.raises(ValueError, match="primary"):
        backlog_queue_path(FABRIKAM, 0)


def test_a_backlog_index_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        backlog_queue_path(CONTOSO, -1)


def test_each_side_is_the_partner_of_the_other() -> None:
    assert (Side.SECONDARY, Side.PRIMARY) == (Side.PRIMARY.partner, Side.SECONDARY.partner)


def test_a_pair_knows_its_sides_and_has_a_name_no_other_pair_has() -> None:
    pair = Pair(primary=CONTOSO, secondary=FABRIKAM)
    assert (CONTOSO, FABRIKAM) == (pair.namespace(Side.PRIMARY), pair.namespace(Side.SECONDARY))
    dashed = Pair(primary=Namespace(side=Side.PRIMARY, name="a-b"), secondary=Namespace(side=Side.SECONDARY, name="c"))
    other = Pair(primary=Namespace(side=Side.PRIMARY, name="a"), secondary=Namespace(side=Side.SECONDARY, name="b-c"))
    assert "contoso~fabrikam" == pair.name
    assert dashed.name != other.name


def test_a_pair_of_swapped_sides_is_refused() -> None:
    with pytest.raises(ValueError, match="in that order"):
        Pair(primary=FABRIKAM, secondary=CONTOSO)


@pytest.mark.parametrize("name", ["", "-a", "a.b", "a/b", "a~b", "a" * 51, "ä"])
def test_what_is_no_namespace_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="namespace name"):
        Namespace(side=Side.PRIMARY, name=name)


@pytest.mark.parametrize("text", ["orders", "sales/orders", "a", "Orders_2.new-1", "a" * ENTITY_PATH_LENGTH_MAX])
def test_entity_paths_of_the_service_are_accepted_unchanged(text: str) -> None:
    assert text == entity_path(text)


def test_slashes_around_an_entity_path_are_not_part_of_it() -> None:
    assert "sales/orders" == entity_path("/sales/orders/")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("/", "empty"),
        ("a" * (ENTITY_PATH_LENGTH_MAX + 1), "261 characters"),
        ("sales//orders", "single slashes"),
        ("sales\\orders", "letters"),
        ("orders?x=1", "letters"),
        ("or ders", "letters"),
        ("bestellungen-ä", "letters"),
        ("-orders", "starts and ends"),
        ("orders.", "starts and ends"),
    ],
)
def test_other_entity_paths_are_the_callers_mistake(text: str, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        entity_path(text)
