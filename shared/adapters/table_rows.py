"""Rows of the state table: what each kind of record looks like in Table Storage, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from shared.domain.availability import Available, Unavailable
from shared.domain.factory import Factory, FactoryState
from shared.domain.pair import EntityPath, Side
from shared.domain.rotation import Outage
from shared.domain.syphon import Drain
from shared.ports import EntityRecord, PairingRecord, QueueRecord

Row = Mapping[str, Any]
PAIRING_ROW = "pairing"
_FACTORY_PREFIX = "factory:"
#: Table Storage: a property of type string holds 64 KiB of UTF-16; reasons are cut well below.
REASON_LENGTH_MAX = 1000
WARNINGS_MAX = 50
WARNING_LENGTH_MAX = 300
DESTINATIONS_MAX = 100


def entity_row_key(path: EntityPath) -> str:
    return f"entity:{_key(path)}"


def queue_row_key(path: EntityPath) -> str:
    return f"queue:{_key(path)}"


def factory_row_key(side: Side) -> str:
    return f"{_FACTORY_PREFIX}{side.value}"


def side_of(row_key: str) -> Side | None:
    name = row_key.removeprefix(_FACTORY_PREFIX)
    return Side(name) if row_key.startswith(_FACTORY_PREFIX) and name in (side.value for side in Side) else None


def _key(path: EntityPath) -> str:
    """Neither slashes nor # are allowed in a RowKey, and the service does not tell upper from lower case."""
    return path.lower().replace("/", "|").replace("#", "!")


def entity_row(record: EntityRecord) -> dict[str, Any]:
    state = record.availability
    is_out = isinstance(state, Unavailable)
    return {
        "Path": str(record.path),
        "State": "unavailable" if is_out else "available",
        "Since": _text(state.since),
        "Reason": state.reason[:REASON_LENGTH_MAX] if isinstance(state, Unavailable) else "",
        "HealedAt": _text(state.healed_at) if isinstance(state, Unavailable) else "",
        "ChangedAt": _text(record.changed_at),
        "Accepted": record.accepted,
        "By": record.by,
    }


def entity_record(row: Row) -> EntityRecord:
    since = _time(row.get("Since"))
    changed_at = _time(row["ChangedAt"]) or datetime.fromtimestamp(0, UTC)
    availability = (
        Unavailable(
            since=since or changed_at, reason=str(row.get("Reason", "")), healed_at=_time(row.get("HealedAt"))
        )
        if row.get("State") == "unavailable"
        else Available(since=since)
    )
    return EntityRecord(
        path=EntityPath(str(row["Path"])),
        availability=availability,
        changed_at=changed_at,
        accepted=bool(row.get("Accepted")),
        by=str(row.get("By", "")),
    )


def queue_row(record: QueueRecord) -> dict[str, Any]:
    out = record.outage
    return {
        "Path": str(record.path),
        "Out": out is not None,
        "Since": _text(out.since) if out else "",
        "Reason": out.reason[:REASON_LENGTH_MAX] if out else "",
        "ChangedAt": _text(record.changed_at),
    }


def queue_record(row: Row) -> QueueRecord:
    changed_at = _time(row["ChangedAt"]) or datetime.fromtimestamp(0, UTC)
    outage = Outage(since=_time(row.get("Since")) or changed_at, reason=str(row.get("Reason", "")))
    return QueueRecord(
        path=EntityPath(str(row["Path"])), changed_at=changed_at, outage=outage if row.get("Out") else None
    )


def drain_row_key(path: EntityPath) -> str:
    return f"drain:{_key(path)}"


def drain_row(drain: Drain) -> dict[str, Any]:
    return {
        "Path": str(drain.queue),
        "At": _text(drain.at),
        "Forwarded": float(drain.forwarded),  # Table Storage: a plain int would be 32 bits wide
        "DeadLettered": float(drain.dead_lettered),
        "Rate": float(drain.rate),
        "WaitingFor": json.dumps(drain.waiting_for[:DESTINATIONS_MAX]),
    }


def drain_of(row: Row) -> Drain:
    return Drain(
        queue=EntityPath(str(row["Path"])),
        at=_time(row["At"]) or datetime.fromtimestamp(0, UTC),
        forwarded=int(row.get("Forwarded", 0)),
        dead_lettered=int(row.get("DeadLettered", 0)),
        rate=float(row.get("Rate", 0)),
        waiting_for=tuple(EntityPath(path) for path in json.loads(row.get("WaitingFor", "[]"))),
    )


def pairing_row(record: PairingRecord) -> dict[str, Any]:
    warnings = [warning[:WARNING_LENGTH_MAX] for warning in record.warnings[:WARNINGS_MAX]]
    return {"Queues": _ranges(record.queues), "At": _text(record.at), "Warnings": json.dumps(warnings)}


def pairing_record(row: Row) -> PairingRecord:
    return PairingRecord(
        queues=tuple(_from_ranges(str(row["Queues"]))),
        at=_time(row["At"]) or datetime.fromtimestamp(0, UTC),
        warnings=tuple(json.loads(row.get("Warnings", "[]"))),
    )


def _ranges(queues: Sequence[EntityPath]) -> str:
    """`contoso/x-servicebus-transfer/ 0-3 7`: ten thousand paths would not fit a property, their numbers do."""
    prefix = queues[0].rpartition("/")[0] if queues else ""
    numbers = sorted(int(queue.rpartition("/")[2]) for queue in queues)
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " ".join([f"{prefix}/", *(f"{low}-{high}" for low, high in ranges)])


def _from_ranges(text: str) -> Iterator[EntityPath]:
    prefix, *ranges = text.split(" ")
    for one in ranges:
        low, _, high = one.partition("-")
        yield from (EntityPath(f"{prefix}{number}") for number in range(int(low), int(high) + 1))


def factory_row(factory: Factory) -> dict[str, Any]:
    return {
        "State": factory.state.value,
        "Since": _text(factory.since),
        "Reason": factory.reason[:REASON_LENGTH_MAX],
        "By": factory.by,
        "Version": factory.version,
    }


def factory_of(row: Row) -> Factory:
    return Factory(
        state=FactoryState(row["State"]),
        since=_time(row.get("Since")),
        reason=str(row.get("Reason", "")),
        by=str(row.get("By", "")),
        version=int(row.get("Version", 0)),
    )


def _text(moment: datetime | None) -> str:
    """As text, since a table's own time has another precision and would come back unequal."""
    return "" if moment is None else moment.astimezone(UTC).isoformat()


def _time(text: object) -> datetime | None:
    return datetime.fromisoformat(str(text)) if text else None
