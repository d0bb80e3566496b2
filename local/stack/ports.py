"""Ports to listen on: the usual one if it is free, another one if not, and never silently."""

from __future__ import annotations

import errno
import random
import socket
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
#: Below those that systems give to outgoing connections, which would take one in the second before a server does.
QUIET = range(20_000, 32_768)
TRIES_MAX = 100


class PortTaken(Exception):
    """A port that was asked for by number is in use."""


@dataclass(frozen=True, kw_only=True)
class Port:
    """A port, and whether it is not the usual one."""

    name: str
    number: int
    usual: int

    @property
    def moved(self) -> bool:
        return self.number != self.usual


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return _bound(probe, port, host)


def _bound(probe: socket.socket, port: int, host: str = LOOPBACK) -> bool:
    try:
        probe.bind((host, port))
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return False
        raise
    return True


class PortPicker:
    """Hands out ports, each once."""

    def __init__(self) -> None:
        self._given: set[int] = set()
        self._held: list[socket.socket] = []

    def pick(self, name: str, usual: int, asked: int | None = None) -> Port:
        """The port asked for (an error if taken), else the usual one, else a free one."""
        if asked:
            if asked in self._given or not is_free(asked):
                raise PortTaken(f"port {asked} for {name} is in use; choose another one or leave the option out")
            number = asked
        elif asked is None and usual not in self._given and is_free(usual):
            number = usual
        else:
            number = self._free_one()
        self._given.add(number)
        return Port(name=name, number=number, usual=asked if asked else usual)

    def _free_one(self) -> int:
        """A free port; the probing socket stays open until `release`, so that no port comes twice."""
        probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.append(probe)
        for number in random.sample(QUIET, TRIES_MAX):
            if number not in self._given and _bound(probe, number):
                return number
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])

    def release(self) -> None:
        """Let go of the probing sockets, right before the servers take the ports."""
        for probe in self._held:
            probe.close()
        self._held.clear()
