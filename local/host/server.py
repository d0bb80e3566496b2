"""uvicorn inside the host's own event loop and under the host's own signals."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from local.host.errors import ConfigurationError, one_line

BACKLOG = 2048
GRACE_S = 10
KEEP_ALIVE_S = 30
START_TIMEOUT_S = 10.0


class _Server(uvicorn.Server):
    """A server that leaves the process's signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; a port in use is one clear error."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named so that asyncio turns Nagle's algorithm off on what is accepted.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"cannot listen on {host}:{port}: {error.strerror or one_line(error)}") from None
    listener.setblocking(False)
    return listener


class HttpServer:
    """Serves one ASGI application on one socket."""

    def __init__(self, app: Any, listener: socket.socket) -> None:
        self._listener = listener
        config = uvicorn.Config(
            app,
            http="auto",
            loop="none",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    async def start(self) -> None:
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listener]), name="http server")
        async with asyncio.timeout(START_TIMEOUT_S):
            while not self._server.started:
                if self._task.done():
                    await self._task
                    raise ConfigurationError("the HTTP server ended while it started")
                await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Finish what runs, for a bounded time, then close."""
        if self._task is None:
            self._listener.close()
            return
        self._server.should_exit = True
        await self._task
        self._listener.close()
