"""Invariants of availability over any history of events."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.availability import (
    Availability,
    Available,
    Event,
    Moment,
    Route,
    Suspect,
    Unavailable,
    route,
    transition,
)
from shared.domain.pair import EntityPath
from shared.domain.rotation import Outage, Rotation, choose_backlog
from tests.support.sending import NOON

histories = st.lists(st.tuples(st.sampled_from(Event), st.integers(0, 120)), max_size=40)
intervals = st.sampled_from([0, 2, 60]).map(lambda seconds: timedelta(seconds=seconds))
RETURNS = (Event.PING_SUCCEEDED, Event.ENTITY_UNKNOWN, Event.MARKED_HEALTHY)


@given(history=histories, interval=intervals)
def test_invariants_of_every_history(history: list[tuple[Event, int]], interval: timedelta) -> None:
    state: Availability = Available()
    now = NOON
    last_success = NOON
    for event, seconds in history:
        now += timedelta(seconds=seconds)
        before = state
        state = transition(before, event, Moment(now=now, failover_interval=interval, reason="x"))
        if event is Event.SEND_SUCCEEDED and route(before) is Route.PRIMARY:
            last_success = now
            assert isinstance(state, Available)
        if isinstance(state, Unavailable) and not isinstance(before, Unavailable):
            marked = event is Event.MARKED_UNAVAILABLE
            assert marked or now - last_success >= interval
            assert marked or isinstance(before, Suspect) or interval == timedelta(0)
        if isinstance(before, Unavailable) and not isinstance(state, Unavailable):
            assert event in RETURNS or (event is Event.KEY_DRAINED and before.healed_at is not None)
        if isinstance(state, Suspect):
            assert interval > timedelta(0)


queues = tuple(EntityPath(str(number)) for number in range(6))


@given(
    order=st.permutations(queues),
    changes=st.lists(st.tuples(st.booleans(), st.sampled_from(queues)), max_size=30),
)
def test_the_rotation_never_offers_a_removed_queue_and_always_one_that_is_left(
    order: list[EntityPath], changes: list[tuple[bool, EntityPath]]
) -> None:
    rotation, out = Rotation(queues=queues), set[EntityPath]()
    for leaves, queue in changes:
        outage = Outage(since=NOON, reason="full")
        rotation = rotation.without(queue, outage) if leaves else rotation.with_again(queue)
        out = out | {queue} if leaves else out - {queue}
        chosen = choose_backlog(rotation, order)
        assert chosen not in out
        assert (chosen is None) is (len(out) == len(queues))
