"""HTTP requests and answers as values, and how they become the worker's data and back."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

from local.host.converters import Datum
from local.host.invoke import Invocation
from local.host.model import HTTP_OUTPUT, FunctionSpec

_UNSENDABLE = re.compile(r"[\r\n\0]")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One HTTP request, its body read."""

    method: str
    path: str
    url: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes

    @property
    def key(self) -> str | None:
        """The access key given: the header wins over the query."""
        return self.headers.get("x-functions-key") or self.query.get("code")


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """One HTTP answer."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


async def send_response(send: Send, response: Response) -> None:
    """Hand a response to the server."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def request_url(scope: Scope, headers: Mapping[str, str]) -> str:
    """scheme://host/path?query as the client sees it."""
    host = headers.get("host") or "localhost"
    query = scope["query_string"]
    suffix = f"?{query.decode('latin-1')}" if query else ""
    return f"{scope['scheme']}://{host}{scope['raw_path'].decode('latin-1')}{suffix}"


def parse_query(raw: bytes) -> dict[str, str]:
    """Query values: repeated ones joined with a comma, empty ones dropped, as the real host does."""
    if not raw:
        return {}
    values: dict[str, str] = {}
    for name, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=False):
        values[name] = f"{values[name]},{value}" if name in values else value
    return values


def strings(values: Mapping[str, str]) -> dict[str, Datum]:
    return {name: Datum(value, "string") for name, value in values.items()}


def http_output(spec: FunctionSpec, invocation: Invocation) -> Datum | None:
    """`$return`, or the http output parameter of a function that has one."""
    if spec.returns is not None and spec.returns.binding == HTTP_OUTPUT:
        return invocation.returned
    for binding in spec.bindings_of(HTTP_OUTPUT):
        for name, datum in invocation.outputs:
            if name == binding["name"]:
                return datum
    return None


def encode_response(datum: Datum | None) -> Response:
    """The HTTP answer that stands for a returned value."""
    if datum is None or datum.value is None:
        return Response(status=204)
    if datum.type == "string":
        return Response(
            status=200, body=datum.value.encode("utf-8"), headers=(("content-type", "text/plain; charset=utf-8"),)
        )
    value = datum.value
    headers = [(str(name).lower(), header.value) for name, header in value["headers"].items()]
    headers = [(name, text) for name, text in headers if name not in ("content-length", "transfer-encoding")]
    for cookie in value["cookies"] or ():
        headers.extend(("set-cookie", morsel) for morsel in _cookie_values(cookie))
    for name, text in headers:
        if not name.isascii() or _UNSENDABLE.search(text):
            raise ValueError(f"response header {name!r} cannot be sent")
        text.encode("latin-1")
    return Response(status=int(value["status_code"].value), body=value["body"].value, headers=tuple(headers))


def _cookie_values(cookie: SimpleCookie) -> list[str]:
    return [morsel.OutputString() for morsel in cookie.values()]
