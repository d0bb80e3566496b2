"""The stand-in for a managed identity gives tokens to those who know the header, for Service Bus and Storage only."""

from __future__ import annotations

import json

import pytest

from local.broker.admin import ManagedIdentityEndpoint
from local.broker.auth import KeyRing, Right, TokenIssuer
from local.broker.claims import AuthError
from local.broker.clock import ManualClock
from local.broker.http import Request, Response

CLOCK = ManualClock()
GOOD = {"resource": "https://servicebus.azure.net/", "api-version": "2019-08-01"}


def ask(query: dict[str, str], header: str = "secret", method: str = "GET") -> Response:
    endpoint = ManagedIdentityEndpoint(TokenIssuer(b"s", lifetime_s=100), "secret", CLOCK)
    headers = {"x-identity-header": header}
    return endpoint.handle(Request(method=method, raw_path="/msi/token", query=query, headers=headers))


def test_the_token_is_one_that_the_broker_believes() -> None:
    response = ask(GOOD)
    given = json.loads(response.body)
    claims = KeyRing(token_secret=b"s").verify_bearer(given["access_token"], CLOCK.now())
    assert claims.rights == frozenset(Right)
    assert given["expires_on"] == str(int(CLOCK.now()) + 100)
    assert (given["token_type"], given["resource"]) == ("Bearer", GOOD["resource"])
    assert response.headers["cache-control"] == "no-store"


def test_a_token_for_storage_is_of_no_use_here() -> None:
    given = json.loads(ask(GOOD | {"resource": "https://storage.azure.com"}).body)
    assert "https://storage.azure.com" == given["resource"]
    with pytest.raises(AuthError, match="aud must be"):
        KeyRing(token_secret=b"s").verify_bearer(given["access_token"], CLOCK.now())


def test_an_identity_that_is_asked_for_by_name_is_in_the_token() -> None:
    given = json.loads(ask(GOOD | {"client_id": "my-app"}).body)
    claims = KeyRing(token_secret=b"s").verify_bearer(given["access_token"], CLOCK.now())
    assert (given["client_id"], claims.key_name) == ("my-app", "my-app")


@pytest.mark.parametrize(
    ("query", "header", "method", "status"),
    [
        (GOOD, "", "GET", 401),
        (GOOD, "guess\u00e9", "GET", 401),
        (GOOD, "secret", "POST", 405),
        (GOOD | {"resource": "https://vault.azure.net/"}, "secret", "GET", 400),
        ({"api-version": "2019-08-01"}, "secret", "GET", 400),
        (GOOD | {"api-version": "2017-09-01"}, "secret", "GET", 400),
    ],
)
def test_others_are_refused(query: dict[str, str], header: str, method: str, status: int) -> None:
    response = ask(query, header, method)
    assert response.status == status
    assert "access_token" not in json.loads(response.body)
