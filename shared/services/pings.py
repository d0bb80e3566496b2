"""Pings on their way: one message for each key, over links of their own.

The question is always whether a sender that comes now is served, so no ping uses a link that worked before, and no link
is used again.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from shared.bounded import give_up
from shared.domain.failures import Failure
from shared.domain.message import outgoing
from shared.domain.pair import EntityPath, Side
from shared.domain.ping import ping_message
from shared.ports import Link, Links, SendFailed
from shared.services.retired import Retired

_LOGGER = logging.getLogger(__name__)

#: Links that share the pings of one entity.
LINKS_MAX = 8


class PingFailed(NamedTuple):
    """What was wrong, and what kind of failure the service called it, if it said anything."""

    detail: str
    failure: Failure | None = None


class Pings:
    def __init__(self, links: Links) -> None:
        self._links = links
        self._retired = Retired()

    async def all_pass(self, path: EntityPath, keys: Sequence[str], *, seconds: float) -> PingFailed | None:
        """Pings with all these keys, within so many seconds altogether: what was wrong first, if anything."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        pending = self._start(path, keys)
        try:
            while pending and (rest := until - loop.time()) > 0:
                done, pending = await asyncio.wait(pending, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if (problem := task.result()) is not None:
                        return problem
        finally:
            for task in pending:
                give_up(task)
        return PingFailed(f"no answer within {seconds:g} s") if pending else None

    async def any_passes(self, path: EntityPath, keys: Sequence[str], *, seconds: float) -> bool:
        """Whether a ping with any of these keys is taken within so many seconds; the first that is decides."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        pending = self._start(path, keys)
        try:
            while pending and (rest := until - loop.time()) > 0:
                done, pending = await asyncio.wait(pending, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
                if any(task.result() is None for task in done):
                    return True
        finally:
            for task in pending:
                give_up(task)
        return False

    def _start(self, path: EntityPath, keys: Sequence[str]) -> set[asyncio.Task[PingFailed | None]]:
        count = min(len(keys), LINKS_MAX)
        return {
            asyncio.create_task(self._over_one_link(path, keys[index::count]), name=f"ping {path}")
            for index in range(count)
        }

    async def _over_one_link(self, path: EntityPath, keys: Sequence[str]) -> PingFailed | None:
        link = self._links.to(Side.PRIMARY, path)
        try:
            return await _send(link, keys)
        finally:
            self._retired.take(link)

    async def settled(self) -> None:
        await self._retired.settled()


async def _send(link: Link, keys: Sequence[str]) -> PingFailed | None:
    """One transfer for each key, since a partitioned entity takes one key a transfer."""
    for key in keys:
        message = outgoing(ping_message(message_id=str(uuid.uuid4()), session_id=key))
        try:
            await link.send_one(message)
        except SendFailed as failed:
            return PingFailed(f"{failed.failure.value}: {failed.detail}", failed.failure)
        except Exception as error:
            _LOGGER.exception("a ping broke")
            return PingFailed(f"{type(error).__name__}: {error}")
    return None
