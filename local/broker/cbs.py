"""`$cbs`: claims-based security. A client puts a token for an audience; the connection may then do what it allows."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from .auth import AuthError, AuthFailure, Claims, Right
from .errors import BrokerError, EntityNotFound
from .namespace import Namespace, path_of

_log = logging.getLogger(__name__)

#: Tokens one connection may hold; a client needs one for each entity.
TOKENS_MAX = 1000


@dataclass(frozen=True, kw_only=True)
class PutTokenAnswer:
    status: int
    description: str


class TokenBook:
    """The tokens of one connection, by the path they were put for."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._claims: dict[str, Claims] = {}

    @property
    def is_empty(self) -> bool:
        return not self._claims

    def put(self, operation: object, audience: object, token: object) -> PutTokenAnswer:
        """Judge one put-token request."""
        answer = self._judge(operation, audience, token)
        _log.debug("%s: a token for %r: %d", self._namespace.name, audience, answer.status)
        return answer

    def _judge(self, operation: object, audience: object, token: object) -> PutTokenAnswer:
        if operation != "put-token":
            return PutTokenAnswer(status=501, description=f"$cbs does not know the operation '{operation}'.")
        if not isinstance(audience, str) or not isinstance(token, str):
            return PutTokenAnswer(status=400, description="put-token needs a name and a token, both strings.")
        try:
            claims = self._namespace.keys.verify_any(token, audience, self._namespace.clock.now())
            self._check_entity(audience)
        except AuthError as error:
            return PutTokenAnswer(status=401, description=error.description)
        except EntityNotFound as error:
            return PutTokenAnswer(status=404, description=error.description)
        except BrokerError as error:
            return PutTokenAnswer(status=400, description=error.description)
        key = path_of(audience).lower()
        if key not in self._claims and len(self._claims) >= TOKENS_MAX:
            return PutTokenAnswer(status=403, description=f"A connection holds at most {TOKENS_MAX} tokens.")
        self._claims[key] = claims
        return PutTokenAnswer(status=202, description="Accepted")

    def _check_entity(self, audience: str) -> None:
        """The service answers for a missing entity here already."""
        path = path_of(audience)
        if path:
            self._namespace.resolve(path)

    def require(self, path: str, right: Right) -> None:
        """AuthError unless a live token covers the path with the right."""
        if not any(claims.allows(right) for claims in self._alive(path)):
            raise AuthError(AuthFailure.MISSING_RIGHT, f"'{right.value}' is needed for '{path}'.")

    def require_any(self, path: str) -> None:
        """AuthError unless a live token covers the path, whatever it allows."""
        self._alive(path)

    def _alive(self, path: str) -> list[Claims]:
        now, wanted = self._namespace.clock.now(), path.lower()
        covering = [claims for audience, claims in self._claims.items() if _covers(audience, wanted)]
        if not covering:
            raise AuthError(AuthFailure.NO_TOKEN, f"put a token for '{path}' on this connection first.")
        alive = [claims for claims in covering if claims.expires_at > now]
        if not alive:
            raise AuthError(AuthFailure.EXPIRED, f"the token for '{path}' has run out.")
        return alive


def _covers(audience: str, path: str) -> bool:
    return not audience or path == audience or path.startswith(audience + "/")
