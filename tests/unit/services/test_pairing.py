"""Pairing at the start of an instance, over an administration that does as it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared.domain.backlog import BacklogQueueDescription
from shared.domain.pair import EntityPath
from shared.ports import AdminFailed, AdminRefused, QueueDepth, QueueFacts
from shared.services import pairing as pairing_module
from shared.services.pairing import Pairing
from tests.support.host_fixtures import until
from tests.support.send_instances import PAIR, QUEUES, Instance


class ScriptedAdmin:
    """Fails the looks to come, as long as there are errors left."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.looks = 0
        self.queues: list[EntityPath] = []

    async def find(self, path: EntityPath) -> QueueFacts | None:
        self.looks += 1
        if self.errors:
            raise self.errors.pop(0)
        return QueueFacts(path=path) if path in self.queues else None

    async def create(self, path: EntityPath, description: BacklogQueueDescription) -> QueueFacts:
        self.queues.append(path)
        return QueueFacts(path=path)

    async def depth(self, path: EntityPath) -> QueueDepth:
        return QueueDepth(active=0, dead_lettered=0)

    async def close(self) -> None:
        return


@pytest.fixture
async def instance(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Instance]:
    monkeypatch.setattr(pairing_module, "PAUSE_FIRST_S", 0.01)
    instance = Instance()
    yield instance
    await instance.close()


def pairing_of(instance: Instance, admin: ScriptedAdmin) -> Pairing:
    return Pairing(
        pair=PAIR, count=len(QUEUES), admin=admin, store=instance.store, state=instance.state, clock=instance.clock
    )


@pytest.mark.parametrize("failures", [1, len(QUEUES), 3 * len(QUEUES)])
async def test_a_secondary_that_is_down_at_the_start_is_paired_with_once_it_is_back(
    instance: Instance, failures: int
) -> None:
    admin = ScriptedAdmin(*[AdminFailed("down")] * failures)
    pairing = pairing_of(instance, admin)
    pairing.start_if_needed()
    await until(lambda: not pairing.is_needed)
    await pairing.close()
    assert set(QUEUES) == set(admin.queues)
    assert {} == dict(instance.state.rotation.out)


async def test_refused_credentials_are_not_tried_again_and_again(instance: Instance) -> None:
    admin = ScriptedAdmin(*[AdminRefused("no")] * 1000)
    pairing = pairing_of(instance, admin)
    pairing.start_if_needed()
    await until(lambda: pairing.has_given_up)
    assert admin.looks <= len(QUEUES)
    assert pairing.is_needed
    await pairing.close()
