"""Two changes to how the SDK reaches the network inside a worker.

Plain TCP to the broker: most tests name the namespace and give a token credential instead of a connection
string, and only a connection string can carry `UseDevelopmentEmulator=true`, the SDK's own switch for it.
Loopback only: some tests dial made-up hosts to see the error. Looking those up here fails at once, so that no
run ever sends a packet off the machine.
"""

from __future__ import annotations

import functools
import socket
from typing import Any

import azure.servicebus
import azure.servicebus.aio

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", b"localhost", b"127.0.0.1", b"::1", "", None})


def use_plain_tcp(host: str) -> None:
    """Make every client of this namespace start as one made from an emulator connection string does."""
    for client in (azure.servicebus.ServiceBusClient, azure.servicebus.aio.ServiceBusClient):
        _default_to_plain_tcp(client, host)


def _default_to_plain_tcp(client: Any, broker: str) -> None:
    original = client.__init__

    @functools.wraps(original)
    def start(self: Any, fully_qualified_namespace: str, *args: Any, **kwargs: Any) -> None:
        if broker in fully_qualified_namespace:
            kwargs["use_tls"] = False
        original(self, fully_qualified_namespace, *args, **kwargs)

    client.__init__ = start


def allow_loopback_only() -> None:
    original = socket.getaddrinfo

    @functools.wraps(original)
    def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host not in LOOPBACK_HOSTS:
            raise socket.gaierror(socket.EAI_NONAME, f"conformance runs reach this machine only, not {host!r}")
        return original(host, *args, **kwargs)

    socket.getaddrinfo = look_up
