"""What becomes of one backlog message."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.envelope import wrap
from shared.domain.factory import Factory, FactoryState
from shared.domain.failures import Failure
from shared.domain.message import DataBody, Header, Message, Properties
from shared.domain.pair import EntityPath, Side
from shared.domain.ping import PING_CONTENT_TYPE
from shared.domain.syphon import (
    DESTINATION_NOT_FOUND,
    DESTINATION_REFUSED,
    INVALID_ENVELOPE,
    BacklogMessage,
    DeadLetter,
    Discard,
    Forward,
    Ring,
    Verdict,
    Wait,
    bell_properties,
    judge,
    may_work,
    refusal_of,
)
from tests.support.sending import NOON, as_received, full_message

ORDERS = EntityPath("orders")


def backlog(message: Message, *, waited: timedelta = timedelta(0)) -> BacklogMessage:
    return BacklogMessage(sequence_number=1, enqueued_at=NOON - waited, message=message)


def wrapped(ttl_ms: int | None = None) -> Message:
    message = Message(
        body=DataBody((b"x",)), header=Header(time_to_live_ms=ttl_ms), properties=Properties(message_id="m")
    )
    return as_received(wrap(message, ORDERS))


def judged(message: Message, *, waited: timedelta = timedelta(0), takes: bool = True, **more: bool) -> Verdict:
    return judge(backlog(message, waited=waited), now=NOON, takes_messages=lambda path: takes, **more)


def test_a_message_whose_destination_takes_messages_is_forwarded() -> None:
    verdict = judged(wrapped())
    assert isinstance(verdict, Forward)
    assert ORDERS == verdict.destination


def test_a_message_for_somebody_is_never_taken_for_a_bell() -> None:
    """Its sender may have used the name for a property of its own; completing it as a bell would lose it."""
    message = Message(properties=Properties(message_id="m"), application_properties=bell_properties())
    verdict = judged(as_received(wrap(message, ORDERS)))
    assert isinstance(verdict, Forward)
    assert bell_properties() == verdict.message.application_properties


def test_a_message_whose_destination_does_not_waits() -> None:
    assert Wait(destination=ORDERS) == judged(wrapped(), takes=False)


def test_only_the_destinations_own_state_counts() -> None:
    verdict = judge(backlog(wrapped()), now=NOON, takes_messages=lambda path: path == ORDERS)
    assert isinstance(verdict, Forward)


@given(ttl_s=st.integers(min_value=1, max_value=10_000), waited_s=st.integers(min_value=0, max_value=20_000))
def test_time_spent_waiting_counts_against_time_to_live(ttl_s: int, waited_s: int) -> None:
    verdict = judged(wrapped(ttl_s * 1000), waited=timedelta(seconds=waited_s))
    if waited_s >= ttl_s:
        assert isinstance(verdict, DeadLetter)
        assert "TTLExpiredException" == verdict.reason
    else:
        assert isinstance(verdict, Forward)
        assert (ttl_s - waited_s) * 1000 == verdict.message.header.time_to_live_ms


@given(waited_s=st.integers(min_value=0, max_value=20_000))
def test_the_clock_can_be_restarted(waited_s: int) -> None:
    verdict = judged(wrapped(60_000), waited=timedelta(seconds=waited_s), restart_clock=True)
    assert isinstance(verdict, Forward)
    assert 60_000 == verdict.message.header.time_to_live_ms


def test_a_clock_that_runs_ahead_expires_nothing() -> None:
    verdict = judged(wrapped(1_000), waited=timedelta(seconds=-5))
    assert isinstance(verdict, Forward)
    assert 1_000 == verdict.message.header.time_to_live_ms


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-ms-path", None),
        ("x-ms-path", 7),
        ("x-ms-path", b""),
        ("x-ms-path", b"not a path!"),
        ("x-ms-sessionid", 7),
        ("x-ms-timetolive", b"PT1M"),
        ("x-ms-timetolive", -1),
        ("x-ms-timetolive", True),
        ("x-ms-scheduledenqueuetimeutc", b"tomorrow"),
        ("x-pair-types", b"not json"),
    ],
)
def test_an_envelope_that_makes_no_sense_is_a_reason_with_a_description(name: str, value: object) -> None:
    message = wrapped()
    properties = {**message.application_properties, name.encode(): value}
    verdict = judged(replace(message, application_properties=properties))
    assert isinstance(verdict, DeadLetter)
    assert INVALID_ENVELOPE == verdict.reason
    assert name in verdict.description


def test_a_ping_is_nobodys_message() -> None:
    assert Discard() == judged(wrapped().with_properties(content_type=PING_CONTENT_TYPE))


@pytest.mark.parametrize("received", [True, False])
def test_the_syphon_knows_its_own_bell(received: bool) -> None:
    bell = Message(application_properties=bell_properties())
    assert Ring() == judged(as_received(bell) if received else bell)


def test_a_forwarded_message_has_no_trace_of_its_detour() -> None:
    sent = full_message(DataBody((b"x",)))
    verdict = judged(as_received(wrap(sent, ORDERS)))
    assert isinstance(verdict, Forward)
    assert set(sent.application_properties) == set(verdict.message.application_properties)
    assert set(sent.annotations) == set(verdict.message.annotations)
    assert "session" == verdict.message.properties.group_id


@pytest.mark.parametrize("failure", list(Failure))
def test_only_what_is_the_messages_fault_is_refused_for_good(failure: Failure) -> None:
    refusal = refusal_of(failure, "why", destination=ORDERS, entity_is_known=True)
    for_good = {Failure.MESSAGE_TOO_LARGE, Failure.MESSAGE_REJECTED}
    assert (failure in for_good) == (refusal.dead_letter is not None)
    if refusal.dead_letter:
        assert DESTINATION_REFUSED == refusal.dead_letter.reason
        assert "why" in refusal.dead_letter.description
    assert (failure is Failure.BUSY) == refusal.is_throttle


def test_a_destination_that_never_took_a_message_and_is_not_there_is_a_mistake() -> None:
    refusal = refusal_of(Failure.ENTITY_NOT_FOUND, "why", destination=ORDERS, entity_is_known=False)
    assert refusal.dead_letter is not None
    assert DESTINATION_NOT_FOUND == refusal.dead_letter.reason


@pytest.mark.parametrize("state", [FactoryState.CLOSED, FactoryState.FAULTED])
@pytest.mark.parametrize("side", list(Side))
def test_the_syphon_works_only_while_both_sides_are_open(side: Side, state: FactoryState) -> None:
    both = {one: Factory() for one in Side}
    assert may_work(both)
    assert not may_work({**both, side: Factory(state=state)})
