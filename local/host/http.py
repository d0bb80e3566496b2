"""HTTP functions as an ASGI application: routing, keys, limits, and the worker's conversions.

The order of checks is the real host's: no matching route or method is 404, a wrong key 401, then the call;
a function that raises, or returns what cannot be encoded, is 500 with an empty body.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from local.host.converters import Datum
from local.host.errors import FunctionRefused, one_line
from local.host.http_messages import (
    Receive,
    Request,
    Response,
    Scope,
    Send,
    encode_response,
    http_output,
    parse_query,
    request_url,
    send_response,
    strings,
)
from local.host.invoke import Invocation, Invoker
from local.host.keys import Keys
from local.host.model import FunctionSpec
from local.host.routes import Route, Router, parse_template

log = logging.getLogger("local.host.http")

Handler = Callable[[Request], Awaitable[Response]]

BODY_LIMIT_DEFAULT_BYTES = 104_857_600
HEADERS_LIMIT_BYTES = 32_768
HEADERS_LIMIT_COUNT = 100
BODY_READ_TIMEOUT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class HttpLimits:
    """Bounds on what a request may carry and how many may run."""

    body_bytes: int = BODY_LIMIT_DEFAULT_BYTES
    headers_bytes: int = HEADERS_LIMIT_BYTES
    headers_count: int = HEADERS_LIMIT_COUNT
    concurrent: int | None = None
    outstanding: int | None = None


@dataclass(frozen=True, kw_only=True)
class HttpFunction:
    """An HTTP function ready to be called."""

    spec: FunctionSpec
    level: str
    inputs: Callable[[], Mapping[str, Datum]]


def build_routes(
    functions: tuple[FunctionSpec, ...],
    prefix: str,
    extra_inputs: Callable[[FunctionSpec], Callable[[], Mapping[str, Datum]]],
    on_refused: Callable[[FunctionRefused], None],
) -> list[Route[HttpFunction]]:
    """Routes of all HTTP functions; a function whose route is wrong or taken is reported and left out."""
    routes: list[Route[HttpFunction]] = []
    for spec in functions:
        try:
            route = _build_route(spec, prefix, extra_inputs(spec))
            for other in routes:
                if route.clashes_with(other):
                    name = other.target.spec.name
                    raise FunctionRefused(spec.name, f"route '{route.template.text}' is already taken by '{name}'")
        except FunctionRefused as refused:
            on_refused(refused)
        except Exception as error:
            on_refused(FunctionRefused(spec.name, one_line(error)))
        else:
            routes.append(route)
    return routes


def _build_route(
    spec: FunctionSpec, prefix: str, inputs: Callable[[], Mapping[str, Datum]]
) -> Route[HttpFunction]:
    trigger = spec.trigger
    own = str(trigger.get("route") or spec.name).lstrip("/")
    if not prefix and own.split("/")[0].lower() in ("admin", "runtime"):
        raise FunctionRefused(spec.name, f"route '{own}' is reserved for the host")
    template = parse_template(f"{prefix}/{own}" if prefix else own)
    methods = frozenset(str(method).upper() for method in trigger.get("methods") or ())
    level = str(trigger.get("authLevel") or "function").lower()
    if level not in ("anonymous", "function", "admin"):
        raise FunctionRefused(spec.name, f"auth level {level!r} is not one of anonymous, function, admin")
    return Route(template=template, methods=methods, target=HttpFunction(spec=spec, level=level, inputs=inputs))


class HttpApp:
    """The ASGI application."""

    def __init__(
        self,
        *,
        routes: list[Route[HttpFunction]],
        keys: Keys,
        invoker: Invoker,
        limits: HttpLimits,
        mounts: Mapping[str, Handler],
        on_outputs: Callable[[FunctionSpec, Invocation], Awaitable[None]],
    ) -> None:
        self._router = Router(routes)
        self._keys = keys
        self._invoker = invoker
        self._limits = limits
        self._mounts = dict(mounts)
        self._on_outputs = on_outputs
        self._running = None if limits.concurrent is None else asyncio.Semaphore(limits.concurrent)
        self._outstanding = 0
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"unsupported connection type {scope['type']!r}")
        try:
            response = await self._answer(scope, receive)
        except _Refused as refused:
            response = refused.response
        await send_response(send, response)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        method = scope["method"]
        headers = self._headers(scope)
        path = scope["raw_path"].decode("ascii").lstrip("/")
        for prefix, handler in self._mounts.items():
            if path.startswith(prefix):
                return await self._call_system(handler, await self._read(scope, receive, headers, path))
        found = self._router.find(method, path)
        if found is None:
            return NOT_FOUND
        function, values = found
        query = parse_query(scope["query_string"])
        if function.level != "anonymous":
            given = headers.get("x-functions-key") or query.get("code")
            if not self._keys.allows(function.level, function.spec.name, given):
                return UNAUTHORIZED
        if self.draining:
            return Response(status=503, headers=(("retry-after", "1"),))
        body = await self._body(headers, receive)
        if self._limits.outstanding is not None and self._outstanding >= self._limits.outstanding:
            return Response(status=429)
        self._outstanding += 1
        try:
            if self._running is None:
                return await self._call(scope, function, values, headers, query, body)
            async with self._running:
                return await self._call(scope, function, values, headers, query, body)
        finally:
            self._outstanding -= 1

    async def _call_system(self, handler: Handler, request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:
            shown = request.path.partition("?")[0].rpartition("/")[2]
            log.error("%s .../%s failed: %s: %s", request.method, shown, type(error).__name__, one_line(error, 200))
            return FAILED

    async def _call(
        self,
        scope: Scope,
        function: HttpFunction,
        values: Mapping[str, str],
        headers: Mapping[str, str],
        query: Mapping[str, str],
        body: bytes,
    ) -> Response:
        spec = function.spec
        datum = Datum(
            {
                "method": Datum(scope["method"], "string"),
                "url": Datum(request_url(scope, headers), "string"),
                "headers": strings(headers),
                "params": strings(values),
                "query": strings(query),
                "body": Datum(body, "bytes"),
            },
            "http",
        )
        try:
            invocation = await self._invoker.invoke(
                spec,
                {spec.trigger_name: datum, **function.inputs()},
                trace_parent=headers.get("traceparent", ""),
                trace_state=headers.get("tracestate", ""),
            )
            if invocation.outputs:
                await self._on_outputs(spec, invocation)
            return encode_response(http_output(spec, invocation))
        except Exception as error:
            log.error("function '%s' failed: %s: %s", spec.name, type(error).__name__, one_line(error), exc_info=error)
            return FAILED

    def _headers(self, scope: Scope) -> dict[str, str]:
        """Names in lower case, repeated values joined, within the limits."""
        raw = scope["headers"]
        if len(raw) > self._limits.headers_count:
            raise _Refused(Response(status=431))
        headers: dict[str, str] = {}
        size = 0
        for name, value in raw:
            size += len(name) + len(value)
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]},{text}" if key in headers else text
        if size > self._limits.headers_bytes:
            raise _Refused(Response(status=431))
        return headers

    async def _read(self, scope: Scope, receive: Receive, headers: dict[str, str], path: str) -> Request:
        return Request(
            method=scope["method"],
            path=path,
            url=request_url(scope, headers),
            headers=headers,
            query=parse_query(scope["query_string"]),
            body=await self._body(headers, receive),
        )

    async def _body(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        """The body, if its length is announced: the real host passes no body of unknown length on."""
        announced = headers.get("content-length")
        if announced is None:
            if "transfer-encoding" in headers:
                log.warning("a request body without Content-Length is not passed on, as in the real host")
            return b""
        if not announced.isdigit():
            raise _Refused(Response(status=400))
        length = int(announced)
        if length > self._limits.body_bytes:
            raise _Refused(Response(status=413, headers=(("connection", "close"),)))
        if length == 0:
            return b""
        try:
            async with asyncio.timeout(BODY_READ_TIMEOUT_S):
                return await _collect(receive, length)
        except TimeoutError:
            raise _Refused(Response(status=408, headers=(("connection", "close"),))) from None


class _Refused(Exception):
    """The request is answered before any function sees it."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


NOT_FOUND = Response(status=404)
UNAUTHORIZED = Response(status=401)
FAILED = Response(status=500)


async def _collect(receive: Receive, length: int) -> bytes:
    chunks: list[bytes] = []
    received = 0
    while received < length:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _Refused(Response(status=400))
        chunk = event.get("body", b"")
        received += len(chunk)
        chunks.append(chunk)
        if not event.get("more_body", False):
            break
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
