"""Starts the pair's orchestration, or wakes it, from any process and any number of them at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import azure.durable_functions as df

from shared import composition
from shared.domain.factory import Factories, Factory, Nothing, WaitUntil
from shared.domain.pair import Side
from shared.services.closing import Changed, Closing

_LOGGER = logging.getLogger(__name__)

COORDINATE = "coordinate_pair"
#: Starts and wakes that may cross those of other processes.
TRIES_MAX = 5
#: How long to look whether a running orchestration has noticed a change; the guard looks after what it missed.
NOTICE_SECONDS_MAX = 3.0
NOTICE_POLL_S = 0.1
#: No answer to a person waits longer for the durable store.
TELL_SECONDS_MAX = 15.0
_RUNNING = ("Pending", "Running", "Suspended", "ContinuedAsNew")


def change_event(side: Side, before: Factory) -> str:
    """The event that this state of a side is over. No state comes twice, so every event has a name of its own."""
    return f"{side.value}-{before.version}-is-over"


@dataclass(frozen=True, kw_only=True)
class Coordination:
    """How the pair's orchestration stands, for people."""

    instance_id: str
    status: str
    #: Until when the partner may follow by itself, while it may.
    waiting_until: datetime | None = None
    ended_at: datetime | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "instance": self.instance_id,
            "status": self.status,
            "waiting_until": self.waiting_until.isoformat() if self.waiting_until else None,
            "ended_at": self.ended_at.isoformat() if self.ended_at else None,
        }


class Coordinator:
    def __init__(self, *, client: df.DurableOrchestrationClient, closing: Closing, pair: str) -> None:
        self._client = client
        self._closing = closing
        self.instance_id = f"pair-{pair}"

    @classmethod
    def with_client(cls, client: df.DurableOrchestrationClient) -> Coordinator:
        """Of this app. From now on a fault found by the app itself is followed up with this client too."""
        runtime = composition.runtime()
        coordinator = cls(client=client, closing=runtime.closing, pair=runtime.settings.pair.name)
        runtime.watch.on_fault = coordinator.look_after
        return coordinator

    async def look_after(self, changed: Changed | None = None) -> None:
        """Returns when an orchestration runs that knows of the change, or none is needed.

        A running one might be about to end on what it read before the change; then another one is started.
        """
        for _ in range(TRIES_MAX):
            status = await self._client.get_status(self.instance_id)
            if _is_running(status):
                if changed is None or await self._wake(changed):
                    return
            elif isinstance(self._closing.judge(await self._closing.look()), Nothing) or await self._start():
                return
        _LOGGER.warning("the coordination of the pair kept ending; the guard will look after it")

    async def _start(self) -> bool:
        request = {"grace_seconds": self._closing.grace.total_seconds()}
        try:
            await self._client.start_new(COORDINATE, self.instance_id, request)
        except Exception:
            # The library raises nothing more special; it is no error when another process was faster.
            if not _is_running(await self._client.get_status(self.instance_id)):
                raise
            return False
        return True

    async def _wake(self, changed: Changed) -> bool:
        """Whether it knows of the change now, or will look again by itself."""
        for side in changed.sides:
            event = change_event(side, changed.before.of(side))
            try:
                await self._client.raise_event(self.instance_id, event, {"version": changed.after.of(side).version})
            except Exception:
                if _is_running(await self._client.get_status(self.instance_id)):
                    raise
                return False
        return await self._has_noticed(changed.after)

    async def _has_noticed(self, after: Factories) -> bool:
        loop = asyncio.get_running_loop()
        until = loop.time() + NOTICE_SECONDS_MAX
        while loop.time() < until:
            status = await self._client.get_status(self.instance_id)
            if not _is_running(status):
                return False
            if _knows(status.custom_status, after):
                return True
            await asyncio.sleep(NOTICE_POLL_S)
        return True

    async def look_after_and_tell(self, changed: Changed | None = None) -> dict[str, Any]:
        """A change that was made stays. That the coordination cannot be reached now is told; the guard follows up."""
        return await self._told(self.look_after(changed))

    async def tell(self) -> dict[str, Any]:
        return await self._told(None)

    async def _told(self, work: Awaitable[None] | None) -> dict[str, Any]:
        try:
            async with asyncio.timeout(TELL_SECONDS_MAX):
                if work is not None:
                    await work
                return (await self.state()).as_json()
        except Exception as error:
            # The durable library and its HTTP client raise all sorts; none of them undoes what was asked for.
            _LOGGER.warning("the coordination of the pair cannot be reached", exc_info=error)
            return {"instance": self.instance_id, "status": "Unknown", "problem": type(error).__name__}

    async def state(self) -> Coordination:
        status = await self._client.get_status(self.instance_id)
        if not status:
            return Coordination(instance_id=self.instance_id, status="NotStarted")
        if not _is_running(status):
            return Coordination(instance_id=self.instance_id, status=_name(status), ended_at=status.last_updated_time)
        verdict = self._closing.judge(await self._closing.look())
        until = verdict.at if isinstance(verdict, WaitUntil) else None
        return Coordination(instance_id=self.instance_id, status=_name(status), waiting_until=until)


def _is_running(status: df.DurableOrchestrationStatus) -> bool:
    return bool(status) and _name(status) in _RUNNING


def _name(status: df.DurableOrchestrationStatus) -> str:
    return str(getattr(status.runtime_status, "value", status.runtime_status))


def _knows(custom_status: Any, after: Factories) -> bool:
    if not isinstance(custom_status, dict):
        return False
    seen = custom_status.get("factories", {})
    return all(seen.get(side.value, {}).get("version", -1) >= after.of(side).version for side in Side)
