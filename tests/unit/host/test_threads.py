"""The threads of synchronous functions: every result arrives, however many come at once."""

from __future__ import annotations

import asyncio
import threading

import pytest

from local.host.threads import FunctionThreads, Returns


async def test_every_call_gets_its_own_result() -> None:
    threads = FunctionThreads(4)
    calls = [threads.submit(lambda number=number: number * 2) for number in range(500)]  # type: ignore[misc]
    assert [number * 2 for number in range(500)] == await asyncio.gather(*(call.future for call in calls))
    threads.close()


async def test_what_ends_together_is_brought_in_order_and_an_error_stays_with_its_call() -> None:
    returns, loop = Returns(asyncio.get_running_loop()), asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(3)]
    futures[1].cancel()
    seen: list[int] = []
    futures[0].add_done_callback(lambda _: seen.append(0))
    futures[2].add_done_callback(lambda _: seen.append(2))

    def end() -> None:
        returns.bring(futures[0], "first", None)
        returns.bring(futures[1], "nobody waits", None)
        returns.bring(futures[2], None, ValueError("its own"))

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert "first" == await futures[0]
    with pytest.raises(ValueError, match="its own"):
        await futures[2]
    await asyncio.sleep(0)
    assert [0, 2] == seen


def test_a_result_for_a_loop_that_is_closed_ends_nothing() -> None:
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()
    Returns(loop).bring(future, "too late", None)
    assert not future.done()


async def test_a_call_withdrawn_before_its_turn_is_never_made() -> None:
    threads, hold, begun = FunctionThreads(1), threading.Event(), threading.Event()
    made: list[str] = []

    def held() -> None:
        begun.set()
        hold.wait(10)

    first = threads.submit(held)
    second = threads.submit(lambda: made.append("second"))
    assert await asyncio.to_thread(begun.wait, 10)
    second.withdraw()
    hold.set()
    await first.future
    assert "third" == await threads.submit(lambda: "third").future
    assert [] == made
    threads.close()


async def test_a_call_given_up_makes_room_for_another() -> None:
    threads, hold, begun = FunctionThreads(1), threading.Event(), threading.Event()

    def hangs() -> None:
        begun.set()
        hold.wait(10)

    hung = threads.submit(hangs)
    assert await asyncio.to_thread(begun.wait, 10)
    hung.abandon()
    async with asyncio.timeout(10):
        assert "next" == await threads.submit(lambda: "next").future
    hold.set()
    threads.close()
