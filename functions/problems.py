"""Errors as application/problem+json (RFC 9457): a stable type, a plain sentence, what to do."""

from __future__ import annotations

import json
from dataclasses import dataclass

import azure.functions as func

from shared.errors import (
    BacklogExhausted,
    EntityNotFound,
    MessageTooLarge,
    Misconfigured,
    Overloaded,
    PairClosed,
    PairFaulted,
    PairingError,
    PairingFailed,
    PrimaryFailed,
    Rejected,
    SendError,
)

RETRY_AFTER_S = 5


@dataclass(frozen=True)
class Answer:
    status: int
    kind: str
    title: str
    action: str


# The first class that fits decides, so the more special ones come first.
ANSWERS: dict[type[PairingError], Answer] = {
    EntityNotFound: Answer(404, "entity-not-found", "No such entity", "Check the path, or create the queue or topic."),
    Rejected: Answer(400, "rejected", "The message is not valid", "Correct the message; sent again it fails again."),
    MessageTooLarge: Answer(413, "message-too-large", "The message is too large", "Send a smaller message."),
    PrimaryFailed: Answer(503, "primary-failed", "The primary failed", "Send again after the time in Retry-After."),
    BacklogExhausted: Answer(
        503, "backlog-exhausted", "No backlog queue takes messages", "Send again after the time in Retry-After."
    ),
    Overloaded: Answer(503, "overloaded", "Too many messages are waiting", "Send again after the time in Retry-After."),
    Misconfigured: Answer(
        502, "credentials-refused", "The pair is configured wrongly", "An operator has to correct the connection."
    ),
    PairClosed: Answer(409, "pair-closed", "The pair is closed", "An operator opens it with POST /api/pair/open."),
    PairFaulted: Answer(409, "pair-faulted", "The pair is faulted", "An operator opens it with POST /api/pair/open."),
    PairingFailed: Answer(502, "pairing-failed", "Pairing failed", "Correct what it says, then pair again."),
}
UNEXPECTED = Answer(500, "unexpected", "Something unexpected happened", "Look into the app's log.")


def problem(error: PairingError) -> func.HttpResponse:
    answer = next((answer for kind, answer in ANSWERS.items() if isinstance(error, kind)), UNEXPECTED)
    more: dict[str, object] = {"entity": error.path} if error.path else {}
    if isinstance(error, SendError) and error.indefinite:
        more["indefinite"] = True
    return respond(answer, error.message, **more)


def respond(answer: Answer, detail: str, **more: object) -> func.HttpResponse:
    body = {
        "type": f"urn:paired-namespaces:problem:{answer.kind}",
        "title": answer.title,
        "status": answer.status,
        "detail": detail,
        "action": answer.action,
        **more,
    }
    headers = {"Retry-After": str(RETRY_AFTER_S)} if answer.status == 503 else {}
    return func.HttpResponse(
        json.dumps(body), status_code=answer.status, headers=headers, mimetype="application/problem+json"
    )
