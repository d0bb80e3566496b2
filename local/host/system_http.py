"""Addresses of the host itself: the durable API (for clients in the app and for people), health, and administration."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from local.host.durable.client import WEBHOOK_PATH, client_payload
from local.host.durable.http_api import DurableApi
from local.host.durable.worker import DurableWorker
from local.host.http import Handler
from local.host.http_messages import Request, Response
from local.host.keys import SYSTEM_KEY_DURABLE, Keys

TOKEN_BYTES = 24


class SystemEndpoints:
    """Answers everything that is no function."""

    def __init__(
        self,
        *,
        keys: Keys,
        worker: DurableWorker | None,
        run_timer: Callable[[str], bool],
        status: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._keys = keys
        self._durable = None if worker is None else DurableApi(worker)
        self._run_timer = run_timer
        self._status = status
        # The app's own durable clients send no key; the path they are given is the secret.
        self._rpc_path = f"runtime/rpc/{secrets.token_urlsafe(TOKEN_BYTES)}/durabletask/"

    def mounts(self) -> dict[str, Handler]:
        """Handlers by path prefix."""
        return {self._rpc_path: self._rpc, f"{WEBHOOK_PATH}/": self._webhook, "admin/": self._admin}

    def durable_client(self, address: str, hub: str) -> str:
        """What a durable client binding is given."""
        return client_payload(
            origin=address,
            rpc_base_url=f"{address}/{self._rpc_path}",
            hub=hub,
            system_key=self._keys.system[SYSTEM_KEY_DURABLE],
        )

    async def _rpc(self, request: Request) -> Response:
        if self._durable is None:
            return Response(status=404)
        return await self._durable.handle(request, request.path.removeprefix(self._rpc_path))

    async def _webhook(self, request: Request) -> Response:
        if not self._keys.allows_system(SYSTEM_KEY_DURABLE, request.key):
            return Response(status=401)
        if self._durable is None:
            return Response(status=404)
        return await self._durable.handle(request, request.path.removeprefix(f"{WEBHOOK_PATH}/"))

    async def _admin(self, request: Request) -> Response:
        """The real host's health and trigger-by-hand addresses, as far as they are useful here."""
        path = request.path.strip("/")
        if path == "admin/host/ping":
            return Response(status=200)
        if not self._keys.allows("admin", "", request.key):
            return Response(status=401)
        if path == "admin/host/status" and request.method == "GET":
            body = json.dumps(self._status()).encode()
            return Response(status=200, body=body, headers=(("content-type", "application/json"),))
        wanted = path.removeprefix("admin/functions/")
        if request.method == "POST" and wanted != path and self._run_timer(wanted):
            return Response(status=202)
        return Response(status=404)
