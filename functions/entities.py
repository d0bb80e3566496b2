"""POST /api/entities/{entity path}/healthy and /unavailable: an operator's word on an entity of the primary."""

from __future__ import annotations

import json

import azure.functions as func

from functions.problems import Answer, problem, respond
from shared import composition
from shared.domain.availability import Availability, Available, Event, Unavailable
from shared.domain.backlog import is_backlog_path
from shared.domain.pair import EntityPath, entity_path
from shared.errors import PairingError, Rejected, StateUnreachable

REASON_LENGTH_MAX = 200
_EVENTS = {"healthy": Event.MARKED_HEALTHY, "unavailable": Event.MARKED_UNAVAILABLE}
NOT_SHARED = Answer(503, "state-unreachable", "Shared state cannot be reached", "Try again later.")

blueprint = func.Blueprint()  # type: ignore[no-untyped-call]  # the library leaves its __init__ untyped


@blueprint.route(route="entities/{*path}", methods=["POST"], auth_level=func.AuthLevel.ADMIN)
async def mark_entity(req: func.HttpRequest) -> func.HttpResponse:
    """`?reason=` is kept with the state. The mark holds for every instance within the state refresh."""
    runtime = composition.runtime()
    try:
        path, event = _read(req.route_params.get("path", ""))
        if is_backlog_path(runtime.settings.pair.primary, path):
            raise Rejected("A backlog queue is not an entity of the primary.", path=path)
        reason = " ".join(req.params.get("reason", "marked by an operator").split())[:REASON_LENGTH_MAX]
        state = await runtime.state.mark(path, event, reason)
    except StateUnreachable as error:
        return respond(NOT_SHARED, f"It holds for this instance; the others do not know of it yet: {error.message}")
    except PairingError as error:
        return problem(error)
    return func.HttpResponse(json.dumps({"path": path, **shown(state)}), mimetype="application/json")


def _read(path: str) -> tuple[EntityPath, Event]:
    entity, _, word = path.rpartition("/")
    if word not in _EVENTS or not entity:
        raise Rejected("An entity is marked with POST entities/{entity path}/healthy or /unavailable.")
    return entity_path(entity), _EVENTS[word]


def shown(state: Availability) -> dict[str, str | None]:
    reason = None if isinstance(state, Available) else state.reason
    since = state.since.isoformat() if state.since else None
    name = type(state).__name__.lower()
    if isinstance(state, Unavailable) and state.healed_at is not None:
        name = "draining"
    return {"availability": name, "since": since, "reason": reason}
