"""HTTP/1.1 without sockets: bytes in, requests out; responses in, bytes out. Time-outs belong to whoever reads.

One `HttpConnection` per client connection:

    for request in connection.receive_data(data):      # BadRequest: send its `response`, then close
        writer.write(connection.send_response(router.handle(request)))
        ... connection.next_requests() for pipelined ones; close when connection.should_close
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

import h11

#: Request line and headers; three tokens of 8 KB fit.
HEADER_BYTES_MAX = 64 * 1024
#: No description of an entity comes near.
BODY_BYTES_MAX = 1024 * 1024
QUERY_FIELDS_MAX = 64

_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    #: As it came: still percent-encoded, without the query.
    raw_path: str
    query: Mapping[str, str] = field(default_factory=dict)
    #: Lower-case names; of a repeated header the last one.
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def path(self) -> str:
        return unquote(self.raw_path)

    @property
    def host(self) -> str:
        return self.headers.get("host", "localhost")


@dataclass(frozen=True, kw_only=True)
class Response:
    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def text(cls, status: int, text: str) -> Response:
        return cls(status=status, body=text.encode())


class BadRequest(Exception):
    """What came is not HTTP, or too much of it. `response` goes to the client, and then the connection is closed."""

    def __init__(self, status: int, detail: str, response: bytes) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.response = response


class HttpConnection:
    """One client connection, which may carry many requests, one at a time."""

    def __init__(self, *, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
        self._body_bytes_max = body_bytes_max
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._output = bytearray()

    @property
    def should_close(self) -> bool:
        """Nothing more can be exchanged: the client has gone, asked for the end, or broke the protocol."""
        done = (h11.MUST_CLOSE, h11.CLOSED, h11.ERROR)
        return self._h11.our_state in done or self._h11.their_state in (h11.CLOSED, h11.ERROR)

    @property
    def is_idle(self) -> bool:
        """Between requests: a connection that may be closed without harm."""
        return self._h11.their_state is h11.IDLE and not self._h11.trailing_data[0]

    @property
    def waiting_bytes(self) -> int:
        """What has arrived behind the request that is being answered."""
        return len(self._h11.trailing_data[0])

    def receive_data(self, data: bytes) -> list[Request]:
        """Requests that are now complete: none or one, since HTTP/1.1 answers in order. Empty data is no data."""
        if data:
            self._h11.receive_data(data)
        return self.next_requests()

    def receive_eof(self) -> list[Request]:
        """The client will send no more."""
        self._h11.receive_data(b"")
        return self.next_requests()

    def next_requests(self) -> list[Request]:
        """What had arrived behind the request that was just answered."""
        try:
            request = self._read()
        except h11.RemoteProtocolError as error:
            raise self._bad_request(error.error_status_hint, str(error)) from error
        return [] if request is None else [request]

    def take_output(self) -> bytes:
        """Bytes to send before the response: a client may wait for `100 Continue`."""
        output = bytes(self._output)
        self._output.clear()
        return output

    def send_response(self, response: Response) -> bytes:
        """The answer to the request that was handed out last."""
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items()]
        if response.body:
            headers.append((b"content-type", response.content_type.encode("latin-1")))
        headers.append((b"content-length", str(len(response.body)).encode()))
        is_head = self._request is not None and self._request.method == b"HEAD"
        data = self._send(response.status, headers, b"" if is_head else response.body)
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            self._request = None
        return data

    def _read(self) -> Request | None:
        if self._h11.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR):
            return None
        while True:
            event = self._h11.next_event()
            match event:
                case h11.Request():
                    self._begin(event)
                case h11.Data(data=data):
                    self._add(bytes(data))
                case h11.EndOfMessage():
                    return self._complete()
                case _:
                    # NEED_DATA, PAUSED or ConnectionClosed: nothing to hand out now.
                    return None

    def _begin(self, event: h11.Request) -> None:
        self._request = event
        self._body.clear()
        declared = next((value for name, value in event.headers if name == b"content-length"), b"0")
        if int(declared) > self._body_bytes_max:
            raise self._too_large()
        if event.method.decode("latin-1") not in _METHODS:
            raise self._bad_request(HTTPStatus.NOT_IMPLEMENTED, "this method is not known here")
        if self._h11.they_are_waiting_for_100_continue:
            goes_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            self._output += self._h11.send(goes_on) or b""

    def _add(self, data: bytes) -> None:
        if len(self._body) + len(data) > self._body_bytes_max:
            raise self._too_large()
        self._body += data

    def _complete(self) -> Request:
        assert self._request is not None
        target = self._request.target.decode("latin-1")
        raw_path, _, query = target.partition("?")
        if "://" in raw_path:
            raw_path = "/" + raw_path.partition("://")[2].partition("/")[2]
        return Request(
            method=self._request.method.decode("latin-1"),
            raw_path=raw_path,
            query=self._query(query),
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in self._request.headers},
            body=bytes(self._body),
        )

    def _query(self, text: str) -> dict[str, str]:
        try:
            return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX))
        except ValueError as error:
            detail = f"the query has more than {QUERY_FIELDS_MAX} fields"
            raise self._bad_request(HTTPStatus.BAD_REQUEST, detail) from error

    def _too_large(self) -> BadRequest:
        detail = f"the body may have {self._body_bytes_max} bytes"
        return self._bad_request(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)

    def _bad_request(self, status: int, detail: str) -> BadRequest:
        if self._h11.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return BadRequest(status, detail, b"")
        body = f"{detail}\n".encode()
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        return BadRequest(status, detail, self._send(status, headers, body))

    def _send(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bytes:
        reason = HTTPStatus(status).phrase.encode() if status in _KNOWN_STATUSES else b""
        data = self._h11.send(h11.Response(status_code=status, headers=headers, reason=reason)) or b""
        if body:
            data += self._h11.send(h11.Data(data=body)) or b""
        return data + (self._h11.send(h11.EndOfMessage()) or b"")


_KNOWN_STATUSES = frozenset(int(status) for status in HTTPStatus)

Handler = Callable[[Request], Response]


class Router:
    """Sends a request to the handler mounted at the longest matching prefix, or else to the default one.

    The administration API owns every path that an entity may have, so a request in its own dialect (an `api-version`
    of Service Bus) goes to it even under a mounted prefix; prefixes with `$` cannot be entities and always win.
    """

    def __init__(self, default: Handler, *, default_versions: frozenset[str] = frozenset()) -> None:
        self._default = default
        self._default_versions = default_versions
        self._mounts: dict[str, Handler] = {}

    def mount(self, prefix: str, handler: Handler) -> None:
        """Serve `prefix` and everything below it, e.g. `/$faults`."""
        if not prefix.startswith("/") or prefix.endswith("/"):
            raise ValueError(f"A prefix begins with a slash and ends without one: '{prefix}'.")
        self._mounts[prefix.lower()] = handler

    def handle(self, request: Request) -> Response:
        path = request.path.lower()
        matching = [prefix for prefix in self._mounts if path == prefix or path.startswith(prefix + "/")]
        if not matching:
            return self._default(request)
        prefix = max(matching, key=len)
        speaks_default = request.query.get("api-version") in self._default_versions
        if speaks_default and not prefix.startswith("/$"):
            return self._default(request)
        return self._mounts[prefix](request)
