"""Messages, arrivals and figures for tests of the demo."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.demo.figures import Outcome
from local.demo.ledger import Totals
from local.demo.traffic import Arrival, Message
from local.demo.verdict import judge


def order(number: int) -> Message:
    return Message(id=f"orders-{number}", entity="orders", body=f'{{"number": {number}}}', priority="normal")


def urgent_event(number: int) -> Message:
    return Message(id=f"events-{number}", entity="events", body="{}", priority="urgent")


def arrival(message: Message, sequence_number: int = 1, **changed: Any) -> Arrival:
    """As it was sent, but for what is changed."""
    fields: dict[str, Any] = {
        "id": message.id,
        "sequence_number": sequence_number,
        "body": message.body,
        "label": message.label,
        "session": message.session,
        "key": message.key,
        "properties": {"priority": message.priority},
    }
    return Arrival(**{**fields, **changed})


def totals() -> Totals:
    """Ten messages, all delivered, two of them twice."""
    return Totals(
        sent=10,
        accepted=10,
        accepted_by_primary=6,
        accepted_by_backlog=4,
        refusals=3,
        never_accepted=0,
        delivered=10,
        waiting=0,
        dead_lettered=0,
        lost_ids=(),
        duplicated=2,
        redelivered=0,
        wrong=(),
        longest_send_s=1.25,
    )


def outcome(of: Totals, summary: Mapping[str, Any] | None) -> Outcome:
    return Outcome(
        totals=of, verdict=judge(of, summary), summary=summary, page=None, results=Path("build/demo.json")
    )
