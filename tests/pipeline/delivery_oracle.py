"""Where a message ended, worked out one by one in plain Python from what docs/pipeline.md says; Spark must agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from shared.telemetry_events import (
    AuditCompleted,
    DeadLettered,
    Forwarded,
    ForwardInDoubt,
    MessageReceived,
    SendAccepted,
    SendRefused,
    TelemetryEvent,
)

STEPS = (SendAccepted, SendRefused, Forwarded, ForwardInDoubt, MessageReceived, DeadLettered)


class End(NamedTuple):
    status: str
    route: str | None
    evidence: str
    sends: int
    refusals: int
    copies: int | None
    duplicated: bool
    possible_duplicate: bool


def audited_since(events: Iterable[TelemetryEvent]) -> dict[str, datetime]:
    latest: dict[str, dict[str | None, datetime]] = defaultdict(dict)
    for event in events:
        if isinstance(event, AuditCompleted):
            of_path = latest[event.path.lower()]
            of_path[event.subscription] = max(event.since, of_path.get(event.subscription, event.since))
    found = {}
    for path, since in latest.items():
        parts = [time for subscription, time in since.items() if subscription is not None]
        found[path] = max([*([since[None]] if None in since else []), *([min(parts)] if parts else [])])
    return found


def ends(events: list[TelemetryEvent]) -> dict[tuple[str, str], End]:
    since = audited_since(events)
    of: dict[tuple[str, str], list[Any]] = defaultdict(list)
    homes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event in events:
        if isinstance(event, SendAccepted) and event.backlog_queue is not None:
            homes[event.backlog_queue.lower(), event.message_id].add(event.path.lower())
    for event in events:
        if not isinstance(event, STEPS):
            continue
        if event.path is None or "/x-servicebus-transfer/" in event.path:
            place = event.path or event.backlog_queue
            for home in homes[place.lower(), event.message_id]:
                of[home, event.message_id].append(event)
        else:
            of[event.path.lower(), event.message_id].append(event)
    return {key: end(found, since) for key, found in of.items()}


def end(events: list[Any], since: dict[str, datetime]) -> End:
    accepts = [event for event in events if isinstance(event, SendAccepted)]
    refusals = [event for event in events if isinstance(event, SendRefused)]
    forwards = [event for event in events if isinstance(event, Forwarded)]
    dead = [event for event in events if isinstance(event, DeadLettered)]
    receipts = [event for event in events if isinstance(event, MessageReceived)]
    seen = [event for event in receipts if "/x-servicebus-transfer/" not in event.path]
    waiting = [event for event in receipts if event not in seen]

    def holds(event: Any, place: str) -> bool:
        return place.lower() not in since or event.at >= since[place.lower()]

    arrived = [event for event in [*accepts, *forwards] if isinstance(event, Forwarded) or event.backlog_queue is None]
    diverted = [event for event in accepts if event.backlog_queue is not None]
    word = any(holds(event, event.path) for event in arrived)
    seen_waiting = any(holds(event, event.path) for event in waiting)
    queued = seen_waiting or any(holds(event, event.backlog_queue) for event in diverted)
    status, evidence = _judged(
        bool(accepts),
        bool(refusals),
        bool(seen),
        word,
        dead,
        bool(diverted) and not forwards and queued,
        bool(forwards),
    )
    if status == "waiting" and seen_waiting:
        evidence = "receipt"
    numbers: dict[str | None, set[int | None]] = defaultdict(set)
    for event in seen:
        numbers[event.subscription].add(event.sequence_number)
    copies = max((len(found) for found in numbers.values()), default=0)
    in_doubt = any(isinstance(event, ForwardInDoubt) for event in events)
    possible = in_doubt or any(event.possible_duplicate for event in [*accepts, *forwards])
    primary = len(accepts) > len(diverted)
    return End(
        status=status,
        route="primary" if primary else "backlog" if diverted else None,
        evidence="receipt" if seen else evidence,
        sends=len(accepts),
        refusals=len(refusals),
        copies=copies or None,
        duplicated=copies > 1,
        possible_duplicate=possible and not seen,
    )


def _judged(
    accepted: bool, refused: bool, seen: bool, word: bool, dead: list[Any], waits: bool, forwarded: bool
) -> tuple[str, str]:
    if not accepted:
        if not refused:
            return "unrecorded", "broker"
        return ("refused-arrived", "broker") if seen or forwarded else ("refused", "record")
    if seen or word:
        return "delivered", "broker"
    if dead:
        return ("expired" if any(one.reason == "TTLExpiredException" for one in dead) else "dead-lettered"), "record"
    return ("waiting", "broker") if waits else ("lost", "audit")
