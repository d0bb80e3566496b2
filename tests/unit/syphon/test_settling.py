"""What is sent and not settled yet has bounds, and trouble with one batch is heard."""

from __future__ import annotations

import asyncio

import pytest

from shared.domain.pair import EntityPath
from shared.services.syphon_settling import BATCHES_MAX, BYTES_MAX, Settling
from tests.support.send_services import until


class Batch:
    """The settling of one, that ends when it is told how."""

    def __init__(self) -> None:
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_cancelled = False

    async def settle(self) -> None:
        try:
            await asyncio.shield(self.end)
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise


@pytest.fixture
def settling() -> Settling:
    return Settling(EntityPath("backlog"))


async def started(settling: Settling, count: int, size: int = 1) -> list[Batch]:
    batches = [Batch() for _ in range(count)]
    for batch in batches:
        await settling.start(batch.settle(), size)
    return batches


async def leave(settling: Settling, error: BaseException | None = None) -> None:
    """As an `async with` does, whose body has ended."""
    await settling.__aexit__(type(error) if error else None, error, None)


async def waits(task: asyncio.Task[None]) -> bool:
    """After everything that can happen now has happened."""
    for _ in range(10):
        await asyncio.sleep(0)
    return not task.done()


@pytest.mark.parametrize(
    ("count", "size"), [pytest.param(BATCHES_MAX, 1, id="batches"), pytest.param(2, BYTES_MAX // 2, id="bytes")]
)
async def test_there_is_room_again_when_one_batch_is_settled(settling: Settling, count: int, size: int) -> None:
    batches = await started(settling, count - 1, size)
    await settling.room()
    batches += await started(settling, 1, size)
    room = asyncio.create_task(settling.room())
    assert await waits(room)
    batches[1].end.set_result(None)
    await asyncio.wait_for(room, 5)
    for batch in batches:
        if not batch.end.done():
            batch.end.set_result(None)
    await leave(settling)


async def test_one_batch_is_settled_while_the_next_is_sent_however_large_they_are(settling: Settling) -> None:
    batches = await started(settling, 1, 2 * BYTES_MAX)
    await asyncio.wait_for(settling.room(), 5)
    batches += await started(settling, 1, 2 * BYTES_MAX)
    room = asyncio.create_task(settling.room())
    assert await waits(room)
    for batch in batches:
        batch.end.set_result(None)
    await asyncio.wait_for(room, 5)
    await leave(settling)


async def test_settling_is_under_way_before_anything_else_is_done(settling: Settling) -> None:
    """The receiver that took a batch may be wanted for the next one, and locks are running."""
    begun: list[str] = []

    async def settle() -> None:
        begun.append("settling")

    await settling.start(settle(), 1)
    begun.append("the next")
    assert ["settling", "the next"] == begun
    await leave(settling)


async def test_trouble_with_one_batch_is_raised_and_the_others_are_still_settled(settling: Settling) -> None:
    batches = await started(settling, 3)
    batches[1].end.set_exception(OSError("broken"))
    await until(lambda: batches[1].end.done(), seconds=5, what="the trouble")
    await asyncio.sleep(0)
    left = asyncio.create_task(leave(settling))
    assert await waits(left)
    with pytest.raises(OSError, match="broken"):
        await settling.room()
    assert await waits(left)
    batches[0].end.set_result(None)
    assert await waits(left)
    batches[2].end.set_result(None)
    with pytest.raises(OSError, match="broken"):
        await asyncio.wait_for(left, 5)
    assert not any(batch.is_cancelled for batch in batches)


async def test_whoever_waits_for_room_hears_of_trouble(settling: Settling) -> None:
    batches = await started(settling, BATCHES_MAX)
    room = asyncio.create_task(settling.room())
    assert await waits(room)
    batches[-1].end.set_exception(OSError("broken"))
    with pytest.raises(OSError, match="broken"):
        await asyncio.wait_for(room, 5)
    for batch in batches[:-1]:
        batch.end.set_result(None)
    with pytest.raises(OSError, match="broken"):
        await leave(settling)


async def test_trouble_does_not_hide_that_the_call_was_told_to_end(settling: Settling) -> None:
    async def drain() -> None:
        async with settling:
            batches = await started(settling, 1)
            batches[0].end.set_exception(OSError("broken"))
            await asyncio.Event().wait()

    draining = asyncio.create_task(drain())
    assert await waits(draining)
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining


async def test_nothing_goes_on_when_whoever_waits_is_told_to_end(settling: Settling) -> None:
    batches = await started(settling, 2)
    left = asyncio.create_task(leave(settling))
    assert await waits(left)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    await until(lambda: all(batch.is_cancelled for batch in batches), seconds=5, what="the end of all")
