"""What the demo sends: the same messages in the same order for the same seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

URGENT_SHARE = 0.3
SESSIONS = ("north", "east", "south", "west")
#: Partition keys.
METERS = tuple(f"meter-{number}" for number in range(12))
TIME_TO_LIVE_S = 86_400
#: Properties that belong to the pair; one on a delivered message was left over from its detour.
TRANSFER_PREFIXES = ("x-ms-", "x-pair")


class Place(NamedTuple):
    """Where receivers find messages: a queue, or a subscription of a topic."""

    path: str
    subscription: str | None = None

    def __str__(self) -> str:
        return self.path if self.subscription is None else f"{self.path}/{self.subscription}"


ORDERS, INVOICES, SHIPMENTS, READINGS = map(Place, ("orders", "invoices", "shipments", "readings"))
ALL_EVENTS, URGENT_EVENTS = Place("events", "all"), Place("events", "urgent")
PLACES = (ORDERS, INVOICES, SHIPMENTS, READINGS, ALL_EVENTS, URGENT_EVENTS)
#: Entities in the order in which they take turns, with what is special about them.
ENTITIES = {
    "orders": "queue",
    "invoices": "duplicate detection",
    "shipments": "session queue",
    "readings": "partitioned queue",
    "events": "topic, 2 subscriptions",
}


@dataclass(frozen=True, kw_only=True)
class Message:
    id: str
    entity: str
    body: str
    priority: str
    session: str | None = None
    key: str | None = None

    @property
    def places(self) -> frozenset[Place]:
        """Where it has to arrive."""
        if self.entity != "events":
            return frozenset({Place(self.entity)})
        return frozenset({ALL_EVENTS, URGENT_EVENTS} if self.priority == "urgent" else {ALL_EVENTS})

    @property
    def label(self) -> str:
        return f"about {self.id}"

    def headers(self) -> dict[str, str]:
        """As a client of the Service Bus REST API writes them."""
        properties: dict[str, object] = {"MessageId": self.id, "Label": self.label, "TimeToLive": TIME_TO_LIVE_S}
        if self.session is not None:
            properties["SessionId"] = self.session
        if self.key is not None:
            properties["PartitionKey"] = self.key
        return {
            "BrokerProperties": json.dumps(properties),
            "Content-Type": "application/json",
            "Priority": f'"{self.priority}"',
        }


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """What a receiver or an audit saw of one copy of a message."""

    id: str
    sequence_number: int
    body: str
    label: str | None
    session: str | None
    key: str | None
    properties: dict[str, str]


def messages(seed: int) -> Iterator[Message]:
    """Without end, each entity in its turn."""
    chance = random.Random(seed)
    number = 0
    while True:
        for entity in ENTITIES:
            number += 1
            yield Message(
                id=f"{entity}-{number}",
                entity=entity,
                body=json.dumps({"number": number, "amount": chance.randrange(1, 100_000)}),
                priority="urgent" if chance.random() < URGENT_SHARE else "normal",
                session=chance.choice(SESSIONS) if entity == "shipments" else None,
                key=chance.choice(METERS) if entity == "readings" else None,
            )


def differences(sent: Message, arrived: Arrival) -> list[str]:
    """What the way changed about a message; it should be nothing."""
    pairs = {
        "body": (sent.body, arrived.body),
        "label": (sent.label, arrived.label),
        "session": (sent.session, arrived.session),
        "partition key": (sent.key, arrived.key),
        "priority": (sent.priority, arrived.properties.get("priority")),
    }
    found = [f"{sent.id}: its {what} is {is_!r}, not {was!r}" for what, (was, is_) in pairs.items() if was != is_]
    left = [name for name in arrived.properties if name.lower().startswith(TRANSFER_PREFIXES)]
    return found + [f"{sent.id}: {name} is left over" for name in left]
