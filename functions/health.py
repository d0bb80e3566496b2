"""GET /api/health: tells a load balancer or a person that the app has started, and which version of it."""

from __future__ import annotations

import json

import azure.functions as func

from shared.version import VERSION

blueprint = func.Blueprint()  # type: ignore[no-untyped-call]  # the library leaves its __init__ untyped


@blueprint.route(route="health", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
def health(req: func.HttpRequest) -> func.HttpResponse:
    """Functions are registered only after the settings have passed, so an answer at all means they are valid."""
    answer = {"status": "started", "version": VERSION, "settings": "valid"}
    return func.HttpResponse(json.dumps(answer), mimetype="application/json")
