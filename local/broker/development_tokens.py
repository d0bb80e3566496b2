"""Development tokens: what a managed identity would get from Entra ID, signed by the broker itself."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from .claims import ALL_RIGHTS, AuthError, AuthFailure, Claims, Right, require_token_text

#: What a token for Service Bus is issued for; clients write it with and without the slash.
SERVICE_BUS_AUDIENCE = "https://servicebus.azure.net"
#: The same for Storage: Azurite takes such tokens with `--oauth basic`; the broker itself does not.
STORAGE_AUDIENCE = "https://storage.azure.com"
#: How far ahead the clock of the issuer may be.
CLOCK_SKEW_S = 300


@dataclass(frozen=True, kw_only=True)
class DevelopmentToken:
    text: str = field(repr=False)
    issued_at: int
    expires_at: int


@dataclass(frozen=True)
class TokenIssuer:
    """Makes the bearer tokens that a managed identity would get from Entra ID. For development only."""

    secret: bytes = field(repr=False)
    lifetime_s: int = field(default=24 * 3600, kw_only=True)
    #: Entra ID's own name: Azurite, which gets these tokens as well, looks at how an issuer begins and no further.
    issuer: str = field(default="https://sts.windows.net/development/", kw_only=True)

    def issue(
        self,
        now: float,
        *,
        audience: str = SERVICE_BUS_AUDIENCE,
        subject: str = "developer",
        rights: Iterable[Right] = ALL_RIGHTS,
    ) -> DevelopmentToken:
        issued_at = int(now)
        expires_at = issued_at + self.lifetime_s
        payload = {
            "aud": audience,
            "iss": self.issuer,
            "iat": issued_at,
            "nbf": issued_at,
            "exp": expires_at,
            "oid": subject,
            "appid": subject,
            "rights": sorted(right.value for right in rights),
        }
        signed = f"{_b64url(_JWT_HEADER)}.{_b64url(payload)}"
        signature = base64.urlsafe_b64encode(_jwt_signature(signed, self.secret)).rstrip(b"=").decode()
        return DevelopmentToken(text=f"{signed}.{signature}", issued_at=issued_at, expires_at=expires_at)


_JWT_HEADER: dict[str, object] = {"alg": "HS256", "typ": "JWT"}


def is_storage_audience(audience: object) -> bool:
    return isinstance(audience, str) and audience.lower().rstrip("/") == STORAGE_AUDIENCE


def is_service_bus_audience(audience: object) -> bool:
    return isinstance(audience, str) and audience.lower().rstrip("/") == SERVICE_BUS_AUDIENCE


def read_development_token(token: str, secret: bytes, now: float) -> Claims:
    require_token_text(token)
    signed, dot, signature = token.rpartition(".")
    header, second_dot, payload_text = signed.partition(".")
    if not dot or not second_dot or "." in payload_text:
        raise AuthError(AuthFailure.MALFORMED, "a bearer token has three parts separated by dots.")
    if _json_part(header).get("alg") != "HS256":
        raise AuthError(AuthFailure.MALFORMED, "only tokens of this broker's own issuer (HS256) are taken.")
    if not hmac.compare_digest(_jwt_signature(signed, secret), _from_b64url(signature)):
        raise AuthError(AuthFailure.BAD_SIGNATURE, "the bearer token was not issued by this broker.")
    return _bearer_claims(_json_part(payload_text), now)


def _bearer_claims(payload: dict[str, object], now: float) -> Claims:
    expires_at, not_before, subject = payload.get("exp"), payload.get("nbf", 0), payload.get("oid")
    if not isinstance(expires_at, int) or not isinstance(not_before, int) or not isinstance(subject, str):
        raise AuthError(AuthFailure.MALFORMED, "exp, nbf or oid is missing or of the wrong type.")
    if expires_at <= now:
        raise AuthError(AuthFailure.EXPIRED, f"it was valid until {expires_at}.")
    if not_before > now + CLOCK_SKEW_S:
        raise AuthError(AuthFailure.MALFORMED, f"it is not valid before {not_before}.")
    if not is_service_bus_audience(payload.get("aud")):
        raise AuthError(AuthFailure.WRONG_AUDIENCE, f"aud must be '{SERVICE_BUS_AUDIENCE}'.")
    names = payload.get("rights", [])
    known = {right.value: right for right in Right}
    if not isinstance(names, list) or not all(isinstance(name, str) and name in known for name in names):
        raise AuthError(AuthFailure.MALFORMED, "rights must be a list of Send, Listen, Manage.")
    rights = frozenset(known[name] for name in names)
    return Claims(key_name=subject, rights=rights, resource="", expires_at=float(expires_at))


def _jwt_signature(signed: str, secret: bytes) -> bytes:
    return hmac.new(secret, signed.encode(), hashlib.sha256).digest()


def _b64url(value: dict[str, object]) -> str:
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _from_b64url(text: str) -> bytes:
    try:
        return base64.b64decode((text + "=" * (-len(text) % 4)).encode("ascii"), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise AuthError(AuthFailure.MALFORMED, "a part of the bearer token is not base64url.") from error


def _json_part(text: str) -> dict[str, object]:
    try:
        value = json.loads(_from_b64url(text))
    except (ValueError, RecursionError) as error:
        raise AuthError(AuthFailure.MALFORMED, "a part of the bearer token is not JSON.") from error
    if not isinstance(value, dict):
        raise AuthError(AuthFailure.MALFORMED, "a part of the bearer token is not an object.")
    return value
