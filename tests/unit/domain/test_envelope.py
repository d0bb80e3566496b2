from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.domain.envelope import TRANSFER_PROPERTIES, rewrapped, unwrap, wrap
from shared.domain.message import Body, DataBody, Described, Header, Message, Properties, SequenceBody, Typed, ValueBody
from shared.domain.pair import EntityPath
from shared.errors import EnvelopeError, Rejected
from tests.support.otel import TRACEPARENT
from tests.support.sending import as_received, canonical_message, full_message

ORDERS = EntityPath("sales/orders")
BODIES: list[Body] = [
    None,
    DataBody((b"one", b"", b"three")),
    ValueBody({"text": ["a", b"b", 1, Typed("long", 2), None, {"deep": Typed("symbol", "s")}]}),
    SequenceBody(([1, "a"], [b"b"], [])),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_a_message_comes_out_of_the_backlog_as_it_was_sent(body: Body) -> None:
    sent = full_message(body)
    unwrapped = unwrap(as_received(wrap(sent, ORDERS)))
    assert (ORDERS, False) == (unwrapped.destination, unwrapped.expired)
    assert canonical_message(sent) == canonical_message(unwrapped.message)


def test_what_would_act_on_the_backlog_queue_is_cleared_while_the_message_waits() -> None:
    waiting = wrap(full_message(None), ORDERS)
    assert (None, None) == (waiting.properties.group_id, waiting.header.time_to_live_ms)
    assert "x-opt-scheduled-enqueue-time" not in waiting.annotations
    assert "session" == waiting.annotations["x-opt-partition-key"]


def test_transfer_properties_have_the_names_and_types_of_the_original_client() -> None:
    waiting = wrap(full_message(None), ORDERS).application_properties
    transfer = {name: value for name, value in waiting.items() if name.startswith("x-ms-")}
    assert transfer == {
        "x-ms-path": "sales/orders",
        "x-ms-sessionid": "session",
        "x-ms-timetolive": Described("com.microsoft:timespan", Typed("long", 36_000_000_000)),
        "x-ms-scheduledenqueuetimeutc": Typed("timestamp", 1_800_000_000_000),
    }


def test_a_plain_message_gets_nothing_but_its_destination() -> None:
    plain = Message(body=DataBody((b"x",)), properties=Properties(message_id="m"), application_properties={"a": "b"})
    assert {"a": "b", "x-ms-path": "orders"} == wrap(plain, EntityPath("orders")).application_properties


def test_a_trace_is_carried_and_taken_off_again_and_the_messages_own_stays() -> None:
    own = {"traceparent": "theirs", "Diagnostic-Id": "theirs too", "tracestate": Typed("symbol", "t")}
    sent = replace(full_message(None), application_properties={**full_message(None).application_properties, **own})
    waiting = wrap(sent, ORDERS, trace=TRACEPARENT)
    unwrapped = unwrap(as_received(waiting))
    assert TRACEPARENT == waiting.application_properties["x-pair-trace"] == unwrapped.trace
    assert canonical_message(sent) == canonical_message(unwrapped.message)
    assert unwrap(as_received(wrap(sent, ORDERS))).trace is None


def test_a_trace_survives_when_a_message_is_enqueued_once_more() -> None:
    again = rewrapped(as_received(wrap(full_message(None), ORDERS, trace=TRACEPARENT)))
    assert TRACEPARENT == unwrap(as_received(again)).trace


@pytest.mark.parametrize("value", [7, True, b"\xff\xfe", [1], None])
def test_a_trace_that_makes_no_sense_holds_up_nobody_and_is_taken_off(value: object) -> None:
    received = Message(application_properties={b"x-ms-path": b"orders", b"x-pair-trace": value, b"a": 1})
    unwrapped = unwrap(received)
    assert (None, {"a": 1}) == (unwrapped.trace, unwrapped.message.application_properties)


def test_time_spent_before_and_in_the_backlog_counts() -> None:
    message = Message(header=Header(time_to_live_ms=10_000))
    received = as_received(wrap(message, ORDERS, spent=timedelta(seconds=3)))
    left = unwrap(received, waited=timedelta(seconds=5))
    late = unwrap(received, waited=timedelta(seconds=7))
    assert (2_000, False) == (left.message.header.time_to_live_ms, left.expired)
    assert late.expired


def test_a_message_that_expired_before_its_detour_is_expired_when_it_is_looked_at() -> None:
    received = as_received(wrap(Message(header=Header(time_to_live_ms=1_000)), ORDERS, spent=timedelta(seconds=3)))
    assert unwrap(received, waited=timedelta(milliseconds=1)).expired


def test_a_time_to_live_beyond_what_a_header_holds_is_read_from_the_expiry() -> None:
    year_ms = 365 * 86_400_000
    properties = Properties(creation_time_ms=1_000, absolute_expiry_time_ms=1_000 + year_ms)
    waiting = wrap(Message(header=Header(time_to_live_ms=2**32 - 1), properties=properties), ORDERS)
    assert Described("com.microsoft:timespan", Typed("long", year_ms * 10_000)) == (
        waiting.application_properties["x-ms-timetolive"]
    )
    assert (None, None) == (waiting.properties.creation_time_ms, waiting.properties.absolute_expiry_time_ms)


def test_a_life_longer_than_a_header_can_say_is_kept_with_its_dates() -> None:
    sixty_days_ms = 60 * 86_400_000
    properties = Properties(creation_time_ms=1_000, absolute_expiry_time_ms=1_000 + sixty_days_ms)
    sent = Message(header=Header(time_to_live_ms=2**32 - 1), properties=properties)
    waiting = as_received(wrap(sent, ORDERS))
    back = unwrap(waiting, waited=timedelta(hours=1)).message
    assert (2**32 - 1, 1_000, 1_000 + sixty_days_ms) == (
        back.header.time_to_live_ms,
        back.properties.creation_time_ms,
        back.properties.absolute_expiry_time_ms,
    )
    assert unwrap(waiting, waited=timedelta(days=61)).expired


def test_a_message_that_lives_for_ever_still_does_after_waiting() -> None:
    waiting = as_received(wrap(Message(header=Header(time_to_live_ms=2**32 - 1)), ORDERS, spent=timedelta(seconds=9)))
    back = unwrap(waiting, waited=timedelta(days=100))
    assert (2**32 - 1, False) == (back.message.header.time_to_live_ms, back.expired)


def test_the_dates_beside_a_time_to_live_come_back() -> None:
    properties = Properties(creation_time_ms=1_000, absolute_expiry_time_ms=61_000)
    sent = Message(header=Header(time_to_live_ms=60_000), properties=properties)
    back = unwrap(as_received(wrap(sent, ORDERS)), waited=timedelta(seconds=20)).message
    assert (40_000, properties) == (back.header.time_to_live_ms, back.properties)


def test_a_message_of_the_original_client_comes_out_restored() -> None:
    """As its client wrote it and the SDK decodes it: time span and timestamp are plain numbers, no note on types."""
    received = Message(
        body=DataBody((b"x",)),
        properties=Properties(message_id=b"m"),
        application_properties={
            b"x-ms-path": b"orders",
            b"x-ms-sessionid": b"s",
            b"x-ms-timetolive": 600_000_000,
            b"x-ms-scheduledenqueuetimeutc": 1_800_000_000_000,
            b"color": b"red",
            b"big": 2**40,
        },
    )
    message = unwrap(received).message
    assert ("m", "s", 60_000) == (
        message.properties.message_id,
        message.properties.group_id,
        message.header.time_to_live_ms,
    )
    assert {"color": "red", "big": Typed("long", 2**40)} == message.application_properties
    assert {"x-opt-scheduled-enqueue-time": Typed("timestamp", 1_800_000_000_000)} == message.annotations


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({}, "no x-ms-path"),
        ({b"x-ms-path": 7}, "x-ms-path is not the path"),
        ({b"x-ms-path": b"a//b"}, "x-ms-path is not the path"),
        ({b"x-ms-path": b"\xff"}, "x-ms-path is not the path"),
        ({b"x-ms-path": b"q", b"x-ms-sessionid": 5}, "x-ms-sessionid is not text"),
        ({b"x-ms-path": b"q", b"x-ms-timetolive": b"PT1M"}, "x-ms-timetolive is not a time span"),
        ({b"x-ms-path": b"q", b"x-ms-timetolive": -1}, "x-ms-timetolive is not a time span"),
        ({b"x-ms-path": b"q", b"x-ms-scheduledenqueuetimeutc": True}, "x-ms-scheduledenqueuetimeutc is not a time"),
        ({b"x-ms-path": b"q", b"x-pair-types": b"{"}, "x-pair-types is not a note"),
        ({b"x-ms-path": b"q", b"x-pair-types": b'{"p": {"a": ["what"]}}', b"a": 1}, "x-pair-types does not fit"),
        ({b"x-ms-path": b"q", b"x-ms-timetolive": 1, b"x-pair-types": b'{"t": ["a"]}'}, "does not note two dates"),
        ({b"x-ms-path": b"q", b"x-pair-types": b'{"p": {"a": ["list", ["int"]]}}', b"a": [1, 2]}, "does not fit"),
    ],
)
def test_a_broken_envelope_is_named(properties: dict[bytes, object], complaint: str) -> None:
    with pytest.raises(EnvelopeError, match=complaint):
        unwrap(Message(application_properties=properties))


@pytest.mark.parametrize("name", sorted(TRANSFER_PROPERTIES))
def test_a_sender_cannot_use_the_names_of_transfer_properties(name: str) -> None:
    with pytest.raises(Rejected, match=name):
        wrap(Message(application_properties={name: "mine"}), ORDERS)


def test_the_note_of_a_long_uniform_list_is_short() -> None:
    message = Message(body=ValueBody([b"x"] * 10_000))
    assert len(str(wrap(message, ORDERS).application_properties["x-pair-types"])) < 60


def test_wrapping_leaves_the_message_itself_alone() -> None:
    message = full_message(None)
    before = replace(message, application_properties=dict(message.application_properties))
    wrap(message, ORDERS)
    assert before == message
