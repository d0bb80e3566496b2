"""What the syphon delivers is, byte for byte, what the sender sent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from azure.servicebus import ServiceBusMessage

from local.broker.amqp.codec import decode
from local.broker.amqp.types import Described, Float32, Int, Short, Symbol, Timestamp, UByte, ULong
from shared.domain.availability import Event
from shared.domain.pair import EntityPath
from shared.paired_sender import PairedSender
from tests.integration.send.test_wire_fidelity import MESSAGES, sections
from tests.support.broker import payload
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_services import fill, instance

TICKS_A_SECOND = 10_000_000


async def test_straight_and_through_the_syphon_are_the_same_bytes(pair: PairOnBroker) -> None:
    """Every kind of body, first as the message that wakes the call, then as those it drains."""
    pair.create_entities(*MESSAGES, backlog=1)
    (queue,) = pair.backlog_paths(1)
    async with PairedSender(pair.settings(BACKLOG_QUEUE_COUNT="1"), create_queues=False) as bus:
        for kind, message in MESSAGES.items():
            await bus.send(kind, message())
        for kind, message in MESSAGES.items():
            await bus.runtime.state.mark(EntityPath(kind), Event.MARKED_UNAVAILABLE, "rehearsal")
            await bus.send(kind, message())
        for kind in MESSAGES:
            await bus.runtime.state.mark(EntityPath(kind), Event.MARKED_HEALTHY, "rehearsal")
    async with instance(pair, BACKLOG_QUEUE_COUNT="1", SYPHON_RESTART_TIME_TO_LIVE="true") as app, app.host(queue):
        await until(lambda: app.waiting(queue) == 0, seconds=30, what="an empty backlog")
    for kind in MESSAGES:
        straight, detoured = (sections(message) for message in pair.in_primary(kind))
        for one in (straight, detoured):
            # A little of its life was spent before the detour, which is taken off.
            one["ttl"] = round(one["ttl"]) if one["ttl"] else None
            one["header"] = without_time_to_live(one["header"])
        assert straight == detoured, kind


def without_time_to_live(fields: bytes) -> list[object]:
    """The header's first fields: durable, priority, time to live, first acquirer."""
    values, offset = [], 0
    while offset < len(fields):
        value, offset = decode(fields, offset)
        values.append(value)
    return [values[0], values[1], *values[3:]]


def with_types(properties: Mapping[str, object]) -> dict[str, tuple[type, object]]:
    """Numbers of different types are equal to each other."""
    return {name: (type(value), value) for name, value in properties.items()}


#: Each as it was written, and as it arrives: without a note of ours, what the SDK makes of a value is all there is to
#: go by. Plain integers here are longs.
PROPERTIES_OF_THE_ORIGINAL_CLIENT: dict[str, tuple[object, object]] = {
    "text": ("kept", "kept"),
    "int": (Int(7), Int(7)),
    "large long": (2**40, 2**40),
    "huge unsigned": (ULong(2**63), ULong(2**63)),
    "double": (1.5, 1.5),
    "bool": (True, True),
    "guid": (UUID(int=5), UUID(int=5)),
    "bytes": (b"\xff\x00", b"\xff\x00"),
    "bytes that are text": (b"text", "text"),
    "small long": (7, Int(7)),
    "short": (Short(7), Int(7)),
    "byte": (UByte(7), Int(7)),
    "float": (Float32(1.5), 1.5),
    "uri": (Described(Symbol("com.microsoft:uri"), "https://contoso.net"), "https://contoso.net"),
    "short span": (Described(Symbol("com.microsoft:timespan"), 5), Int(5)),
    "long span": (Described(Symbol("com.microsoft:timespan"), 3600 * TICKS_A_SECOND), 3600 * TICKS_A_SECOND),
    "time": (Timestamp(1_700_000_000_123), 1_700_000_000_123),
    "offset": (Described(Symbol("com.microsoft:datetime-offset"), 638 * 10**15), 638 * 10**15),
}


async def test_messages_of_the_original_client_drain(pair: PairOnBroker) -> None:
    """Its time spans are described longs, its times timestamps; it knows nothing of our notes on types.

    What that costs its rarer types is written in docs/draining.md.
    """
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    application = {
        "x-ms-path": "orders",
        "x-ms-sessionid": "session",
        "x-ms-timetolive": Described(Symbol("com.microsoft:timespan"), 3600 * TICKS_A_SECOND),
        "x-ms-scheduledenqueuetimeutc": Timestamp(int(later.timestamp() * 1000)),
        **{name: written for name, (written, _) in PROPERTIES_OF_THE_ORIGINAL_CLIENT.items()},
    }
    fill(pair, queue, [payload(b"body", application=application, message_id="m", subject="s")])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue):
        await until(lambda: app.waiting(queue) == 0, seconds=30, what="an empty backlog")
    (message,) = pair.in_primary("orders")
    content = message.content
    assert ("m", "session", later.timestamp()) == (content.message_id, content.session_id, content.scheduled_at)
    assert content.time_to_live is not None
    assert 3500 < content.time_to_live <= 3600
    expected = {name: arrives for name, (_, arrives) in PROPERTIES_OF_THE_ORIGINAL_CLIENT.items()}
    found = content.sections().decode_application_properties()
    assert with_types(expected) == with_types(found)


async def test_the_message_that_woke_the_call_is_as_faithful_as_those_that_are_drained(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    application = {"x-ms-path": "orders", "long": 2**40, "true": True, "text": "żółć"}
    fill(pair, queue, [payload(b"body", application=application, message_id=f"m-{n}") for n in range(2)])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue) as host:
        await until(lambda: app.waiting(queue) == 0, seconds=30, what="an empty backlog")
        assert 1 == len(host.calls)
    own, drained = (message.content.sections() for message in pair.in_primary("orders"))
    assert own.application_properties == drained.application_properties
    assert own.body == drained.body


async def test_decimals_wait_as_text_and_arrive_as_decimals(pair: PairOnBroker) -> None:
    """The SDK cannot receive a message with a decimal in it: one that waited as it was would be stuck for ever."""
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    values = {"price": Decimal("12.50"), "text": "12.50"}
    async with PairedSender(pair.settings(BACKLOG_QUEUE_COUNT="1"), create_queues=False) as bus:
        await bus.send("orders", ServiceBusMessage("x", message_id="m", application_properties=values))
        await bus.runtime.state.mark(EntityPath("orders"), Event.MARKED_UNAVAILABLE, "rehearsal")
        await bus.send("orders", ServiceBusMessage("x", message_id="m", application_properties=values))
        await bus.runtime.state.mark(EntityPath("orders"), Event.MARKED_HEALTHY, "rehearsal")
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue):
        await until(lambda: app.waiting(queue) == 0, seconds=30, what="an empty backlog")
    straight, detoured = (message.content.sections() for message in pair.in_primary("orders"))
    assert straight.application_properties == detoured.application_properties
