"""What the demo sends: repeatable, to every kind of entity, and compared when it arrives."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from local.demo.traffic import (
    ALL_EVENTS,
    ENTITIES,
    METERS,
    PLACES,
    SESSIONS,
    URGENT_EVENTS,
    Message,
    differences,
    messages,
)
from local.stack.options import ROOT
from tests.support.demo import arrival, order, urgent_event


def some(seed: int, count: int = 400) -> list[Message]:
    return list(islice(messages(seed), count))


def test_the_same_seed_sends_the_same_messages() -> None:
    assert some(7) == some(7)
    assert some(7) != some(8)


def test_every_message_has_an_id_of_its_own() -> None:
    assert 400 == len({message.id for message in some(1)})


def test_traffic_reaches_every_place_and_session() -> None:
    sent = some(1)
    assert set(PLACES) == {place for message in sent for place in message.places}
    assert set(SESSIONS) == {message.session for message in sent if message.entity == "shipments"}
    assert {"shipments"} == {message.entity for message in sent if message.session is not None}
    assert set(METERS) == {message.key for message in sent if message.entity == "readings"}
    assert {"readings"} == {message.entity for message in sent if message.key is not None}


def test_urgent_events_go_to_both_subscriptions() -> None:
    assert {ALL_EVENTS, URGENT_EVENTS} == urgent_event(1).places
    normal = next(one for one in some(1) if one.entity == "events" and one.priority == "normal")
    assert {ALL_EVENTS} == normal.places


def test_the_entities_file_has_what_traffic_needs() -> None:
    content = json.loads((ROOT / "local" / "demo" / "entities.json").read_text())
    primary, secondary = content["UserConfig"]["Namespaces"]
    topics = {topic["Name"]: topic["Subscriptions"] for topic in primary["Topics"]}
    queues = {queue["Name"]: queue["Properties"] for queue in primary["Queues"]}
    assert set(ENTITIES) == queues.keys() | topics.keys()
    found = {(name, None) for name in queues} | {(name, sub["Name"]) for name, subs in topics.items() for sub in subs}
    assert set(PLACES) == found
    assert ["shipments"] == [name for name, about in queues.items() if about.get("RequiresSession")]
    assert ["readings"] == [name for name, about in queues.items() if about.get("EnablePartitioning")]
    assert ["invoices"] == [name for name, about in queues.items() if about.get("RequiresDuplicateDetection")]
    assert [] == secondary["Queues"] + secondary["Topics"]


def test_what_arrives_as_it_was_sent_has_no_differences() -> None:
    for message in some(3, 8):
        assert [] == differences(message, arrival(message))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"body": "x"}, "body is 'x'"),
        ({"label": None}, "label is None"),
        ({"session": "north"}, "session is 'north'"),
        ({"key": "meter-1"}, "partition key is 'meter-1'"),
        ({"properties": {}}, "priority is None"),
        ({"properties": {"priority": "normal", "x-ms-path": "orders"}}, "x-ms-path is left over"),
        ({"properties": {"priority": "normal", "x-pair-types": "..."}}, "x-pair-types is left over"),
    ],
)
def test_every_difference_is_named(changed: dict[str, object], complaint: str) -> None:
    (found,) = differences(order(1), arrival(order(1), **changed))
    assert complaint in found
