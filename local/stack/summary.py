"""What a person is told when everything is ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.host.keys import Keys
from local.stack.console import Console
from local.stack.options import Side
from local.stack.ports import LOOPBACK


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Everything that runs, and how long it took."""

    seconds: float
    parts: Sequence[tuple[str, float]]
    address: str
    sides: Sequence[Side]
    table_port: int | None
    keys: Keys
    data: Path
    functions: Sequence[Mapping[str, Any]]


def announce(console: Console, ready: Ready) -> None:
    """Addresses, keys and a first request."""
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in ready.parts)
    console.plain()
    console.plain(console.strong(f"Ready after {ready.seconds:.1f} s") + f" ({parts})")
    console.plain()
    console.plain(f"  function app  {ready.address}")
    if any(function.get("route") == "dashboard" for function in ready.functions):
        console.plain(f"  dashboard     {ready.address}/api/dashboard")
    for side in ready.sides:
        console.plain(f"  {side.name:<13} {_where(side)}")
    tables = "elsewhere, as given" if ready.table_port is None else f"http://{LOOPBACK}:{ready.table_port} (tables)"
    console.plain(f"  storage       {tables}")
    console.plain(f"  function key  {ready.keys.development}")
    console.plain(f"  admin key     {ready.keys.master}")
    console.plain(f"  data          {ready.data}")
    console.plain()
    console.plain("Try:")
    for line in first_curl(ready.address, ready.keys.development, ready.functions):
        console.plain(f"  {line}")
    console.plain()
    console.plain("Ctrl-C stops everything.")
    console.plain()


def _where(side: Side) -> str:
    if side.amqp is None or side.admin is None:
        return "elsewhere, as given"
    admin = f"http://{LOOPBACK}:{side.admin.number}"
    return f"sb://{LOOPBACK}:{side.amqp.number} (administration and faults: {admin})"


def first_curl(address: str, key: str, functions: Sequence[Mapping[str, Any]]) -> list[str]:
    """A first request that shows something: a send if the app has one, else its health."""
    routes = {str(function.get("route") or "").partition("{")[0].strip("/"): function for function in functions}
    prefix = f"{address}/api"
    if "bus" in routes:
        return [
            f"curl -i -X POST {prefix}/bus/orders/messages -H 'x-functions-key: {key}' "
            "-H 'Content-Type: text/plain' -d 'hello'"
        ]
    if "health" in routes:
        return [f"curl {prefix}/health"]
    return [f"curl -i {address}/admin/host/ping"]
