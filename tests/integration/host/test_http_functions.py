import asyncio
import json
import socket

import pytest

from tests.support.host_setup import StartHost


async def test_a_request_reaches_the_function_as_the_real_host_sends_it(start_host: StartHost) -> None:
    async with start_host() as host:
        answer = await host.client.post(
            "/api/hello/bob%20b?x=1&x=2&empty=&y=z",
            content=b"body",
            headers=[("X-Twice", "a"), ("X-Twice", "b"), ("Content-Type", "text/plain")],
        )
        shown = answer.json()
        assert ("1", "application/json") == (answer.headers["x-toy"], answer.headers["content-type"])
        assert ("POST", {"name": "bob b"}, {"x": "1,2", "y": "z"}, "body") == tuple(
            shown[key] for key in ("method", "route", "query", "body")
        )
        assert "a,b" == shown["headers"]["x-twice"]
        assert f"{host.host.address}/api/hello/bob%20b?x=1&x=2&empty=&y=z" == shown["url"]


async def test_an_optional_route_value_may_be_left_out(start_host: StartHost) -> None:
    async with start_host() as host:
        assert {} == (await host.get("/api/hello")).json()["route"]


async def test_text_is_answered_as_text(start_host: StartHost) -> None:
    async with start_host() as host:
        answer = await host.get("/api/text")
        assert (200, "plain", "text/plain; charset=utf-8") == (
            answer.status_code,
            answer.text,
            answer.headers["content-type"],
        )


async def test_each_cookie_has_its_own_header(start_host: StartHost) -> None:
    async with start_host() as host:
        answer = await host.get("/api/cookies")
        assert (201, ["a=1; Path=/", "b=2"]) == (answer.status_code, answer.headers.get_list("set-cookie"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/numbers/5", "number 5"),
        ("/api/numbers/50", "rest 50"),
        ("/api/numbers/a/b%2Fc", "rest a/b%2Fc"),
        ("/api/numbers", "rest None"),
    ],
)
async def test_routes_with_constraints_and_catch_alls(start_host: StartHost, path: str, expected: str) -> None:
    async with start_host() as host:
        assert expected == (await host.get(path)).text


async def test_keys_open_their_levels_and_nothing_else(start_host: StartHost) -> None:
    async with start_host() as host:
        master, function = host.host.keys.master, host.host.keys.development

        async def code(method: str, path: str, key: str | None = None, header: str | None = None) -> int:
            headers = {} if header is None else {"x-functions-key": header}
            params = {} if key is None else {"code": key}
            return (await host.client.request(method, path, params=params, headers=headers)).status_code

        assert 401 == await code("GET", "/api/guarded")
        assert 401 == await code("GET", "/api/guarded", key="wrong")
        assert 200 == await code("GET", "/api/guarded", key=function)
        assert 200 == await code("GET", "/api/guarded", header=master)
        assert 401 == await code("GET", "/api/guarded", key=function, header="wrong")
        assert 401 == await code("POST", "/api/master", header=function)
        assert 200 == await code("POST", "/api/master", header=master)
        assert 401 == await code("GET", "/admin/host/status", header=function)
        assert 200 == await code("GET", "/admin/host/status", header=master)
        assert 200 == await code("GET", "/admin/host/ping")


async def test_a_wrong_method_or_path_is_not_found(start_host: StartHost) -> None:
    async with start_host() as host:
        codes = [(await host.get(path)).status_code for path in ("/api/master", "/api/nothing", "/", "/hello")]
        assert [404] * 4 == codes


@pytest.mark.parametrize("path", ["/api/raises", "/api/returns/none", "/api/returns/dict", "/api/returns/int"])
async def test_a_function_that_fails_is_500_with_an_empty_body(start_host: StartHost, path: str) -> None:
    async with start_host() as host:
        answer = await host.get(path)
        assert (500, b"") == (answer.status_code, answer.content)
        assert 200 == (await host.get("/api/text")).status_code


@pytest.mark.parametrize("path", ["/api/hangs/async", "/api/blocks"])
async def test_a_function_that_hangs_past_its_time_is_500_and_others_go_on(
    start_host: StartHost, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with start_host(PYTHON_THREADPOOL_THREAD_COUNT="1") as host:
        slow = asyncio.ensure_future(host.get(path))
        assert 200 == (await host.get("/api/text")).status_code
        assert 500 == (await slow).status_code
        assert 200 == (await host.get("/api/hello")).status_code
    assert "functionTimeout" in caplog.text


async def test_a_body_over_the_limit_is_refused_before_it_is_read(start_host: StartHost) -> None:
    async with start_host(FUNCTIONS_REQUEST_BODY_SIZE_LIMIT="1000") as host:
        reader, writer = await asyncio.open_connection("127.0.0.1", host.host.port)
        writer.write(b"POST /api/hello HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n")
        assert b"413" in await reader.readline()
        writer.close()
        await writer.wait_closed()
        assert 200 == (await host.client.post("/api/hello", content=b"x" * 1000)).status_code


async def test_too_many_or_too_large_headers_are_refused(start_host: StartHost) -> None:
    async with start_host() as host:
        many = {f"x-{n}": "1" for n in range(120)}
        large = {"x-large": "x" * 33_000}
        for headers in (many, large):
            assert (await host.get("/api/text", headers=headers)).status_code in (400, 431)


async def test_a_chunked_body_is_not_passed_on(start_host: StartHost) -> None:
    async with start_host() as host:

        async def chunks():  # type: ignore[no-untyped-def]
            yield b"chunk"

        assert "" == (await host.client.post("/api/hello", content=chunks())).json()["body"]


async def test_broken_requests_do_not_stop_the_host(start_host: StartHost) -> None:
    async with start_host() as host:
        bad_length = b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"
        for data in (b"\x00\xff\x00\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", bad_length, b""):
            with socket.create_connection(("127.0.0.1", host.host.port), 5) as raw:
                raw.sendall(data)
        assert 200 == (await host.get("/api/text")).status_code


async def test_many_requests_at_once_are_all_answered(start_host: StartHost) -> None:
    async with start_host() as host:
        answers = await asyncio.gather(*(host.get(f"/api/hello/{n}") for n in range(100)))
        assert [str(n) for n in range(100)] == [answer.json()["route"]["name"] for answer in answers]


async def test_disabled_functions_are_not_found(start_host: StartHost) -> None:
    async with start_host(**{"AzureWebJobs.text.Disabled": "1"}) as host:
        assert 404 == (await host.get("/api/text")).status_code


async def test_the_status_names_every_function_and_what_was_refused(start_host: StartHost) -> None:
    async with start_host(every_second="on", TOY_SCHEDULE="nonsense") as host:
        answer = await host.get("/admin/host/status", headers={"x-functions-key": host.host.keys.master})
        status = json.loads(answer.text)
        assert "hello" in {function["name"] for function in status["functions"]}
        assert ["function 'every_second': schedule 'nonsense' is neither six NCRONTAB fields"] == [
            error.partition(" such as")[0] for error in status["errors"]
        ]
