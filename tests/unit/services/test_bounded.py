"""A bound holds although the call it bounds does not heed its cancellation."""

from __future__ import annotations

import asyncio

import pytest

from local.host.cancelling import cancel_all
from shared import bounded
from shared.bounded import LOOKS, while_it_moves, within
from tests.support.send_services import until


class Deaf:
    """A call that drops its first cancellations, as one that waits through `asyncio.wait_for` may."""

    def __init__(self, drops: int) -> None:
        self.drops = drops
        self.ended = asyncio.Event()

    async def call(self) -> str:
        try:
            while True:
                try:
                    return await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    if not self.drops:
                        raise
                    self.drops -= 1
        finally:
            self.ended.set()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "CANCEL_AGAIN_SECONDS", 0.001)


async def test_a_call_that_answers_in_time_gives_its_answer() -> None:
    assert 7 == await within(5, asyncio.sleep(0, 7))


async def test_a_call_that_fails_fails_as_it_does() -> None:
    async def fails() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await within(5, fails())


async def test_whoever_waits_leaves_in_time_and_the_call_is_told_until_it_ends() -> None:
    deaf = Deaf(drops=3)
    with pytest.raises(TimeoutError):
        await within(0.01, deaf.call())
    await asyncio.wait_for(deaf.ended.wait(), 5)
    assert 0 == deaf.drops


async def test_whoever_waits_can_be_cancelled_though_the_call_does_not_listen() -> None:
    deaf = Deaf(drops=3)
    waiting = asyncio.create_task(within(60, deaf.call()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(deaf.ended.wait(), 5)


async def test_a_call_that_never_ends_is_told_so_often_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    deaf = Deaf(drops=bounded.CANCELS_MAX + 1)
    with pytest.raises(TimeoutError):
        await within(0.01, deaf.call())
    await until(lambda: "does not end" in caplog.text, seconds=5, what="the last word")
    (task,) = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not await cancel_all([task], seconds=5), "the host's way to end tasks is as stubborn"


async def test_a_call_of_many_steps_has_its_time_for_each_of_them() -> None:
    """It moves each time somebody looks, and ends long after the time that a single step may take."""
    end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    looks = 0

    def moved() -> int:
        nonlocal looks
        looks += 1
        if looks == 4 * LOOKS:
            end.set_result("done")
        return looks

    assert "done" == await while_it_moves(0.01, end, moved)


async def test_a_call_of_many_steps_that_stands_still_is_given_up() -> None:
    steps: list[int] = []
    stuck = Deaf(drops=1)

    async def call() -> str:
        steps.append(1)
        await asyncio.sleep(0)
        steps.append(2)
        return await stuck.call()

    with pytest.raises(TimeoutError):
        await while_it_moves(0.05, call(), lambda: len(steps))
    await asyncio.wait_for(stuck.ended.wait(), 5)
    assert [1, 2] == steps
