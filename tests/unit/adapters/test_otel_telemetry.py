"""Events become metrics, log records and spans, with OpenTelemetry's own SDK."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry import trace
from opentelemetry._logs import SeverityNumber
from opentelemetry.trace import StatusCode

from shared.adapters import otel_telemetry
from shared.adapters.log_telemetry import LogTelemetry
from shared.domain.availability import Route
from shared.domain.message import DataBody, Message, Properties, outgoing
from shared.domain.pair import EntityPath
from shared.ports import Delivery, QueueDepth
from shared.telemetry_events import (
    AvailabilityChanged,
    CredentialsRefused,
    DeadLettered,
    EventsDropped,
    FactoryChanged,
    FailureCounted,
    Forwarded,
    Pinged,
    SendAccepted,
    SendRefused,
    TelemetryEvent,
)
from tests.support.otel import SPAN_ID, TRACE_ID, TRACEPARENT, InMemory, ids

AT = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
ORDERS, BACKLOG = EntityPath("orders"), EntityPath("p/x-servicebus-transfer/0")
MESSAGES = [outgoing(Message(body=DataBody((b"secret body",)), properties=Properties(message_id="m")))]


def accepted(path: EntityPath = ORDERS, backlog_queue: EntityPath | None = None) -> SendAccepted:
    return SendAccepted(
        at=AT, path=path, message_id="m", backlog_queue=backlog_queue, seconds=0.5, body_bytes=3, key_hash="h"
    )


def changed(after: str, path: EntityPath = ORDERS) -> AvailabilityChanged:
    return AvailabilityChanged(at=AT, path=path, before="x", after=after, reason="why")


def emitted(*events: TelemetryEvent) -> InMemory:
    memory = InMemory()
    for event in events:
        memory.telemetry.emit(event)
    return memory


def test_sends_are_counted_by_route_and_entity() -> None:
    refused = SendRefused(at=AT, path=EntityPath("nosuch"), message_id="m", reason="EntityNotFound", seconds=0.1)
    memory = emitted(accepted(), accepted(), accepted(backlog_queue=BACKLOG), refused)
    assert {("orders", "primary"): 2, ("orders", "backlog"): 1, ("(others)", "EntityNotFound", "refused"): 1} == (
        memory.figures("pair.sends")
    )
    assert {("orders", "primary"): 1.0, ("orders", "backlog"): 0.5} == memory.figures("pair.send.duration")


def test_availability_is_a_figure_for_each_entity_for_as_long_as_it_lasts() -> None:
    memory = emitted(accepted(), accepted(EntityPath("bills")), changed("unavailable"))
    assert {("orders",): 0, ("bills",): 1} == memory.figures("pair.entity.available")
    memory.telemetry.emit(changed("available"))
    assert {("orders",): 1, ("bills",): 1} == memory.figures("pair.entity.available")
    memory.telemetry.emit(changed("suspect"))
    assert 1 == memory.figures("pair.entity.available")[("orders",)], "messages still go to the primary"


def test_the_way_home_is_counted() -> None:
    forwarded = Forwarded(at=AT, path=ORDERS, message_id="m", backlog_queue=BACKLOG, waited_seconds=9.0)
    dead = DeadLettered(at=AT, message_id="m", backlog_queue=BACKLOG, reason="R", description="D")
    pinged = Pinged(at=AT, path=ORDERS, succeeded=False, detail="", seconds=0.1, pings=64)
    failed = FailureCounted(at=AT, path=ORDERS, failure="timeout", detail="")
    memory = emitted(forwarded, forwarded, dead, pinged, failed, EventsDropped(at=AT, events=7))
    memory.telemetry.backlog_measured(BACKLOG, QueueDepth(active=5, dead_lettered=1), 2.5)
    assert {("orders", BACKLOG): 2} == memory.figures("pair.forwarded")
    assert {("orders", BACKLOG): 18.0} == memory.figures("pair.backlog.waited")
    assert {(BACKLOG, "R"): 1} == memory.figures("pair.dead_letters")
    assert {("orders", "failed"): 64} == memory.figures("pair.pings")
    assert {("orders", "timeout"): 1} == memory.figures("pair.failures")
    assert {(): 7} == memory.figures("pair.events.dropped")


def test_depth_and_drain_rate_are_figures_only_while_somebody_measures() -> None:
    """An instance that does not measure any more must not go on telling what it saw last."""
    memory = InMemory()
    memory.telemetry.backlog_measured(BACKLOG, QueueDepth(active=5, dead_lettered=1), 2.5)
    assert {(BACKLOG, "active"): 5, (BACKLOG, "dead_lettered"): 1, (BACKLOG, "scheduled"): 0} == (
        memory.figures("pair.backlog.depth")
    )
    assert {(BACKLOG,): 2.5} == memory.figures("pair.drain.rate")
    memory.now = 151.0
    assert ({}, {}) == (memory.figures("pair.backlog.depth"), memory.figures("pair.drain.rate"))
    memory.telemetry.backlog_measured(BACKLOG, QueueDepth(active=4, dead_lettered=1), 3.5)
    assert {(BACKLOG,): 3.5} == memory.figures("pair.drain.rate")


def test_the_number_of_entities_with_figures_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel_telemetry, "ENTITIES_MAX", 2)
    memory = emitted(*(accepted(EntityPath(f"e{number}")) for number in range(5)))
    assert {("e0", "primary"): 1, ("e1", "primary"): 1, ("(others)", "primary"): 3} == memory.figures("pair.sends")
    assert {("e0",), ("e1",)} == set(memory.figures("pair.entity.available"))


def test_changes_are_log_records_with_their_fields_and_what_happens_for_every_message_is_not() -> None:
    refused = CredentialsRefused(at=AT, side="primary", path=ORDERS, detail="no")
    opened = FactoryChanged(at=AT, side="primary", before="closed", after="open", reason="", by="ann")
    memory = emitted(accepted(backlog_queue=BACKLOG), changed("unavailable"), refused, opened)
    found = [one.log_record for one in memory.logs()]
    assert [SeverityNumber.WARN, SeverityNumber.WARN, SeverityNumber.INFO] == [one.severity_number for one in found]
    record = found[0]
    fields = {"path": "orders", "before": "x", "after": "unavailable", "reason": "why"}
    assert {"event": "availability.changed", **fields} == dict(record.attributes or {})
    assert int(AT.timestamp()) * 10**9 == record.timestamp


def test_log_records_read_as_the_log_lines_do(caplog: pytest.LogCaptureFixture) -> None:
    """One query finds both."""
    caplog.set_level("INFO", logger="telemetry")
    LogTelemetry().emit(changed("unavailable"))
    LogTelemetry().emit(accepted(backlog_queue=BACKLOG))
    (record,) = emitted(changed("unavailable")).logs()
    assert [record.log_record.body] == caplog.messages


def test_a_send_is_a_span_of_its_callers_trace() -> None:
    memory = InMemory()
    span = memory.telemetry.start_send(ORDERS, MESSAGES, parent=TRACEPARENT)
    span.accepted(via=Route.BACKLOG, backlog_queue=BACKLOG)
    (found,) = memory.spans()
    trace_id, span_id, parent = ids(found)
    assert (TRACE_ID, SPAN_ID) == (trace_id, parent)
    assert f"00-{TRACE_ID}-{span_id}-01" == span.context
    assert ("send orders", "m", "backlog", BACKLOG) == (
        found.name,
        *((found.attributes or {}).get(name) for name in ("messaging.message.id", "pair.route", "pair.backlog_queue")),
    )
    assert "secret body" not in found.to_json()


@pytest.mark.parametrize("parent", [None, "", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_without_a_usable_parent_a_send_belongs_to_the_trace_it_runs_in_or_begins_one(parent: str | None) -> None:
    memory = InMemory()
    memory.telemetry.start_send(ORDERS, MESSAGES, parent=parent).refused("Overloaded")
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    around = trace.SpanContext(int(TRACE_ID, 16), 5, is_remote=False, trace_flags=sampled)
    with trace.use_span(trace.NonRecordingSpan(around)):
        memory.telemetry.start_send(ORDERS, MESSAGES * 2, parent=parent).refused("Overloaded")
    alone, within = memory.spans()
    assert (None, TRACE_ID) == (ids(alone)[2], ids(within)[0])
    assert (StatusCode.ERROR, "Overloaded") == (alone.status.status_code, (alone.attributes or {})["error.type"])
    assert 2 == (within.attributes or {})["messaging.batch.message_count"]


def test_a_delivery_joins_the_trace_of_its_send() -> None:
    memory = InMemory()
    send = memory.telemetry.start_send(ORDERS, MESSAGES, parent=TRACEPARENT)
    send.accepted(via=Route.BACKLOG, backlog_queue=BACKLOG)
    memory.telemetry.delivered(delivery(send.context))
    sent, forwarded = memory.spans()
    assert (TRACE_ID, ids(sent)[1]) == (ids(forwarded)[0], ids(forwarded)[2])
    assert ("forward orders", 2 * 10**9) == (forwarded.name, (forwarded.end_time or 0) - (forwarded.start_time or 0))


@pytest.mark.parametrize("text", ["", "nonsense", "00-1-2-3", "\x00" * 55])
def test_a_delivery_whose_trace_makes_no_sense_is_no_span(text: str) -> None:
    memory = InMemory()
    memory.telemetry.delivered(delivery(text))
    assert [] == memory.spans()


def test_what_the_caller_does_not_sample_is_not_exported_and_yet_passed_on() -> None:
    memory = InMemory()
    send = memory.telemetry.start_send(ORDERS, MESSAGES, parent=TRACEPARENT.removesuffix("01") + "00")
    send.accepted(via=Route.BACKLOG, backlog_queue=BACKLOG)
    memory.telemetry.delivered(delivery(send.context))
    assert [] == memory.spans()
    assert send.context.startswith(f"00-{TRACE_ID}-")
    assert send.context.endswith("-00")


def delivery(text: str) -> Delivery:
    return Delivery(
        path=ORDERS,
        message_id="m",
        backlog_queue=BACKLOG,
        started=AT,
        ended=AT + timedelta(seconds=2),
        waited_seconds=60.0,
        trace=text,
    )
