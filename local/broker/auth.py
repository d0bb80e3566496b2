"""Who may do what: shared access keys and the judge of every token shown to a namespace.

Pure: tokens and the time come in, claims or a reason for refusal go out. A token says which resource it is for, until
when, and which key signed it; a key says which rights it carries.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote_plus, unquote, unquote_plus

from .claims import (
    ALL_RIGHTS,
    AuthError,
    AuthFailure,
    Claims,
    Resource,
    Right,
    is_above,
    read_resource,
    require_token_text,
)
from .descriptions import AuthorizationRule
from .development_tokens import TokenIssuer, is_service_bus_audience, read_development_token

__all__ = [
    "ALL_RIGHTS",
    "ROOT_KEY_NAME",
    "AuthError",
    "AuthFailure",
    "Claims",
    "KeyRing",
    "Right",
    "SharedAccessKey",
    "TokenIssuer",
    "is_service_bus_audience",
    "sign_sas",
]

SAS_PREFIX = "SharedAccessSignature "
BEARER = "bearer"
ROOT_KEY_NAME = "RootManageSharedAccessKey"

_EXPIRY = re.compile(r"[0-9]{1,15}")
_FIELDS = frozenset({"sr", "sig", "se", "skn"})


@dataclass(frozen=True, kw_only=True)
class SharedAccessKey:
    """A named policy: one or two keys (so that they can be rolled) and the rights they give."""

    name: str
    primary: str = field(repr=False)
    secondary: str = field(default="", repr=False)
    rights: frozenset[Right] = ALL_RIGHTS

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(key for key in (self.primary, self.secondary) if key)

    @classmethod
    def from_rule(cls, rule: AuthorizationRule) -> SharedAccessKey:
        return cls(
            name=rule.key_name,
            primary=rule.primary_key,
            secondary=rule.secondary_key,
            rights=frozenset(Right(right) for right in rule.rights),
        )


@dataclass(frozen=True, kw_only=True)
class _SasFields:
    signed_resource: str
    signature: bytes
    expiry_text: str
    key_name: str


EntityRules = Callable[[str], Sequence[AuthorizationRule]]


def _no_entity_rules(path: str) -> Sequence[AuthorizationRule]:
    return ()


class KeyRing:
    """The keys of one namespace, and the judge of every token shown to it.

    `entity_rules` looks up the authorization rules of one entity by its path (no rules for an unknown path).
    `token_secret` signs the development tokens; empty means that bearer tokens are refused.
    """

    def __init__(
        self,
        keys: Iterable[SharedAccessKey] = (),
        *,
        token_secret: bytes = b"",
        entity_rules: EntityRules = _no_entity_rules,
    ) -> None:
        self._keys = {key.name: key for key in keys}
        self._token_secret = token_secret
        self.entity_rules = entity_rules

    @property
    def keys(self) -> tuple[SharedAccessKey, ...]:
        return tuple(self._keys.values())

    def put(self, key: SharedAccessKey) -> None:
        """Add a key or roll an existing one."""
        self._keys[key.name] = key

    def remove(self, name: str) -> None:
        """Revoke a key: tokens signed with it are refused from now on."""
        self._keys.pop(name, None)

    def verify(self, token: str, audience: str, now: float) -> Claims:
        """Judge a `SharedAccessSignature sr=..&sig=..&se=..&skn=..` token for the given audience."""
        fields = _parse_sas(token)
        resource_text = unquote_plus(fields.signed_resource)
        resource = read_resource(resource_text)
        key = self._signing_key(fields, resource)
        expires_at = float(fields.expiry_text)
        if expires_at <= now:
            raise AuthError(AuthFailure.EXPIRED, f"it was valid until {fields.expiry_text}.")
        if not is_above(resource, read_resource(audience)):
            raise AuthError(AuthFailure.WRONG_AUDIENCE, f"'{resource_text}' does not cover '{audience}'.")
        return Claims(key_name=key.name, rights=key.rights, resource=resource_text, expires_at=expires_at)

    def verify_bearer(self, token: str, now: float) -> Claims:
        """Judge a development token made by `TokenIssuer` with the same secret."""
        if not self._token_secret:
            raise AuthError(AuthFailure.UNKNOWN_KEY, "this namespace takes no bearer tokens.")
        return read_development_token(token, self._token_secret, now)

    def verify_any(self, token: str, audience: str, now: float) -> Claims:
        """Judge whatever a client puts: a SAS token or a bearer token, each with or without `Bearer ` before it."""
        text = token.strip()
        scheme, _, rest = text.partition(" ")
        if scheme.lower() == BEARER:
            text = rest.strip()
        if not text:
            raise AuthError(AuthFailure.NO_TOKEN, "an authorization is required.")
        if text.startswith(SAS_PREFIX):
            return self.verify(text, audience, now)
        return self.verify_bearer(text, now)

    def _signing_key(self, fields: _SasFields, resource: Resource) -> SharedAccessKey:
        candidates = self._candidates(fields.key_name, resource)
        if not candidates:
            raise AuthError(AuthFailure.UNKNOWN_KEY, f"no key is named '{fields.key_name}'.")
        signed = f"{fields.signed_resource}\n{fields.expiry_text}".encode()
        for key in candidates:
            if _signed_by(key, signed, fields.signature):
                return key
        raise AuthError(AuthFailure.BAD_SIGNATURE, f"key '{fields.key_name}'.")

    def _candidates(self, name: str, resource: Resource) -> list[SharedAccessKey]:
        """Keys of that name, nearest to the resource first. The Python SDK quotes the name twice."""
        names = {name, unquote_plus(name)}
        found = []
        for length in range(len(resource.segments), 0, -1):
            path = "/".join(resource.segments[:length])
            rules = self.entity_rules(path)
            found += [SharedAccessKey.from_rule(rule) for rule in rules if rule.key_name in names]
        found += [key for key_name, key in self._keys.items() if key_name in names]
        return found


def _signed_by(key: SharedAccessKey, signed: bytes, signature: bytes) -> bool:
    matches = [
        hmac.compare_digest(hmac.new(secret.encode(), signed, hashlib.sha256).digest(), signature)
        for secret in key.secrets
    ]
    return any(matches)


def _parse_sas(token: str) -> _SasFields:
    require_token_text(token)
    if not token.startswith(SAS_PREFIX):
        raise AuthError(AuthFailure.MALFORMED, f"it must begin with '{SAS_PREFIX.strip()}'.")
    values: dict[str, str] = {}
    for pair in token[len(SAS_PREFIX) :].split("&"):
        name, equals, value = pair.partition("=")
        if not equals or name not in _FIELDS or name in values:
            raise AuthError(AuthFailure.MALFORMED, "it must hold sr, sig, se and skn, once each.")
        values[name] = value
    missing = sorted(_FIELDS - values.keys())
    if missing:
        raise AuthError(AuthFailure.MALFORMED, f"missing {', '.join(missing)}.")
    if not _EXPIRY.fullmatch(values["se"]):
        raise AuthError(AuthFailure.MALFORMED, "se must be whole seconds since 1970.")
    return _SasFields(
        signed_resource=values["sr"],
        signature=_decode_signature(values["sig"]),
        expiry_text=values["se"],
        key_name=unquote_plus(values["skn"]),
    )


def _decode_signature(text: str) -> bytes:
    try:
        # unquote, not unquote_plus: some clients leave the base64 '+' unescaped.
        return base64.b64decode(unquote(text).encode("ascii"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise AuthError(AuthFailure.MALFORMED, "sig must be base64.") from error


def sign_sas(resource: str, key_name: str, key: str, expires_at: int) -> str:
    """A SAS token as every Service Bus SDK makes it."""
    quoted = quote_plus(resource)
    signature = hmac.new(key.encode(), f"{quoted}\n{expires_at}".encode(), hashlib.sha256).digest()
    signature_text = quote_plus(base64.b64encode(signature))
    return f"{SAS_PREFIX}sr={quoted}&sig={signature_text}&se={expires_at}&skn={quote_plus(key_name)}"
