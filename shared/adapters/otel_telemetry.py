"""The app's events as OpenTelemetry: metrics of all, log records of those that tell of a change, spans of sends.

What happens once for every message is counted and, as far as traces are sampled, in a span; a log record of each would
cost more than the messages themselves.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from opentelemetry._logs import LoggerProvider, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.adapters.log_telemetry import text_of
from shared.domain.availability import Route
from shared.domain.message import Outgoing
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
    StateStorageChanged,
    TelemetryEvent,
    is_of_one_message,
)

SCOPE = "paired-namespaces"
#: Entities with figures of their own; anybody may name any number of them. The rest are counted together.
ENTITIES_MAX = 1_000
OTHERS = "(others)"
#: How long a measurement of the backlog counts: two that are due, and some patience.
STALE_SECONDS = 150.0
#: How long closing waits for what is not exported yet.
CLOSE_SECONDS_MAX = 10.0
_PROPAGATOR = TraceContextTextMapPropagator()


class Provider(Protocol):
    def shutdown(self) -> object: ...


@dataclass(frozen=True, kw_only=True)
class Providers:
    """The three providers of OpenTelemetry's SDK, and what is to be shut down in the end."""

    traces: TracerProvider
    metrics: MeterProvider
    logs: LoggerProvider
    closing: Sequence[Provider] = ()


class OtelSpan:
    """One send."""

    def __init__(self, span: Span) -> None:
        self._span = span
        ids = span.get_span_context()
        self.context = f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{int(ids.trace_flags):02x}"

    def accepted(self, *, via: Route, backlog_queue: EntityPath | None) -> None:
        self._span.set_attribute("pair.route", via.value)
        if backlog_queue is not None:
            self._span.set_attribute("pair.backlog_queue", backlog_queue)
        self._span.end()

    def refused(self, reason: str) -> None:
        self._span.set_attribute("error.type", reason)
        self._span.set_status(Status(StatusCode.ERROR, reason))
        self._span.end()


class OtelTelemetry:
    wants_every_send = True

    def __init__(self, providers: Providers, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._closing = tuple(providers.closing)
        self._tracer = providers.traces.get_tracer(SCOPE)
        self._logger = providers.logs.get_logger(SCOPE)
        meter = providers.metrics.get_meter(SCOPE)
        self._sends = meter.create_counter("pair.sends", "{message}", "Messages by route; refused is one as well.")
        self._durations = meter.create_histogram("pair.send.duration", "s", "How long a send took, by route.")
        self._failures = meter.create_counter("pair.failures", "{failure}", "Failures that count towards failover.")
        self._pings = meter.create_counter("pair.pings", "{ping}", "Pings, by outcome.")
        self._forwarded = meter.create_counter("pair.forwarded", "{message}", "Backlog messages that came home.")
        self._waited = meter.create_histogram("pair.backlog.waited", "s", "How long they had waited in the backlog.")
        self._dead = meter.create_counter("pair.dead_letters", "{message}", "Backlog messages that never can.")
        self._dropped = meter.create_counter("pair.events.dropped", "{event}", "Records that could not be kept.")
        self._observed = (
            meter.create_observable_gauge(
                "pair.entity.available",
                [self._observe_availability],
                "1",
                "1 while messages go to the entity, 0 while they wait in the backlog, as this instance sees it.",
            ),
            meter.create_observable_gauge(
                "pair.backlog.depth", [self._observe_depths], "{message}", "Messages in a backlog queue, by state."
            ),
            meter.create_observable_gauge(
                "pair.drain.rate", [self._observe_rates], "{message}/s", "Messages a second that leave it for home."
            ),
        )
        self._available: dict[str, int] = {}
        self._monotonic = monotonic
        self._measured: dict[EntityPath, tuple[float, QueueDepth, float]] = {}

    # -- events

    def emit(self, event: TelemetryEvent) -> None:
        count = _COUNTED.get(type(event))
        if count is not None:
            count(self, event)
        if not is_of_one_message(event):
            self._logger.emit(
                timestamp=_nanoseconds(event.at),
                severity_number=SeverityNumber.WARN if _is_worrying(event) else SeverityNumber.INFO,
                body=text_of(event),
                attributes=_attributes(event),
            )

    def _entity(self, path: EntityPath) -> str:
        """What figures call the entity."""
        if path not in self._available:
            if len(self._available) >= ENTITIES_MAX:
                return OTHERS
            self._available[path] = 1
        return path

    def _observe_availability(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, {"entity": entity}) for entity, value in list(self._available.items())]

    def _observe_depths(self, _: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(getattr(depth, state), {"queue": queue, "state": state})
            for queue, depth, _ in self._measured_of_late()
            for state in ("active", "dead_lettered", "scheduled")
        ]

    def _observe_rates(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(rate, {"queue": queue}) for queue, _, rate in self._measured_of_late()]

    def _measured_of_late(self) -> list[tuple[EntityPath, QueueDepth, float]]:
        """An instance that does not measure any more must not go on telling what it saw last."""
        oldest = self._monotonic() - STALE_SECONDS
        return [(queue, depth, rate) for queue, (at, depth, rate) in list(self._measured.items()) if at >= oldest]

    def _accepted(self, event: SendAccepted) -> None:
        via = Route.PRIMARY if event.backlog_queue is None else Route.BACKLOG
        labels = {"entity": self._entity(event.path), "route": via.value}
        self._sends.add(1, labels)
        self._durations.record(event.seconds, labels)

    def _refused(self, event: SendRefused) -> None:
        # Whoever is refused may have named an entity that does not exist; it gets no figures of its own for that.
        entity = event.path if event.path in self._available else OTHERS
        self._sends.add(1, {"entity": entity, "route": "refused", "reason": event.reason})

    def _failed(self, event: FailureCounted) -> None:
        self._failures.add(1, {"entity": self._entity(event.path), "failure": event.failure})

    def _availability(self, event: AvailabilityChanged) -> None:
        entity = self._entity(event.path)
        if entity != OTHERS:
            self._available[entity] = 0 if event.after == "unavailable" else 1

    def _pinged(self, event: Pinged) -> None:
        outcome = "succeeded" if event.succeeded else "failed"
        self._pings.add(event.pings, {"entity": self._entity(event.path), "outcome": outcome})

    def _came_home(self, event: Forwarded) -> None:
        labels = {"entity": self._entity(event.path), "queue": event.backlog_queue}
        self._forwarded.add(1, labels)
        self._waited.record(event.waited_seconds, labels)

    def _dead_lettered(self, event: DeadLettered) -> None:
        self._dead.add(1, {"queue": event.backlog_queue, "reason": event.reason})

    def _events_dropped(self, event: EventsDropped) -> None:
        self._dropped.add(event.events)

    # -- spans, and what is measured now and then

    def start_send(self, path: EntityPath, messages: Sequence[Outgoing], *, parent: str | None) -> OtelSpan:
        attributes: dict[str, str | int] = {
            "messaging.system": "servicebus",
            "messaging.operation.type": "send",
            "messaging.destination.name": path,
        }
        if len(messages) == 1:
            attributes["messaging.message.id"] = messages[0].message_id
        else:
            attributes["messaging.batch.message_count"] = len(messages)
        span = self._tracer.start_span(
            f"send {path}", context=_context(parent), kind=SpanKind.PRODUCER, attributes=attributes
        )
        return OtelSpan(span)

    def delivered(self, delivery: Delivery) -> None:
        context = _context(delivery.trace)
        if context is None:
            return
        span = self._tracer.start_span(
            f"forward {delivery.path}",
            context=context,
            kind=SpanKind.PRODUCER,
            start_time=_nanoseconds(delivery.started),
            attributes={
                "messaging.system": "servicebus",
                "messaging.operation.type": "send",
                "messaging.destination.name": delivery.path,
                "messaging.message.id": delivery.message_id,
                "pair.backlog_queue": delivery.backlog_queue,
                "pair.waited_seconds": delivery.waited_seconds,
            },
        )
        span.end(_nanoseconds(delivery.ended))

    def backlog_measured(self, queue: EntityPath, depth: QueueDepth, rate: float) -> None:
        self._measured[queue] = (self._monotonic(), depth, rate)

    async def close(self) -> None:
        """What is left is exported, if that does not take too long."""
        shutting = asyncio.gather(*(asyncio.to_thread(one.shutdown) for one in self._closing))
        await asyncio.wait([shutting], timeout=CLOSE_SECONDS_MAX)


def _context(traceparent: str | None) -> Context | None:
    """None where the text says nothing, so that the trace this code runs in is taken."""
    if not traceparent:
        return None
    context = _PROPAGATOR.extract({"traceparent": traceparent})
    return context if get_current_span(context).get_span_context().is_valid else None


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1_000


def _attributes(event: TelemetryEvent) -> dict[str, Any]:
    values = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    plain = {name: value for name, value in values.items() if isinstance(value, str | int | float) and name != "at"}
    return {"event": event.name, **plain}


def _is_worrying(event: TelemetryEvent) -> bool:
    match event:
        case CredentialsRefused() | DeadLettered() | EventsDropped():
            return True
        case AvailabilityChanged(after=after) | FactoryChanged(after=after):
            return after not in ("available", "open")
        case StateStorageChanged(reachable=reachable):
            return not reachable
        case _:
            return False


_COUNTED: dict[type, Callable[[OtelTelemetry, Any], None]] = {
    SendAccepted: OtelTelemetry._accepted,
    SendRefused: OtelTelemetry._refused,
    FailureCounted: OtelTelemetry._failed,
    AvailabilityChanged: OtelTelemetry._availability,
    Pinged: OtelTelemetry._pinged,
    Forwarded: OtelTelemetry._came_home,
    DeadLettered: OtelTelemetry._dead_lettered,
    EventsDropped: OtelTelemetry._events_dropped,
}
