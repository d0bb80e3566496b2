"""What has to be known about an entity of the primary besides its path, asked for in the background.

An answer is kept for good, as is the word that this app may not ask. Anything else (no answer, trouble, no such entity
yet) says nothing about the entity: it is asked again later, and later each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from shared.domain.message import Outgoing
from shared.domain.pair import EntityPath
from shared.domain.partitions import Keys, Traits
from shared.ports import AdminFailed, AdminRefused, EntityAdmin

_LOGGER = logging.getLogger(__name__)

LOOK_SECONDS_MAX = 30.0
#: Entities asked about at the same time for the sake of their sends; more wait for their next send.
LOOKING_MAX = 4
#: Entities of which something is remembered; the oldest makes room, and is asked about again.
REMEMBERED_MAX = 10_000
AGAIN_FIRST_S = 1.0
AGAIN_MAX_S = 60.0


class _Again(NamedTuple):
    """No answer so far: when to ask again, in the loop's time, and how long the pause was."""

    at: float
    pause_s: float


class EntityFacts:
    def __init__(self, admin: EntityAdmin) -> None:
        self._admin = admin
        #: By path in lower case; None where this app may not ask.
        self._known: dict[str, Traits | None] = {}
        self._again: dict[str, _Again] = {}
        self._looking: dict[str, asyncio.Task[None]] = {}

    def is_partitioned(self, path: EntityPath) -> bool | None:
        """None for as long as it is not known; the administration API may be out of this app's rights for ever."""
        traits = self._known.get(path.lower())
        return None if traits is None else traits.partitioned

    def may_be_partitioned(self, path: EntityPath) -> bool:
        """Whether it is, or nobody could tell yet. Where this app may not ask, an entity counts as a plain one."""
        name = path.lower()
        return name not in self._known or bool(self.is_partitioned(path))

    def keys_of(self, path: EntityPath, messages: Sequence[Outgoing]) -> tuple[str | None, ...]:
        """What decides the partition of each message."""
        traits = self._known.get(path.lower())
        if traits is None or not traits.message_id_is_key:
            return (messages[0].key,) if len(messages) == 1 else tuple(message.key for message in messages)
        return tuple(message.message_id if message.key is None else message.key for message in messages)

    def key_of(self, path: EntityPath, keys: Keys) -> str | None:
        """The same for one message."""
        if keys.named is not None:
            return keys.named
        traits = self._known.get(path.lower())
        return keys.message_id if traits is not None and traits.message_id_is_key else None

    def learn(self, path: EntityPath) -> None:
        if len(self._looking) < LOOKING_MAX:
            self._ask(path)

    def is_told(self, path: EntityPath) -> bool:
        """Whether there is an answer, be it that nobody may ask."""
        return path.lower() in self._known

    async def learnt(self, path: EntityPath, *, seconds: float) -> bool:
        """Waits for an answer, up to so long. Whether there is one."""
        self._ask(path)
        look = self._looking.get(path.lower())
        if look is not None:
            await asyncio.wait([look], timeout=seconds)
        return self.is_told(path)

    def _ask(self, path: EntityPath) -> None:
        name = path.lower()
        if name in self._known or name in self._looking:
            return
        again = self._again.get(name)
        if again is not None and asyncio.get_running_loop().time() < again.at:
            return
        task = asyncio.create_task(self._look(path), name=f"facts of {path}")
        self._looking[name] = task
        task.add_done_callback(lambda _: self._looking.pop(name, None))

    async def _look(self, path: EntityPath) -> None:
        name = path.lower()
        try:
            async with asyncio.timeout(LOOK_SECONDS_MAX):
                found = await self._admin.traits(path)
        except AdminRefused as error:
            _LOGGER.info("%s counts as not partitioned, since this app may not ask: %s", path, error)
            self._remember(name, None)
        except (AdminFailed, TimeoutError) as error:
            self._ask_later(path, str(error) or "no answer")
        except Exception as error:
            # Whatever is wrong, it says nothing about the entity, and must not be asked for at every send.
            _LOGGER.exception("asking about %s broke", path)
            self._ask_later(path, type(error).__name__)
        else:
            if found is None:
                self._ask_later(path, "there is no such entity")
            else:
                self._remember(name, found)

    def _remember(self, name: str, traits: Traits | None) -> None:
        self._again.pop(name, None)
        if len(self._known) >= REMEMBERED_MAX:
            del self._known[next(iter(self._known))]
        self._known[name] = traits

    def _ask_later(self, path: EntityPath, problem: str) -> None:
        before = self._again.pop(path.lower(), None)
        pause_s = AGAIN_FIRST_S if before is None else min(before.pause_s * 2, AGAIN_MAX_S)
        _LOGGER.info("whether %s is partitioned is asked again in %g s at the earliest: %s", path, pause_s, problem)
        if len(self._again) >= REMEMBERED_MAX:
            del self._again[next(iter(self._again))]
        self._again[path.lower()] = _Again(asyncio.get_running_loop().time() + pause_s, pause_s)

    async def close(self) -> None:
        looking = list(self._looking.values())
        for task in looking:
            task.cancel()
        if looking:
            await asyncio.wait(looking)
