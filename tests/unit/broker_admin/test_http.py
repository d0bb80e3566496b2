"""HTTP on bytes: keep-alive, limits, pipelining, and a proper answer to whatever is not HTTP."""

from __future__ import annotations

import pytest

from local.broker.http import BadRequest, HttpConnection, Request, Response, Router


def get(path: str = "/", extra: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: h:1\r\n{extra}\r\n".encode()


def test_a_request_is_handed_out_when_it_is_complete_and_not_before() -> None:
    connection = HttpConnection()
    data = b"PUT /a%2Fb?api-version=2021-05&x= HTTP/1.1\r\nHost: h\r\nIf-Match: *\r\nContent-Length: 5\r\n\r\nhello"
    for index in range(len(data) - 1):
        assert connection.receive_data(data[index : index + 1]) == []
    assert connection.receive_data(data[-1:]) == [
        Request(
            method="PUT",
            raw_path="/a%2Fb",
            query={"api-version": "2021-05", "x": ""},
            headers={"host": "h", "if-match": "*", "content-length": "5"},
            body=b"hello",
        )
    ]


def test_the_path_is_decoded_only_on_request() -> None:
    [request] = HttpConnection().receive_data(get("/a%2Fb%20c/d"))
    assert (request.raw_path, request.path, request.host) == ("/a%2Fb%20c/d", "/a/b c/d", "h:1")


def test_an_absolute_target_is_reduced_to_its_path() -> None:
    [request] = HttpConnection().receive_data(get("http://h:1/q/x?a=b"))
    assert (request.raw_path, request.query) == ("/q/x", {"a": "b"})


def test_a_connection_serves_request_after_request() -> None:
    connection = HttpConnection()
    for number in range(3):
        [request] = connection.receive_data(get(f"/{number}"))
        assert request.raw_path == f"/{number}"
        sent = connection.send_response(Response.text(200, f"answer {number}"))
        assert sent.startswith(b"HTTP/1.1 200 OK\r\n")
        assert sent.endswith(f"\r\n\r\nanswer {number}".encode())
        assert connection.is_idle
        assert not connection.should_close


def test_pipelined_requests_are_answered_in_order() -> None:
    connection = HttpConnection()
    [first] = connection.receive_data(get("/1") + get("/2"))
    assert connection.receive_data(b"") == []
    connection.send_response(Response(status=200))
    [second] = connection.next_requests()
    assert (first.raw_path, second.raw_path) == ("/1", "/2")


def test_connection_close_is_honoured() -> None:
    connection = HttpConnection()
    connection.receive_data(get("/", "Connection: close\r\n"))
    connection.send_response(Response(status=200))
    assert connection.should_close


def test_the_end_of_input_is_told_from_silence() -> None:
    connection = HttpConnection()
    assert connection.receive_data(b"") == []
    assert not connection.should_close
    assert connection.receive_eof() == []
    assert connection.should_close


def test_a_client_that_goes_away_in_the_middle_is_a_bad_request() -> None:
    connection = HttpConnection()
    connection.receive_data(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe")
    with pytest.raises(BadRequest):
        connection.receive_eof()
    assert connection.should_close


def test_a_chunked_body_is_put_together() -> None:
    connection = HttpConnection()
    head = b"PUT /q HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    [request] = connection.receive_data(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert request.body == b"abcde"


def test_a_client_that_waits_for_the_go_ahead_gets_it() -> None:
    connection = HttpConnection()
    assert (
        connection.receive_data(b"PUT /q HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        == []
    )
    assert connection.take_output().startswith(b"HTTP/1.1 100 ")
    assert connection.take_output() == b""
    [request] = connection.receive_data(b"ab")
    assert request.body == b"ab"


def test_a_body_over_the_limit_is_refused_before_it_is_read() -> None:
    connection = HttpConnection(body_bytes_max=10)
    with pytest.raises(BadRequest) as caught:
        connection.receive_data(b"PUT /q HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n")
    assert caught.value.response.startswith(b"HTTP/1.1 413 ")
    assert connection.should_close


def test_a_chunked_body_over_the_limit_is_refused_on_the_way() -> None:
    connection = HttpConnection(body_bytes_max=10)
    connection.receive_data(b"PUT /q HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n01234567\r\n")
    with pytest.raises(BadRequest) as caught:
        connection.receive_data(b"8\r\n01234567\r\n")
    assert caught.value.status == 413


def test_endless_headers_are_refused() -> None:
    connection = HttpConnection()
    with pytest.raises(BadRequest) as caught:
        connection.receive_data(b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 70_000)
    assert caught.value.status == 431


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (b"AMQP\x00\x01\x00\x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"BREW /pot HTTP/1.1\r\nHost: h\r\n\r\n", 501),
        (b"GET /?" + b"a=1&" * 100 + b" HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    ],
)
def test_what_is_not_a_request_gets_an_answer_and_the_end(data: bytes, status: int) -> None:
    connection = HttpConnection()
    with pytest.raises(BadRequest) as caught:
        connection.receive_data(data)
    assert caught.value.response.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"connection: close" in caught.value.response.lower()
    assert connection.should_close


def test_the_answer_to_head_has_the_length_but_no_body() -> None:
    connection = HttpConnection()
    connection.receive_data(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
    sent = connection.send_response(Response.text(200, "hello"))
    assert b"content-length: 5" in sent.lower()
    assert sent.endswith(b"\r\n\r\n")


def answer(text: str) -> Response:
    return Response.text(200, text)


@pytest.fixture
def router() -> Router:
    made = Router(lambda request: answer("admin"), default_versions=frozenset({"2021-05"}))
    made.mount("/$faults", lambda request: answer("faults"))
    made.mount("/health", lambda request: answer("health"))
    made.mount("/health/deep", lambda request: answer("deep"))
    return made


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/queue", "admin"),
        ("/", "admin"),
        ("/$faults", "faults"),
        ("/%24Faults/1", "faults"),
        ("/$faultsx", "admin"),
        ("/health", "health"),
        ("/health/deep/er", "deep"),
        ("/healthy", "admin"),
    ],
)
def test_the_longest_prefix_at_a_path_boundary_is_served(router: Router, path: str, expected: str) -> None:
    assert router.handle(Request(method="GET", raw_path=path)) == answer(expected)


def test_an_entity_may_be_called_like_a_mount(router: Router) -> None:
    version = {"api-version": "2021-05"}
    assert router.handle(Request(method="GET", raw_path="/health", query=version)) == answer("admin")
    assert router.handle(Request(method="GET", raw_path="/$faults", query=version)) == answer("faults")


@pytest.mark.parametrize("prefix", ["", "/", "faults", "/faults/"])
def test_a_prefix_that_could_never_match_is_refused(router: Router, prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        router.mount(prefix, lambda request: answer("x"))
