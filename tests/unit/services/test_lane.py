"""Promises of a lane, with links that do as they are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shared.domain.failures import Failure
from shared.ports import Packed, SendFailed
from shared.services import lane as lane_module
from shared.services.lane import Lane
from shared.services.parcels import Delivered, Flushed, LaneFull
from shared.services.retired import Retired
from tests.support.send_fakes import FakeLink, Post, failed, letter

LONG = 30.0
SHORT = 0.2


def later(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def send(lane: Lane, name: str, *, seconds: float = LONG, key: str | None = None) -> Delivered:
    return await lane.send((letter(name, key=key),), deadline=later(seconds), key=key)


async def turns() -> None:
    """Lets everything run that can."""
    for _ in range(30):
        await asyncio.sleep(0)


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
async def lane(post: Post) -> AsyncIterator[Lane]:
    retired = Retired()
    lane = Lane(post.new_link, retired, mixes_keys=True)
    yield lane
    lane.close()
    await retired.settled()


async def test_sends_one_after_the_other_use_one_link(lane: Lane, post: Post) -> None:
    for number in range(5):
        assert Delivered(possible_duplicate=False) == await send(lane, f"m{number}")
    assert [["m0"], ["m1"], ["m2"], ["m3"], ["m4"]] == post.arrived
    assert 1 == len(post.links)


async def test_what_gathers_during_a_transfer_travels_in_the_next_one(lane: Lane, post: Post) -> None:
    gate = asyncio.Event()
    post.script = [gate]
    first = asyncio.create_task(send(lane, "first"))
    await turns()
    rest = [asyncio.create_task(send(lane, f"m{number}")) for number in range(10)]
    await turns()
    gate.set()
    await asyncio.gather(first, *rest)
    assert [["first"], [f"m{number}" for number in range(10)]] == post.arrived


async def test_a_crowded_lane_is_shared_by_two_links_and_no_link_by_two_callers(lane: Lane, post: Post) -> None:
    async def caller(name: str) -> None:
        for turn in range(20):
            await send(lane, f"{name}-{turn}")

    await asyncio.gather(*(caller(f"c{number}") for number in range(200)))
    assert 4000 == len(set(post.ids)) == len(post.ids)
    assert 2 == len(post.links)


async def test_a_batch_refused_for_one_message_fails_only_that_one(lane: Lane, post: Post) -> None:
    await send(lane, "warm")
    post.unwelcome["bad"] = failed(Failure.MESSAGE_REJECTED)
    names = ["a", "bad", "b", "c"]
    outcomes = await asyncio.gather(*(send(lane, name) for name in names), return_exceptions=True)
    assert ["warm", "a", "b", "c"] == sorted(post.ids, key=["warm", *names].index)
    assert [True, False, True, True] == [isinstance(outcome, Delivered) for outcome in outcomes]


async def test_a_parcel_of_several_is_never_taken_apart(lane: Lane, post: Post) -> None:
    post.batch_max = 4
    parcels = [tuple(letter(f"{parcel}{number}") for number in range(3)) for parcel in "abc"]
    await asyncio.gather(*(lane.send(parcel, deadline=later(LONG)) for parcel in parcels))
    assert sorted([["a0", "a1", "a2"], ["b0", "b1", "b2"], ["c0", "c1", "c2"]]) == sorted(post.arrived)


async def test_a_broken_connection_is_replaced_and_the_send_tried_again(lane: Lane, post: Post) -> None:
    await send(lane, "warm")
    post.script = [failed(Failure.CONNECTION, indefinite=True)]
    assert Delivered(possible_duplicate=True) == await send(lane, "m")
    assert ["warm", "m"] == post.ids
    assert 2 == len(post.links)
    await turns()
    assert post.links[0].is_closed


async def test_a_connection_that_stays_broken_is_reported(lane: Lane, post: Post) -> None:
    post.script = [failed(Failure.CONNECTION, indefinite=True), failed(Failure.CONNECTION)]
    with pytest.raises(SendFailed) as caught:
        await send(lane, "m")
    assert (Failure.CONNECTION, True) == (caught.value.failure, caught.value.indefinite)


async def test_a_busy_server_is_asked_again_until_the_callers_time_is_up(lane: Lane, post: Post) -> None:
    post.script = [failed(Failure.BUSY)] * 2
    assert isinstance(await send(lane, "patient"), Delivered)
    post.script = [failed(Failure.BUSY)] * 1000
    with pytest.raises(SendFailed) as caught:
        await send(lane, "hasty", seconds=SHORT)
    assert (Failure.TIMEOUT, False) == (caught.value.failure, caught.value.indefinite)


@pytest.mark.parametrize("warm", [True, False])
async def test_a_hung_transfer_holds_nobody_beyond_its_deadline(lane: Lane, post: Post, warm: bool) -> None:
    if warm:
        await send(lane, "warm")
    post.script = [asyncio.Event()]
    started = later(0)
    with pytest.raises(SendFailed) as caught:
        await send(lane, "m", seconds=SHORT)
    assert (Failure.TIMEOUT, True) == (caught.value.failure, caught.value.indefinite)
    assert later(0) - started <= SHORT + 0.1
    assert isinstance(await send(lane, "next"), Delivered)
    assert "next" in post.ids
    assert 2 == len(post.links)


async def test_those_behind_a_hung_transfer_go_on_with_a_new_link(lane: Lane, post: Post) -> None:
    post.script = [asyncio.Event()]
    stuck = asyncio.create_task(send(lane, "stuck", seconds=SHORT))
    await turns()
    behind = [asyncio.create_task(send(lane, f"m{number}")) for number in range(3)]
    with pytest.raises(SendFailed):
        await stuck
    await asyncio.gather(*behind)
    assert ["m0", "m1", "m2"] == post.ids


async def test_waiting_in_the_queue_until_the_deadline_is_definite(lane: Lane, post: Post) -> None:
    post.script = [asyncio.Event()]
    stuck = asyncio.create_task(send(lane, "stuck", seconds=LONG))
    await turns()
    with pytest.raises(SendFailed) as caught:
        await send(lane, "behind", seconds=SHORT)
    assert (Failure.TIMEOUT, False) == (caught.value.failure, caught.value.indefinite)
    stuck.cancel()
    await asyncio.wait([stuck])


async def test_flushing_gives_back_what_is_not_under_way(lane: Lane, post: Post) -> None:
    gate = asyncio.Event()
    post.script = [gate]
    under_way = asyncio.create_task(send(lane, "under way"))
    await turns()
    waiting = [asyncio.create_task(send(lane, f"m{number}")) for number in range(3)]
    await turns()
    lane.flush()
    gate.set()
    assert isinstance(await under_way, Delivered)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [Flushed] * 3 == [type(outcome) for outcome in outcomes]
    assert ["under way"] == post.ids


async def test_what_was_tried_without_an_answer_says_so_when_it_is_given_back(lane: Lane, post: Post) -> None:
    post.script = [failed(Failure.CONNECTION, indefinite=True)]
    tried = asyncio.create_task(send(lane, "tried"))
    await turns()
    lane.flush()
    with pytest.raises(Flushed) as caught:
        await tried
    assert caught.value.indefinite


async def test_time_that_runs_out_behind_refused_credentials_is_not_a_time_out(lane: Lane, post: Post) -> None:
    post.script = [failed(Failure.UNAUTHORIZED), asyncio.Event()]
    with pytest.raises(SendFailed, match="unauthorized"):
        await send(lane, "first")
    stuck = asyncio.create_task(send(lane, "stuck", seconds=SHORT))
    await turns()
    with pytest.raises(SendFailed, match="unauthorized"):
        await send(lane, "behind", seconds=SHORT / 2)
    with pytest.raises(SendFailed, match="time-out"):
        await stuck


async def test_a_caller_that_gives_up_does_not_harm_the_next(lane: Lane, post: Post) -> None:
    await send(lane, "warm")
    post.script = [asyncio.Event()]
    impatient = asyncio.create_task(send(lane, "impatient"))
    await turns()
    impatient.cancel()
    await asyncio.wait([impatient])
    assert impatient.cancelled()
    assert isinstance(await send(lane, "next"), Delivered)


async def test_messages_of_different_keys_share_a_batch_only_where_that_is_known_to_be_right(
    lane: Lane, post: Post
) -> None:
    await send(lane, "warm")
    lane.mixes_keys = False
    await asyncio.gather(*(send(lane, f"{key}{number}", key=key) for number in range(3) for key in "ab"))
    batches = [{name[0] for name in transfer} for transfer in post.arrived[1:]]
    assert all(len(keys) == 1 for keys in batches)
    assert 7 == len(post.ids)


async def test_a_full_lane_says_so_and_serves_whoever_was_there_before(
    lane: Lane, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_module, "WAITING_MAX", 2)
    gate = asyncio.Event()
    post.script = [gate]
    tasks = [asyncio.create_task(send(lane, "under way"))]
    await turns()
    tasks += [asyncio.create_task(send(lane, f"m{number}")) for number in range(2)]
    await turns()
    with pytest.raises(LaneFull):
        await send(lane, "one too many")
    gate.set()
    await asyncio.gather(*tasks)
    assert [["under way"], ["m0", "m1"]] == post.arrived


class StubbornLink(FakeLink):
    """Drops the first cancellations, as a call into the SDK may; see shared.bounded."""

    drops = 2

    async def send(self, packed: Packed) -> None:
        if not self.post.arrived:
            await super().send(packed)
            return
        for _ in range(self.drops):
            try:
                await asyncio.sleep(LONG)
            except asyncio.CancelledError:
                continue
        await asyncio.sleep(LONG)


async def test_a_borrowed_link_that_drops_cancellations_holds_nobody_for_long() -> None:
    post, retired = Post(), Retired()
    lane = Lane(lambda: StubbornLink(post), retired, mixes_keys=True)
    await send(lane, "warm")
    await turns()
    began = asyncio.get_running_loop().time()
    with pytest.raises(SendFailed, match="time-out") as stuck:
        await send(lane, "stuck", seconds=SHORT)
    assert stuck.value.indefinite
    assert asyncio.get_running_loop().time() - began < LONG / 2
    assert 0 == asyncio.current_task().cancelling()  # type: ignore[union-attr]
    lane.close()
    await retired.settled()


# -- keys that may not share a transfer


@pytest.fixture
def keyed(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> Lane:
    """A lane of one key a transfer, whose patience with slow transfers is short."""
    monkeypatch.setattr(lane_module, "SLOW_AFTER_S", 0.01)
    monkeypatch.setattr(lane_module, "LOOK_SECONDS", 0.005)
    lane.mixes_keys = False
    return lane


@pytest.mark.parametrize("warm", [True, False])
async def test_keys_get_past_those_that_do_not_answer(keyed: Lane, post: Post, warm: bool) -> None:
    if warm:
        await send(keyed, "warm", key="warm")
    gate = asyncio.Event()
    post.held = {f"sick{number}": gate for number in range(20)}
    sick = [asyncio.create_task(send(keyed, name, key=name)) for name in post.held]
    await asyncio.gather(*(send(keyed, f"well{number}", key=f"well{number}") for number in range(100)))
    assert not any(task.done() for task in sick)
    gate.set()
    await asyncio.gather(*sick)
    assert 120 + warm == len(set(post.ids)) == len(post.ids)
    assert len(post.links) <= 20 + lane_module.KEY_WORKERS_MAX
    await send(keyed, "after", key="after")
    assert keyed.is_idle


async def test_messages_of_a_key_go_one_after_the_other_whoever_is_free(keyed: Lane, post: Post) -> None:
    await send(keyed, "warm", key="warm")
    gate = asyncio.Event()
    post.held = {"a1": gate}
    of_a = [asyncio.create_task(send(keyed, name, key="a")) for name in ("a1", "a2", "a3")]
    await send(keyed, "b1", key="b")
    await send(keyed, "b2", key="b")
    of_a.append(asyncio.create_task(send(keyed, "a4", key="a")))
    await send(keyed, "b3", key="b")
    await turns()
    assert ["warm", "b1", "b2", "b3"] == post.ids
    gate.set()
    await asyncio.gather(*of_a)
    assert ["a1", "a2", "a3", "a4"] == post.ids[4:]


async def test_so_many_transfers_may_be_slow_and_beyond_that_the_slowest_gives_up(
    keyed: Lane, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_module, "SLOW_MAX", 3)
    monkeypatch.setattr(lane_module, "GIVE_UP_AFTER_S", 0.02)
    post.held = {f"sick{number}": asyncio.Event() for number in range(30)}
    sick = [asyncio.create_task(send(keyed, name, key=name)) for name in post.held]
    await turns()
    await send(keyed, "well", key="well")
    assert "well" in post.ids
    given_up = [task.exception() for task in sick if task.done()]
    assert given_up
    assert {(Failure.TIMEOUT, True, True)} == {
        (one.failure, one.indefinite, one.tried) for one in given_up if isinstance(one, SendFailed)
    }
    in_use = [link for link in post.links if not link.is_closed]
    assert len(in_use) <= 3 + 2 * lane_module.KEY_WORKERS_MAX
    for task in sick:
        task.cancel()
    await asyncio.wait(sick)


async def test_a_message_whose_turn_comes_too_late_is_not_tried(keyed: Lane, post: Post) -> None:
    gate = asyncio.Event()
    post.held = {"a1": gate}
    first = asyncio.create_task(send(keyed, "a1", key="a"))
    await turns()
    late = asyncio.create_task(send(keyed, "a2", key="a", seconds=SHORT))
    await turns()
    (waiting,) = keyed._room
    waiting.late_from = later(0)
    gate.set()
    await first
    with pytest.raises(SendFailed) as caught:
        await late
    assert (Failure.TIMEOUT, False, False) == (caught.value.failure, caught.value.indefinite, caught.value.tried)
    assert ["a1"] == post.ids


async def test_throttling_of_a_key_does_not_bring_more_links_upon_the_entity(keyed: Lane, post: Post) -> None:
    post.script = [failed(Failure.BUSY)] * 6
    sends = [asyncio.create_task(send(keyed, name, key=name)) for name in "abcdefgh"]
    await asyncio.gather(*sends)
    assert len(post.links) <= lane_module.KEY_WORKERS_MAX
