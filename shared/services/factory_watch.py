"""Watches what the namespaces answer, and faults a side that refuses the app's credentials or does not exist any more.

Everything the app sends passes here, whoever sends it: senders, pings, the syphon. What is accepted costs one look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from shared.domain.message import Outgoing
from shared.domain.pair import EntityPath, Side
from shared.domain.proofs import Proof, Proofs, after_proof, proof_of
from shared.errors import StateUnreachable
from shared.ports import Clock, Link, Links, Packed, SendFailed
from shared.services.closing import Changed, Closing
from shared.services.pair_state import PairState

_LOGGER = logging.getLogger(__name__)

#: Who it was that faulted a side.
BY = "the app itself"


class FactoryWatch:
    def __init__(self, *, closing: Closing, state: PairState, clock: Clock) -> None:
        self._closing = closing
        self._state = state
        self._clock = clock
        #: What speaks against each side at the moment; nearly always nothing.
        self.proofs: dict[Side, Proofs] = {}
        self._faulting: dict[Side, asyncio.Task[None]] = {}
        #: Called after a side was faulted here, to have its partner looked after without delay.
        self.on_fault: Callable[[Changed], Awaitable[None]] | None = None

    def worked(self, side: Side) -> None:
        self.proofs.pop(side, None)

    def failed(self, side: Side, path: EntityPath, failed: SendFailed) -> None:
        kind = proof_of(failed.failure)
        if kind is None or not self._is_about_the_side(side, path, kind):
            return
        proofs = self.proofs[side] = after_proof(self.proofs.get(side), kind, self._clock.now())
        if proofs.suffice and side not in self._faulting and self._state.factories[side].is_open:
            del self.proofs[side]
            reason = f"{kind.value}, proven {proofs.count} times in a row: {failed.detail}"
            task = asyncio.create_task(self._fault(side, reason), name=f"faulting the {side.value} side")
            self._faulting[side] = task
            task.add_done_callback(lambda _: self._faulting.pop(side, None))

    def _is_about_the_side(self, side: Side, path: EntityPath, kind: Proof) -> bool:
        """Rights may be given entity by entity. One that never took a message, where others did, proves nothing:
        anybody could name one that is not for this app."""
        if kind is not Proof.CREDENTIALS_REFUSED or side is Side.SECONDARY:
            return True
        return self._state.has_accepted(path) or not self._state.has_accepted_anything()

    async def _fault(self, side: Side, reason: str) -> None:
        try:
            changed = await self._closing.fault(side, reason=reason, by=BY)
            if self.on_fault is not None:
                await self.on_fault(changed)
        except StateUnreachable as error:
            _LOGGER.error("the %s side should be faulted, which is to be tried again: %s", side.value, error)
        except Exception:
            # The side is faulted; whoever looks after pairs regularly will find its partner.
            _LOGGER.exception("the %s side was faulted, and telling so failed", side.value)

    async def settled(self) -> None:
        """Returns when nothing is being faulted; for the end of a program."""
        if self._faulting:
            await asyncio.wait(list(self._faulting.values()))


class WatchedLinks:
    def __init__(self, links: Links, watch: FactoryWatch) -> None:
        self._links = links
        self._watch = watch

    def to(self, side: Side, path: EntityPath) -> Link:
        return _WatchedLink(self._links.to(side, path), self._watch, side, path)


class _WatchedLink:
    def __init__(self, link: Link, watch: FactoryWatch, side: Side, path: EntityPath) -> None:
        self._link = link
        self._watch = watch
        self._side = side
        self._path = path

    async def open(self) -> None:
        try:
            await self._link.open()
        except SendFailed as failed:
            self._watch.failed(self._side, self._path, failed)
            raise
        self._watch.worked(self._side)

    async def pack(self, parcels: Sequence[Sequence[Outgoing]]) -> Packed:
        try:
            return await self._link.pack(parcels)
        except SendFailed as failed:
            self._watch.failed(self._side, self._path, failed)
            raise

    async def send(self, packed: Packed) -> None:
        try:
            await self._link.send(packed)
        except SendFailed as failed:
            self._watch.failed(self._side, self._path, failed)
            raise
        self._watch.worked(self._side)

    async def send_one(self, message: Outgoing) -> None:
        try:
            await self._link.send_one(message)
        except SendFailed as failed:
            self._watch.failed(self._side, self._path, failed)
            raise
        if self._watch.proofs:
            self._watch.worked(self._side)

    async def close(self) -> None:
        await self._link.close()
