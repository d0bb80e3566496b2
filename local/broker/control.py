"""The control API beside the administration API: faults and health, plain JSON over HTTP.

    GET    /$faults         every fault with its hit count
    POST   /$faults         set one ({"kind": "throttle", "entity": "orders"}) or a list of them
    DELETE /$faults[/ID]    clear all, or one
    GET    /health
"""

from __future__ import annotations

import json
from collections.abc import Callable

from .errors import BrokerError
from .faults import KINDS, FaultPlan, FaultRule, FaultSpec
from .http import Request, Response

FAULTS_PATH = "/$faults"


class ControlApi:
    def __init__(self, faults: FaultPlan) -> None:
        self._faults = faults

    def handle(self, request: Request) -> Response:
        routes: dict[str, Callable[[Request], Response]] = {"GET": self._list, "POST": self._add, "DELETE": self._clear}
        route = routes.get(request.method)
        if route is None:
            return _answer(405, {"error": f"{request.method} is not supported here; GET, POST or DELETE."})
        try:
            return route(request)
        except BrokerError as error:
            return _answer(400, {"error": error.description})

    def _list(self, request: Request) -> Response:
        kinds = {name: kind.description for name, kind in KINDS.items()}
        return _answer(200, {"faults": [_shown(rule) for rule in self._faults.rules.values()], "kinds": kinds})

    def _add(self, request: Request) -> Response:
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


def _shown(rule: FaultRule) -> dict[str, object]:
    return {"id": rule.id, "hits": rule.hits, "seen": rule.seen, **rule.spec.to_json()}


def _answer(status: int, body: dict[str, object]) -> Response:
    return Response(status=status, content_type="application/json", body=json.dumps(body).encode())
