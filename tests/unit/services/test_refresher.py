"""Keeping a view of shared state fresh: everybody waits for the first load, and stopping has an end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from shared.services import refresher as module
from shared.services.refresher import Refresher

#: Well below the time after which an unused refresher ends by itself.
SOON_S = 10.0


async def nothing() -> None:
    """There is no shared state."""


def made(refresh: Callable[[], Awaitable[None]] = nothing) -> Refresher:
    return Refresher(refresh=refresh, save=nothing, every=timedelta(hours=1))


async def test_whoever_comes_during_the_first_load_waits_for_it_too() -> None:
    """A pair that is closed, or an entity that is out, is so for the second send of an instance as well."""
    loaded = asyncio.Event()
    refresher = made(loaded.wait)  # type: ignore[arg-type]
    users = [asyncio.create_task(refresher.in_use()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not refresher.is_fresh(asyncio.get_running_loop().time())
    assert not any(user.done() for user in users)
    loaded.set()
    async with asyncio.timeout(SOON_S):
        await asyncio.gather(*users)
    assert refresher.is_fresh(asyncio.get_running_loop().time())
    await refresher.stop()


async def test_a_first_load_that_hangs_holds_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_LOAD_SECONDS_MAX", 0.05)
    refresher = made(asyncio.Event().wait)  # type: ignore[arg-type]
    async with asyncio.timeout(SOON_S):
        await asyncio.gather(refresher.in_use(), refresher.in_use())
        # By now it is not waited for any more.
        await refresher.in_use()
    assert refresher.is_fresh(asyncio.get_running_loop().time())
    await refresher.stop()


@pytest.mark.parametrize("turns", range(4))
async def test_it_stops_also_when_it_is_told_to_hurry_at_the_same_moment(turns: int) -> None:
    """Python drops a cancellation that comes together with what is waited for."""
    refresher = made()
    await refresher.in_use()
    refresher.hurry()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(SOON_S):
        await refresher.stop()
    assert not refresher.is_fresh(asyncio.get_running_loop().time())
