"""POST /api/pair: creates the backlog queues that are missing."""

from __future__ import annotations

import json

import azure.functions as func

from functions.problems import problem
from shared import composition
from shared.errors import PairingError

blueprint = func.Blueprint()  # type: ignore[no-untyped-call]  # the library leaves its __init__ untyped


@blueprint.route(route="pair", methods=["POST"], auth_level=func.AuthLevel.ADMIN)
async def pair(req: func.HttpRequest) -> func.HttpResponse:
    """Idempotent; the answer says which queues there are, which of them are new, and what is odd about them."""
    try:
        paired = await composition.runtime().pairing.pair()
    except PairingError as error:
        return problem(error)
    answer = {
        "queues": list(paired.queues),
        "created": list(paired.created),
        "left_out": paired.left_out,
        "warnings": list(paired.warnings),
    }
    return func.HttpResponse(json.dumps(answer), mimetype="application/json")
