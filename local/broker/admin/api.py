"""Requests to the administration API, judged and answered. No sockets, no threads: a request in, a response out."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable

from local.broker.auth import AuthError
from local.broker.errors import ENTITY_EXISTS, INTERNAL_ERROR, NOT_FOUND, BrokerError, InvalidDescription
from local.broker.http import Request, Response
from local.broker.namespace import Namespace

from .access import require_manage
from .addresses import read_address
from .atom import ERROR_TYPE, Place, write_error
from .operations import Operations

#: Versions of the API that clients ask for; what they see differs only in the elements that came later.
API_VERSIONS = frozenset(
    {"2013-10", "2014-01", "2014-05", "2014-09", "2015-01", "2015-08", "2016-07", "2017-04", "2021-05", "2024-05"}
)
#: What a caller gets who does not say, for example with a browser.
DEFAULT_VERSION = "2021-05"


def _random_key() -> str:
    """256 bits in base64, as the service makes them."""
    return base64.b64encode(secrets.token_bytes(32)).decode()


class AdminApi:
    """`handle` answers every request; `host` is what links are made with (the request's own Host when not given)."""

    def __init__(
        self, namespace: Namespace, host: str | None = None, *, make_key: Callable[[], str] = _random_key
    ) -> None:
        self._namespace = namespace
        self._host = host
        self._make_key = make_key

    def handle(self, request: Request) -> Response:
        try:
            return self._answer(request)
        except AuthError as error:
            return _refusal(401, 40100, "Unauthorized", error.description)
        except BrokerError as error:
            return _refused(error)

    def _answer(self, request: Request) -> Response:
        claims = require_manage(self._namespace, request)
        place = Place(host=self._host or request.host, api_version=_read_version(request), author=self._namespace.name)
        if request.method == "POST":
            detail = "Messages are not sent or received over HTTP here; use AMQP."
            return _refusal(501, 50100, "Not Implemented", detail)
        operations = Operations(self._namespace, request, claims, place, self._make_key)
        methods = {"GET": operations.get, "PUT": operations.put, "DELETE": operations.delete}
        if request.method not in methods:
            return _refusal(405, 40500, "Method Not Allowed", f"{request.method}: use GET, PUT or DELETE.")
        return methods[request.method](read_address(request.raw_path))


def _read_version(request: Request) -> str:
    version = request.query.get("api-version", DEFAULT_VERSION)
    if version not in API_VERSIONS:
        raise InvalidDescription(f"The api-version '{version[:50]}' is not one of {', '.join(sorted(API_VERSIONS))}.")
    return version


def _refused(error: BrokerError) -> Response:
    match error.condition:
        case c if c == NOT_FOUND:
            return _refusal(404, 40400, "Not Found", error.description)
        case c if c == ENTITY_EXISTS:
            return _refusal(409, 40900, "Conflict", error.description)
        case c if c == INTERNAL_ERROR:
            return _refusal(500, 50000, "Internal Server Error", error.description)
        case _:
            return _refusal(400, 40000, "Bad Request", error.description)


def _refusal(status: int, sub_code: int, phrase: str, detail: str) -> Response:
    body = write_error(status, f"SubCode={sub_code}. {phrase}. {detail}")
    return Response(status=status, body=body, content_type=ERROR_TYPE)
