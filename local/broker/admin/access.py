"""Who may administer: a token with the Manage right for what is asked, and one more for each target of forwarding."""

from __future__ import annotations

from local.broker.auth import AuthError, AuthFailure, Claims, Right
from local.broker.descriptions import QueueDescription, SubscriptionDescription
from local.broker.http import Request
from local.broker.namespace import Namespace

FORWARD_HEADER = "servicebussupplementaryauthorization"
FORWARD_DEAD_LETTERS_HEADER = "servicebusdlqsupplementaryauthorization"


def require_manage(namespace: Namespace, request: Request) -> Claims:
    token = request.headers.get("authorization", "")
    if not token.strip():
        raise AuthError(AuthFailure.NO_TOKEN, "an Authorization header is required.")
    audience = f"https://{request.host}/{request.path.lstrip('/')}"
    claims = namespace.keys.verify_any(token, audience, namespace.clock.now())
    claims.require(Right.MANAGE)
    return claims


def require_forwarding(
    namespace: Namespace, request: Request, claims: Claims, description: QueueDescription | SubscriptionDescription
) -> None:
    """Forwarding sends in the caller's name, so the caller must be allowed to send to the target."""
    _require_send(namespace, request, claims, description.forward_to, FORWARD_HEADER)
    dead_letters = description.forward_dead_lettered_messages_to
    _require_send(namespace, request, claims, dead_letters, FORWARD_DEAD_LETTERS_HEADER)


def _require_send(namespace: Namespace, request: Request, claims: Claims, target: str | None, header: str) -> None:
    if target is None:
        return
    audience = target if "://" in target else f"sb://{request.host}/{target}"
    token = request.headers.get(header, "")
    if token.strip():
        namespace.keys.verify_any(token, audience, namespace.clock.now()).require(Right.SEND)
    elif not claims.covers(audience):
        raise AuthError(AuthFailure.WRONG_AUDIENCE, f"the token does not cover the forwarding target '{target}'.")
