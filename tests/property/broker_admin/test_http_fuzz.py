"""Whatever bytes arrive, in whatever pieces: requests, or one proper refusal and the end of the connection."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local.broker.http import BadRequest, HttpConnection, Request, Response

lines = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\n",
        b"PUT /a%2Fb?api-version=2021-05 HTTP/1.1\r\n",
        b"GET  / HTTP/1.1\r\n",
        b"Host: h\r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: -3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"\r\n",
        b"abc",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"\x00",
    ]
)
streams = st.lists(st.one_of(lines, st.binary(max_size=12)), max_size=20)


def is_over(connection: HttpConnection) -> bool:
    return connection.should_close


def feed(connection: HttpConnection, pieces: list[bytes]) -> list[Request]:
    found: list[Request] = []
    for piece in pieces:
        if is_over(connection):
            break
        requests = connection.receive_data(piece)
        # Pipelined requests are fewer than the bytes that carry them.
        for _ in range(len(piece) + 1):
            found += requests
            if not requests:
                break
            assert connection.send_response(Response.text(200, "ok")).startswith(b"HTTP/1.1 200 ")
            requests = [] if is_over(connection) else connection.next_requests()
    return found


@given(pieces=streams)
def test_any_bytes_are_served_or_refused(pieces: list[bytes]) -> None:
    connection = HttpConnection(body_bytes_max=100)
    refusal = b""
    try:
        feed(connection, pieces)
        if not is_over(connection):
            connection.receive_eof()
    except BadRequest as error:
        refusal = error.response
        assert is_over(connection)
    assert refusal == b"" or refusal.startswith(b"HTTP/1.1 ")


@given(data=st.data(), bodies=st.lists(st.binary(max_size=50), min_size=1, max_size=4))
def test_how_the_bytes_are_cut_changes_nothing(data: st.DataObject, bodies: list[bytes]) -> None:
    stream = b"".join(
        b"PUT /q HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies
    )
    pieces = []
    while stream:
        length = data.draw(st.integers(1, len(stream)))
        pieces.append(stream[:length])
        stream = stream[length:]
    assert [request.body for request in feed(HttpConnection(), pieces)] == bodies
