"""The yardstick of HTTP functions: uvicorn as it comes, with an application that does nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn

from local.host.server import listen

HEADERS = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"2")]


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": b"ok"})


async def main() -> None:
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(answer, lifespan="off", log_level="warning", access_log=False))
    print(f"READY http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    await server.serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main())
