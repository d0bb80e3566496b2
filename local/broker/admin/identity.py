"""A stand-in for the managed identity endpoint of App Service, so that identity-based connections work locally.

https://learn.microsoft.com/azure/app-service/overview-managed-identity describes the request: the address comes from
IDENTITY_ENDPOINT, and the header X-IDENTITY-HEADER must repeat IDENTITY_HEADER, which keeps other sites' requests out.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping

from local.broker.auth import TokenIssuer
from local.broker.clock import Clock
from local.broker.development_tokens import (
    SERVICE_BUS_AUDIENCE,
    STORAGE_AUDIENCE,
    is_service_bus_audience,
    is_storage_audience,
)
from local.broker.http import Request, Response

IDENTITY_PATH = "/msi/token"
IDENTITY_API_VERSION = "2019-08-01"
SYSTEM_ASSIGNED = "development-identity"


class ManagedIdentityEndpoint:
    def __init__(self, issuer: TokenIssuer, identity_header: str, clock: Clock) -> None:
        self._issuer = issuer
        self._identity_header = identity_header.encode()
        self._clock = clock

    def handle(self, request: Request) -> Response:
        if request.method != "GET":
            return _refusal(405, "method_not_allowed", "Use GET.")
        shown = request.headers.get("x-identity-header", "").encode()
        if not hmac.compare_digest(shown, self._identity_header):
            return _refusal(401, "unauthorized", "X-IDENTITY-HEADER must hold the value of IDENTITY_HEADER.")
        if request.query.get("api-version") != IDENTITY_API_VERSION:
            return _refusal(400, "bad_request", f"The api-version must be {IDENTITY_API_VERSION}.")
        resource = request.query.get("resource", "")
        if not is_service_bus_audience(resource) and not is_storage_audience(resource):
            known = f"{SERVICE_BUS_AUDIENCE} and {STORAGE_AUDIENCE}"
            return _refusal(400, "invalid_resource", f"Tokens are issued for {known} only.")
        return self._token(request.query, resource)

    def _token(self, query: Mapping[str, str], resource: str) -> Response:
        client_id = query.get("client_id") or query.get("principal_id") or query.get("mi_res_id") or SYSTEM_ASSIGNED
        token = self._issuer.issue(self._clock.now(), audience=resource, subject=client_id)
        return _json(
            200,
            {
                "access_token": token.text,
                "client_id": client_id,
                "expires_on": str(token.expires_at),
                "not_before": str(token.issued_at),
                "resource": resource,
                "token_type": "Bearer",
            },
        )


def _refusal(status: int, error: str, detail: str) -> Response:
    return _json(status, {"error": error, "error_description": detail})


def _json(status: int, value: dict[str, str]) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(status=status, body=json.dumps(value).encode(), content_type="application/json", headers=headers)
