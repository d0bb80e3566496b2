"""The demo's HTTP calls: to the function app as any client makes them, and to the broker's control API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import aiohttp

from local.demo.faults import Fault
from local.demo.traffic import Message
from local.stack.summary import Ready

#: The app answers within its send deadline; no answer at all by then means that something is wrong with the host.
CALL_S_MAX = 30.0
#: What the demo counts in place of a status where no answer came.
NO_ANSWER = 0


class CallFailed(Exception):
    """The app or the broker refused something that the demo cannot do without."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    seconds: float
    route: str = ""
    retry_after_s: float | None = None


class AppClient:
    def __init__(self, ready: Ready) -> None:
        primary = next(side for side in ready.sides if side.name == "primary")
        assert primary.admin is not None
        self._faults = f"http://127.0.0.1:{primary.admin.number}/$faults"
        self._api = f"{ready.address}/api"
        self._key = {"x-functions-key": ready.keys.development}
        self._admin_key = {"x-functions-key": ready.keys.master}

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=CALL_S_MAX)
        self._http = aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.close()

    async def send(self, message: Message) -> Answer:
        url = f"{self._api}/bus/{message.entity}/messages"
        started = time.monotonic()
        try:
            async with self._http.post(url, data=message.body, headers={**message.headers(), **self._key}) as answer:
                await answer.read()
                return Answer(
                    status=answer.status,
                    seconds=time.monotonic() - started,
                    route=answer.headers.get("x-pair-route", ""),
                    retry_after_s=_seconds(answer.headers.get("Retry-After")),
                )
        except (aiohttp.ClientError, TimeoutError):
            return Answer(status=NO_ANSWER, seconds=time.monotonic() - started)

    async def pair(self) -> None:
        """Creates the backlog queues, so that traffic begins with everything in place."""
        await self._ask("POST", f"{self._api}/pair", headers=self._admin_key, data=b"")

    async def status(self) -> dict[str, Any]:
        return await self._ask("GET", f"{self._api}/pair", headers=self._key)

    async def break_primary(self, fault: Fault) -> None:
        await self._ask("POST", self._faults, json=fault.on_primary())

    async def heal(self) -> None:
        await self._ask("DELETE", self._faults)

    async def _ask(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        try:
            async with self._http.request(method, url, **more) as answer:
                body: Any = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise CallFailed(f"{method} {url} got no answer: {str(error) or type(error).__name__}") from None
        if answer.status >= 300 or not isinstance(body, dict):
            raise CallFailed(f"{method} {url} was answered {answer.status}: {body}")
        return body


def states_of(status: Mapping[str, Any]) -> dict[str, str]:
    """Entity by entity: available, suspect, unavailable, or in part, where single keys of a partitioned one are not."""
    return {str(entity["path"]): _state(entity) for entity in status["entities"]}


def _state(entity: Mapping[str, Any]) -> str:
    state = str(entity["availability"])
    keys = {str(key["availability"]) for key in entity.get("keys", ())}
    return "partly available" if state == "available" and keys - {"available"} else state


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None


async def pause(seconds: float, until: asyncio.Event) -> None:
    """Waits, unless the event comes first."""
    try:
        async with asyncio.timeout(seconds):
            await until.wait()
    except TimeoutError:
        return
