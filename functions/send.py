"""POST /api/bus/{entity path}/messages: the send operation of the Service Bus REST API, with failover.

A client of that API changes its base address and adds a function key; everything else stays.
"""

from __future__ import annotations

import logging
import uuid

import azure.functions as func

from functions.problems import Answer, problem, respond
from shared import composition
from shared.domain.message import outgoing
from shared.domain.pair import entity_path
from shared.domain.rest_send import REQUEST_BYTES_MAX, destination_in, messages_of
from shared.errors import PairingError

_LOGGER = logging.getLogger(__name__)

TOO_LARGE = Answer(413, "body-too-large", "The request is too large", "Send less in one request.")
UNEXPECTED = Answer(500, "unexpected", "Something unexpected happened", "Look into the app's log.")

blueprint = func.Blueprint()  # type: ignore[no-untyped-call]  # the library leaves its __init__ untyped


@blueprint.route(route="bus/{*path}", methods=["POST"], auth_level=func.AuthLevel.FUNCTION)
async def send(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    size = announced_bytes(req)
    if size > REQUEST_BYTES_MAX:
        return respond(TOO_LARGE, f"The body has {size} bytes; at most {REQUEST_BYTES_MAX} are taken in one request.")
    try:
        path = entity_path(destination_in(req.route_params.get("path", "")))
        messages = messages_of(req.headers, req.get_body(), _new_id)
        trace = context.trace_context.trace_parent or req.headers.get("traceparent")
        sent = await composition.runtime().sender.send(path, tuple(map(outgoing, messages)), trace=trace)
    except PairingError as error:
        return problem(error)
    except Exception:
        # The host would answer 500 without a word.
        _LOGGER.exception("sending failed in a way nobody foresaw")
        return respond(UNEXPECTED, "The message was not accepted, or it is not known whether it was.", indefinite=True)
    headers = {"x-pair-route": sent.via.value, "x-pair-message-id": ",".join(sent.message_ids[:IDS_SHOWN_MAX])}
    if sent.possible_duplicate:
        headers["x-pair-possible-duplicate"] = "true"
    return func.HttpResponse(status_code=201, headers=headers)


#: Message ids in the answer to a batch; all of them could be more than a header may hold.
IDS_SHOWN_MAX = 20


def announced_bytes(req: func.HttpRequest) -> int:
    """What the request says of its length, or else how long it is; a host may have read it before it asks anybody."""
    announced = req.headers.get("content-length", "")
    return int(announced) if announced.isdecimal() and len(announced) < 20 else len(req.get_body())


def _new_id() -> str:
    return str(uuid.uuid4())


