"""What the syphon delivers is, byte for byte, what the sender sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from azure.servicebus import ServiceBusMessage

from local.broker.amqp.codec import decode
from local.broker.amqp.types import Described, Symbol, Timestamp
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


async def test_messages_of_the_original_client_drain(pair: PairOnBroker) -> None:
    """Its time spans are described longs, its times timestamps; it knows nothing of our notes on types."""
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    application = {
        "x-ms-path": "orders",
        "x-ms-sessionid": "session",
        "x-ms-timetolive": Described(Symbol("com.microsoft:timespan"), 3600 * TICKS_A_SECOND),
        "x-ms-scheduledenqueuetimeutc": Timestamp(int(later.timestamp() * 1000)),
        "text": "kept",
        "number": 7,
        "span": Described(Symbol("com.microsoft:timespan"), 5),
    }
    fill(pair, queue, [payload(b"body", application=application, message_id="m", subject="s")])
    async with instance(pair, BACKLOG_QUEUE_COUNT="1") as app, app.host(queue):
        await until(lambda: app.waiting(queue) == 0, seconds=30, what="an empty backlog")
    (message,) = pair.in_primary("orders")
    content = message.content
    assert ("m", "session", later.timestamp()) == (content.message_id, content.session_id, content.scheduled_at)
    assert content.time_to_live is not None
    assert 3500 < content.time_to_live <= 3600
    properties = content.sections().decode_application_properties()
    assert {"text": "kept", "number": 7} == {name: properties[name] for name in ("text", "number")}
    assert {"text", "number", "span"} == set(properties)


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
