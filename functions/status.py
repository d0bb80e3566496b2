"""GET /api/pair: the state of the pair as JSON."""

# mypy: disallow-untyped-decorators=False
# The durable library ships no type information, so its decorators have none.

from __future__ import annotations

import json
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from functions.coordinator import Coordinator
from functions.entities import shown
from shared import composition
from shared.domain.pair import EntityPath
from shared.domain.partitions import entity_of, read_key_lane
from shared.services.status import PairStatus, QueueStatus

#: Keys listed for an entity; `watched_keys` counts all.
KEYS_SHOWN_MAX = 50

blueprint = df.Blueprint()


@blueprint.route(route="pair", methods=["GET"], auth_level=func.AuthLevel.FUNCTION)
@blueprint.durable_client_input(client_name="client")
async def pair_status(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    status = await composition.runtime().status.collect()
    body = {**as_json(status), "coordination": await Coordinator.with_client(client).tell()}
    return func.HttpResponse(json.dumps(body, default=str), mimetype="application/json")


def as_json(status: PairStatus) -> dict[str, Any]:
    return {
        "pair": {"primary": status.pair.primary.name, "secondary": status.pair.secondary.name},
        "at": status.at.isoformat(),
        "options": composition.settings().shown(),
        "factories": {
            side.value: {
                "state": factory.state.value,
                "since": factory.since.isoformat() if factory.since else None,
                "reason": factory.reason,
                "by": factory.by,
            }
            for side, factory in status.factories.items()
        },
        "entities": [
            {"path": path, **shown(state), "partitioned": status.partitioned.get(path), **keys_shown(path, status)}
            for path, state in status.entities
        ],
        "backlog": {
            "waiting": _sum(status, "active"),
            "drain": _drain(status),
            "queues": [_queue(queue) for queue in status.queues],
        },
        "paired_at": status.pairing.at.isoformat() if status.pairing else None,
        "warnings": list(status.warnings),
    }


def keys_shown(path: EntityPath, status: PairStatus) -> dict[str, Any]:
    """Of a partitioned entity: the keys whose partition does not take messages, or has not for long."""
    lanes = [(lane, state) for lane, state in status.keys if entity_of(lane).lower() == path.lower()]
    if not lanes:
        return {}
    listed = [{"key": read_key_lane(lane).key, **shown(state)} for lane, state in lanes[:KEYS_SHOWN_MAX]]
    return {"watched_keys": len(lanes), "keys": listed}


def _queue(queue: QueueStatus) -> dict[str, Any]:
    depth = queue.depth
    return {
        "path": queue.path,
        "in_rotation": queue.in_rotation,
        "out_since": queue.outage.since.isoformat() if queue.outage else None,
        "out_reason": queue.outage.reason if queue.outage else None,
        "active": depth.active if depth else None,
        "dead_lettered": depth.dead_lettered if depth else None,
        "scheduled": depth.scheduled if depth else None,
        "oldest": depth.oldest.isoformat() if depth and depth.oldest else None,
        "forwarded": queue.drain.forwarded if queue.drain else None,
        "rate": queue.drain.rate if queue.drain else None,
        "seconds_left": queue.seconds_left,
        "problem": queue.problem,
    }


def _sum(status: PairStatus, count: str) -> int | None:
    """Of all queues, or None when not one could be asked."""
    known = [getattr(queue.depth, count) for queue in status.queues if queue.depth is not None]
    return sum(known) if known else None


def _drain(status: PairStatus) -> dict[str, Any]:
    """The backlog is empty when its slowest queue is."""
    drains = [queue.drain for queue in status.queues if queue.drain is not None]
    left = [queue.seconds_left for queue in status.queues if queue.seconds_left]
    return {"rate": sum(drain.rate for drain in drains), "seconds_left": max(left) if left else None}
