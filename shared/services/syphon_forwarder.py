"""Sends backlog messages on to their entities: in order, in batches, each message with an outcome of its own.

A forwarder belongs to one call of the syphon and keeps one link for each entity, used by one send at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from shared.domain.failures import Failure, is_about_one_message
from shared.domain.message import Outgoing
from shared.domain.pair import EntityPath, Side
from shared.domain.partitions import entity_of, may_be_a_partitions_fault
from shared.ports import Link, Links, SendFailed
from shared.services.entity_facts import EntityFacts
from shared.services.retired import Retired

#: Tries of one transfer where the connection failed: a link that was idle may be dead without anybody knowing.
CONNECTION_TRIES_MAX = 2
#: Keys of a partitioned entity that may fail, one after the other, before the entity as a whole is left alone.
SICK_KEYS_MAX = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """`failed` is None where the primary has accepted the message."""

    failed: SendFailed | None = None
    #: An earlier try may have arrived as well.
    possible_duplicate: bool = False


@dataclass(frozen=True, slots=True)
class _Transfer:
    """One transfer: how many of the messages it took, which of them were refused, and whether all of it failed."""

    taken: int
    refused: dict[int, SendFailed]
    failed: SendFailed | None


class Forwarder:
    def __init__(
        self,
        *,
        links: Links,
        facts: EntityFacts,
        retired: Retired,
        attempt_timeout: timedelta,
        partitioned_attempt_timeout: timedelta,
    ) -> None:
        self._links = links
        self._facts = facts
        self._attempt_s = attempt_timeout.total_seconds()
        self._partitioned_attempt_s = partitioned_attempt_timeout.total_seconds()
        self._open: dict[str, Link] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._retired = retired

    async def forward(self, lane: EntityPath, messages: Sequence[Outgoing]) -> list[Outcome]:
        """An outcome for each message, in their order. After a failure that is not one message's, no more are tried.

        Keys of a partitioned entity fail one by one, up to a few of them. Lanes of one entity share its link.
        """
        path = entity_of(lane)
        async with self._turns.setdefault(path.lower(), asyncio.Lock()):
            return await self._forward(path, messages)

    async def _forward(self, path: EntityPath, messages: Sequence[Outgoing]) -> list[Outcome]:
        self._facts.learn(path)
        keys = self._facts.keys_of(path, messages)
        sick_keys: set[str] = set()
        outcomes: dict[int, Outcome] = {}
        todo = list(range(len(messages)))
        while todo:
            chosen = self._together(path, keys, todo)
            done = await self._transfer(path, [messages[index] for index in chosen])
            outcomes.update((chosen[position], outcome) for position, outcome in enumerate(done))
            todo = [index for index in todo if index not in outcomes]
            failures = [one.failed for one in done if one.failed and not is_about_one_message(one.failed.failure)]
            if failures:
                failed, key = failures[0], keys[chosen[0]]
                not_tried = SendFailed(failed.failure, failed.detail)
                if key is not None and len(sick_keys) < SICK_KEYS_MAX and self.is_of_a_key(path, failed):
                    sick_keys.add(key)
                    given_up = [index for index in todo if keys[index] == key]
                else:
                    given_up = todo
                outcomes.update((index, Outcome(not_tried)) for index in given_up)
                todo = [index for index in todo if index not in outcomes]
        return [outcomes[index] for index in range(len(messages))]

    def is_of_a_key(self, path: EntityPath, failed: SendFailed) -> bool:
        return bool(self._facts.is_partitioned(path)) and may_be_a_partitions_fault(failed.failure)

    def key_of(self, path: EntityPath, message: Outgoing) -> str | None:
        return self._facts.keys_of(path, (message,))[0]

    def _together(self, path: EntityPath, keys: Sequence[str | None], todo: list[int]) -> list[int]:
        """What may share a transfer: a partitioned entity, or one nobody could ask about, takes one key at a time."""
        if self._facts.is_partitioned(path) is False:
            return todo
        return [index for index in todo if keys[index] == keys[todo[0]]]

    async def _transfer(self, path: EntityPath, messages: Sequence[Outgoing]) -> list[Outcome]:
        """Outcomes of the first messages, as many as one transfer took."""
        transfer = await self._once(path, messages)
        tries, indefinite = 1, transfer.failed is not None and transfer.failed.indefinite
        while transfer.failed and transfer.failed.failure is Failure.CONNECTION and tries < CONNECTION_TRIES_MAX:
            transfer = await self._once(path, messages)
            tries += 1
            indefinite |= transfer.failed is not None and transfer.failed.indefinite
        failed = transfer.failed
        if failed is None:
            return [Outcome(transfer.refused.get(index), indefinite) for index in range(transfer.taken)]
        if is_about_one_message(failed.failure) and transfer.taken > 1:
            return await self._one_by_one(path, messages[: transfer.taken])
        failed = SendFailed(failed.failure, failed.detail, indefinite=indefinite, bytes_over=failed.bytes_over)
        return [Outcome(transfer.refused.get(index, failed), indefinite) for index in range(transfer.taken)]

    async def _one_by_one(self, path: EntityPath, messages: Sequence[Outgoing]) -> list[Outcome]:
        """Finds out whose fault it was: the others are welcome."""
        outcomes: list[Outcome] = []
        for message in messages:
            outcomes += await self._transfer(path, [message])
            failed = outcomes[-1].failed
            if failed is not None and not is_about_one_message(failed.failure):
                break
        return outcomes

    async def _once(self, path: EntityPath, messages: Sequence[Outgoing]) -> _Transfer:
        link = self._open.get(path.lower())
        if link is None:
            link = self._open[path.lower()] = self._links.to(Side.PRIMARY, path)
        task = asyncio.create_task(_pack_and_send(link, messages), name=f"forward to {path}")
        partitioned = self._facts.is_partitioned(path)
        limit = self._partitioned_attempt_s if partitioned else self._attempt_s
        try:
            done, _ = await asyncio.wait([task], timeout=limit)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not done:
            task.cancel()
            self._drop(path, last_call=task)
            failed = SendFailed(Failure.TIMEOUT, f"no answer within {limit:g} s", indefinite=True)
            return _Transfer(len(messages), {}, failed)
        transfer = task.result()
        if transfer.failed is not None and transfer.failed.failure.judgement.rebuild:
            self._drop(path)
        return transfer

    def _drop(self, path: EntityPath, *, last_call: asyncio.Task[_Transfer] | None = None) -> None:
        self._retired.take(self._open.pop(path.lower()), last_call=last_call)

    def close(self) -> None:
        for link in self._open.values():
            self._retired.take(link)
        self._open.clear()


async def _pack_and_send(link: Link, messages: Sequence[Outgoing]) -> _Transfer:
    try:
        packed = await link.pack([[message] for message in messages])
    except SendFailed as failed:
        return _Transfer(len(messages), {}, failed)
    try:
        if len(packed.refused) < packed.taken:
            await link.send(packed)
    except SendFailed as failed:
        return _Transfer(packed.taken, packed.refused, failed)
    return _Transfer(packed.taken, packed.refused, None)
