"""The control API beside the administration API: faults and health, plain JSON over HTTP.

    GET    /$faults         every fault with its hit count
    POST   /$faults         set one ({"kind": "throttle", "entity": "orders"}) or a list of them
    DELETE /$faults[/ID]    clear all, or one
    GET    /health

Whoever reaches the port may use it, but no web page that a browser happens to show: what changes anything must be JSON
by its content type, which a foreign page cannot send without asking first, and must not come from another origin.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable
from urllib.parse import urlsplit

from .errors import BrokerError
from .faults import KINDS, FaultPlan, FaultRule, FaultSpec
from .http import Request, Response

FAULTS_PATH = "/$faults"
_READING = ("GET", "HEAD")


class ControlApi:
    def __init__(self, faults: FaultPlan) -> None:
        self._faults = faults

    def handle(self, request: Request) -> Response:
        routes: dict[str, Callable[[Request], Response]] = {"GET": self._list, "POST": self._add, "DELETE": self._clear}
        route = routes.get(request.method)
        if route is None:
            return _answer(405, {"error": f"{request.method} is not supported here; GET, POST or DELETE."})
        if request.method not in _READING and _is_foreign(request):
            return _answer(403, {"error": "Web pages of other origins may not set or clear faults."})
        try:
            return route(request)
        except BrokerError as error:
            return _answer(400, {"error": error.description})

    def _list(self, request: Request) -> Response:
        kinds = {name: kind.description for name, kind in KINDS.items()}
        return _answer(200, {"faults": [_shown(rule) for rule in self._faults.rules.values()], "kinds": kinds})

    def _add(self, request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return _answer(415, {"error": "A fault is JSON: send it with Content-Type: application/json."})
        try:
            data = json.loads(request.body)
        except ValueError as error:
            return _answer(400, {"error": f"The body is not JSON: {error}"})
        specs = [FaultSpec.from_json(item) for item in (data if isinstance(data, list) else [data])]
        return _answer(201, {"faults": [_shown(self._faults.add(spec)) for spec in specs]})

    def _clear(self, request: Request) -> Response:
        name = request.path.removeprefix(FAULTS_PATH).strip("/")
        if name and not name.isdigit():
            return _answer(400, {"error": f"'{name}' is not the number of a fault."})
        cleared = self._faults.clear(int(name) if name else None)
        if name and not cleared:
            return _answer(404, {"error": f"There is no fault {name}."})
        return _answer(200, {"cleared": cleared})


def health(request: Request) -> Response:
    return _answer(200, {"status": "healthy"})


def _is_foreign(request: Request) -> bool:
    """Whether a browser sends this for a page that is not this broker's own. Only browsers name an origin.

    The broker's own name must be an address or localhost: any other name may be one that an attacker lets point here.
    """
    origin = request.headers.get("origin")
    if origin is None:
        return False
    return origin.partition("://")[2] != request.host or not _is_address(request.host)


def _is_address(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _shown(rule: FaultRule) -> dict[str, object]:
    return {"id": rule.id, "hits": rule.hits, "seen": rule.seen, **rule.spec.to_json()}


def _answer(status: int, body: dict[str, object]) -> Response:
    return Response(status=status, content_type="application/json", body=json.dumps(body).encode())
