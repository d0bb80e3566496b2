"""What a token allows, for which resource, and the reasons for not believing one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

from .errors import UNAUTHORIZED, BrokerError

#: A path of 260 characters, percent-encoded twice, and a key name still fit.
LONGEST_TOKEN_CHARS = 8192
#: Levels of an entity path that are searched for entity keys.
MOST_PATH_SEGMENTS = 64

_SCHEMES = frozenset({"sb", "amqp", "amqps", "http", "https"})


class AuthFailure(Enum):
    MALFORMED = "malformed token"
    UNKNOWN_KEY = "unknown key name"
    BAD_SIGNATURE = "signature does not match"
    EXPIRED = "token has expired"
    WRONG_AUDIENCE = "token is for another resource"
    MISSING_RIGHT = "the key does not carry the right that is needed"
    NO_TOKEN = "no token was given"


class AuthError(BrokerError):
    """A caller the broker does not let in, and exactly why."""

    def __init__(self, failure: AuthFailure, detail: str) -> None:
        super().__init__(UNAUTHORIZED, f"{failure.value}: {detail}")
        self.failure = failure


class Right(Enum):
    SEND = "Send"
    LISTEN = "Listen"
    MANAGE = "Manage"


ALL_RIGHTS = frozenset(Right)


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What a verified token allows."""

    key_name: str
    rights: frozenset[Right]
    resource: str
    expires_at: float

    def allows(self, right: Right) -> bool:
        return right in self.rights or Right.MANAGE in self.rights

    def covers(self, audience: str) -> bool:
        """Whether the token's resource is the audience or lies above it. An empty resource is the whole namespace."""
        return not self.resource or is_above(read_resource(self.resource), read_resource(audience))

    def require(self, right: Right) -> None:
        if not self.allows(right):
            raise AuthError(AuthFailure.MISSING_RIGHT, f"'{right.value}' claim is required, key '{self.key_name}'.")


@dataclass(frozen=True, kw_only=True)
class Resource:
    host: str
    segments: tuple[str, ...]


def read_resource(text: str) -> Resource:
    """Host and path of a resource or audience; scheme and port do not matter, upper and lower case neither."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        rest = text
    elif scheme.lower() not in _SCHEMES:
        raise AuthError(AuthFailure.MALFORMED, f"the scheme of '{text}' is not one of {', '.join(sorted(_SCHEMES))}.")
    authority, _, path = rest.partition("/")
    host = _host_of(authority.lower())
    if not host:
        raise AuthError(AuthFailure.MALFORMED, f"no host in '{text}'.")
    segments = tuple(part for part in unquote(path).lower().split("/") if part)
    if len(segments) > MOST_PATH_SEGMENTS:
        raise AuthError(AuthFailure.MALFORMED, f"more than {MOST_PATH_SEGMENTS} levels in the path.")
    return Resource(host=host, segments=segments)


def _host_of(authority: str) -> str:
    if authority.startswith("["):
        return authority.partition("]")[0] + "]"
    return authority.partition(":")[0]


def is_above(resource: Resource, audience: Resource) -> bool:
    same_host = resource.host == audience.host
    return same_host and audience.segments[: len(resource.segments)] == resource.segments


def require_token_text(token: str) -> None:
    if len(token) > LONGEST_TOKEN_CHARS:
        raise AuthError(AuthFailure.MALFORMED, f"longer than {LONGEST_TOKEN_CHARS} characters.")
    if not token.isascii():
        raise AuthError(AuthFailure.MALFORMED, "it holds characters that no token has.")
