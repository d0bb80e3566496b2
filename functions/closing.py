"""POST /api/pair/{primary or secondary}/close and .../fault, POST /api/pair/open.

The body is JSON, `{"reason": "...", "by": "..."}`; a fault needs a reason. The answer shows both factories and how the
coordination stands that has the partner follow.
"""

# mypy: disallow-untyped-decorators=False
# The durable library ships no type information, so its decorators have none.

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from functions.coordinator import Coordinator
from functions.problems import Answer, respond
from shared import composition
from shared.domain.factory import BY_LENGTH_MAX, REASON_LENGTH_MAX, Factories
from shared.domain.pair import Side
from shared.errors import PairingError, StateUnreachable
from shared.services.closing import Changed, Closing

_LOGGER = logging.getLogger(__name__)

BODY_BYTES_MAX = 16_384
OPERATOR = "an operator, over HTTP"
_SIDES = {side.value: side for side in Side}

blueprint = df.Blueprint()


@dataclass(frozen=True, kw_only=True)
class Said:
    """What the caller gave for a reason."""

    reason: str
    by: str


NO_SUCH_SIDE = Answer(404, "no-such-side", "No such side", "Name primary or secondary.")
TOO_LARGE = Answer(413, "body-too-large", "The request is too large", "Send a reason and nothing else.")
NOT_VALID = Answer(400, "not-valid", "The request is not valid", 'Send {"reason": "...", "by": "..."} as JSON.')
NOT_SHARED = Answer(503, "state-unreachable", "Shared state cannot be reached", "Nothing was changed; try again.")


class Refused(Exception):
    def __init__(self, answer: Answer, detail: str) -> None:
        super().__init__(detail)
        self.answer, self.detail = answer, detail


@blueprint.route(route="pair/{side}/close", methods=["POST"], auth_level=func.AuthLevel.ADMIN)
@blueprint.durable_client_input(client_name="client")
async def close_side(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    """The partner is expected to follow within the partner grace, and is faulted if it does not."""

    async def change(closing: Closing) -> Changed:
        side, said = _side(req), read_said(req.get_body(), reason_needed=False)
        return await closing.close(side, reason=said.reason, by=said.by)

    return await _answer(client, change)


@blueprint.route(route="pair/{side}/fault", methods=["POST"], auth_level=func.AuthLevel.ADMIN)
@blueprint.durable_client_input(client_name="client")
async def fault_side(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    async def change(closing: Closing) -> Changed:
        side, said = _side(req), read_said(req.get_body(), reason_needed=True)
        return await closing.fault(side, reason=said.reason, by=said.by)

    return await _answer(client, change)


@blueprint.route(route="pair/open", methods=["POST"], auth_level=func.AuthLevel.ADMIN)
@blueprint.durable_client_input(client_name="client")
async def open_pair(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    """Opens both sides and pairs again. A pairing that fails is told, and undoes nothing: the primary takes messages
    whether or not there is a backlog to divert to."""

    async def change(closing: Closing) -> Changed:
        said = read_said(req.get_body(), reason_needed=False)
        return await closing.open(reason=said.reason, by=said.by)

    return await _answer(client, change, more=_pair_again)


async def _pair_again() -> dict[str, Any]:
    try:
        paired = await composition.runtime().pairing.pair()
    except PairingError as error:
        _LOGGER.warning("the pair is open, but pairing failed: %s", error)
        return {"pairing": {"queues": 0, "problem": str(error)}}
    return {"pairing": {"queues": len(paired.queues), "created": len(paired.created), "warnings": paired.warnings}}


async def _nothing_more() -> dict[str, Any]:
    return {}


async def _answer(
    client: df.DurableOrchestrationClient,
    change: Callable[[Closing], Awaitable[Changed]],
    *,
    more: Callable[[], Awaitable[dict[str, Any]]] = _nothing_more,
) -> func.HttpResponse:
    coordinator = Coordinator.with_client(client)
    try:
        changed = await change(composition.runtime().closing)
    except Refused as refused:
        return respond(refused.answer, refused.detail)
    except StateUnreachable as error:
        return respond(NOT_SHARED, error.message)
    shown = {
        "changed": [side.value for side in changed.sides],
        "factories": shown_factories(changed.after),
        "coordination": await coordinator.look_after_and_tell(changed if changed.sides else None),
        **await more(),
    }
    return func.HttpResponse(json.dumps(shown), mimetype="application/json")


def shown_factories(both: Factories) -> dict[str, Any]:
    return {
        side.value: {
            "state": factory.state.value,
            "since": factory.since.isoformat() if factory.since else None,
            "reason": factory.reason,
            "by": factory.by,
            "version": factory.version,
        }
        for side, factory in ((side, both.of(side)) for side in Side)
    }


def _side(req: func.HttpRequest) -> Side:
    name = str(req.route_params.get("side", "")).lower()
    if name not in _SIDES:
        raise Refused(NO_SUCH_SIDE, "A pair has a primary and a secondary side, and no other.")
    return _SIDES[name]


def read_said(body: bytes, *, reason_needed: bool) -> Said:
    if len(body) > BODY_BYTES_MAX:
        raise Refused(TOO_LARGE, f"The body has {len(body)} bytes; at most {BODY_BYTES_MAX} are read.")
    try:
        value = json.loads(body) if body.strip() else {}
    except ValueError:
        raise Refused(NOT_VALID, "The body is not JSON.") from None
    if not isinstance(value, dict):
        raise Refused(NOT_VALID, "The body is not a JSON object.")
    said = Said(reason=_text(value, "reason", REASON_LENGTH_MAX), by=_text(value, "by", BY_LENGTH_MAX) or OPERATOR)
    if reason_needed and not said.reason:
        raise Refused(NOT_VALID, "A fault needs a reason.")
    return said


def _text(value: dict[str, Any], name: str, length_max: int) -> str:
    text = value.get(name, "")
    if not isinstance(text, str):
        raise Refused(NOT_VALID, f"{name} is not text.")
    text = " ".join(text.split())
    if len(text) > length_max:
        raise Refused(NOT_VALID, f"{name} has {len(text)} characters; at most {length_max} are kept.")
    return text
