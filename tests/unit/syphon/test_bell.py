"""The bell that a call leaves for what waits aside."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace

import pytest

from shared.domain.message import DataBody, Message, Outgoing
from shared.domain.pair import EntityPath
from shared.domain.syphon import BacklogMessage
from shared.ports import Told, nobody
from shared.services.syphon_call import Call
from tests.support.sending import NOON

QUEUE = EntityPath("p/x-servicebus-transfer/0")


class Backlog:
    """A queue that nothing is seen in, where a lock holds or does not."""

    def __init__(self, holds: bool) -> None:
        self._holds = holds
        self.written: list[Outgoing] = []

    async def look(self, from_sequence_number: int, count: int) -> list[BacklogMessage]:
        return []

    async def release(self, messages: Sequence[BacklogMessage], told: Told = nobody) -> None:
        for message in messages:
            told(message, self._holds)

    async def send_one(self, message: Outgoing) -> None:
        self.written.append(message)

    async def close(self) -> None:
        """It is the link to itself."""


@pytest.mark.parametrize(("holds", "bells"), [(True, 0), (False, 1)])
async def test_a_bell_whose_lock_ended_is_replaced_while_messages_wait_aside(holds: bool, bells: int) -> None:
    """Somebody else may have had it, seen nothing aside, and be done with it."""
    backlog = Backlog(holds)
    call = Call(
        path=QUEUE,
        sequence_number=1,
        queue=backlog,  # type: ignore[arg-type]
        links=SimpleNamespace(to=lambda side, path: backlog),  # type: ignore[arg-type]
        forwarder=None,  # type: ignore[arg-type]
        desk=SimpleNamespace(clock=SimpleNamespace(now=lambda: NOON)),  # type: ignore[arg-type]
        options=SimpleNamespace(call_budget=timedelta(minutes=8), restart_clock=False),  # type: ignore[arg-type]
    )
    call._holds = False
    call._bell = BacklogMessage(sequence_number=5, enqueued_at=NOON, message=Message(body=DataBody((b"",))))
    call._drainer.aside.add(EntityPath("dead"), 7)
    await call._leave_bell()
    assert bells == len(backlog.written)
