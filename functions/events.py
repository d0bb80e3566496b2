"""GET /api/events: the last events of the instance that answers, and how many messages it accepted by which route.

`?after=` takes the `after` of earlier answers, several with commas: an answer holds what its instance has noted since.
Several instances may answer in turn, each for itself. What all of them share is in GET /api/pair.
"""

from __future__ import annotations

import json
import re

import azure.functions as func

from functions.problems import Answer, respond
from shared import composition

CURSORS_MAX = 50
_CURSOR = re.compile(r"([0-9A-Za-z-]{1,64}):([0-9]{1,18})")
NOT_VALID = Answer(400, "not-valid", "The request is not valid", "Leave `after` out, or give back what was answered.")

blueprint = func.Blueprint()  # type: ignore[no-untyped-call]  # the library leaves its __init__ untyped


@blueprint.route(route="events", methods=["GET"], auth_level=func.AuthLevel.FUNCTION)
async def recent_events(req: func.HttpRequest) -> func.HttpResponse:
    runtime = composition.runtime()
    try:
        after = read_cursors(req.params.get("after", "")).get(runtime.instance, 0)
    except ValueError as error:
        return respond(NOT_VALID, str(error))
    recent, sender = runtime.recent, runtime.sender
    body = {
        "instance": runtime.instance,
        "started_at": runtime.started_at.isoformat(),
        "accepted": {"primary": sender.sent_to_primary, "backlog": sender.sent_to_backlog},
        "counts": dict(recent.counts),
        "events": [noted.as_json() for noted in recent.after(after)],
        "after": f"{runtime.instance}:{recent.number}",
    }
    return func.HttpResponse(json.dumps(body), mimetype="application/json", headers={"Cache-Control": "no-store"})


def read_cursors(text: str) -> dict[str, int]:
    """The number of the last event that the caller has of each instance."""
    if not text:
        return {}
    cursors = text.split(",", CURSORS_MAX)
    if len(cursors) > CURSORS_MAX:
        raise ValueError(f"`after` names more than {CURSORS_MAX} instances.")
    found = {}
    for cursor in cursors:
        match = _CURSOR.fullmatch(cursor)
        if match is None:
            raise ValueError("`after` is not of the form instance:number.")
        found[match[1]] = int(match[2])
    return found
