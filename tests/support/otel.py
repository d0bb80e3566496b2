"""OpenTelemetry's own SDK with its in-memory exporters, and a collector on this machine that takes OTLP and more."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shared.adapters.otel_telemetry import OtelTelemetry, Providers

#: A caller's span, as W3C writes it.
TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"


class InMemory:
    """Telemetry that a test can look at."""

    def __init__(self) -> None:
        self.now = 0.0
        self._spans, self._logs = InMemorySpanExporter(), InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
        self._reader = InMemoryMetricReader()
        traces, logs, metrics = TracerProvider(), LoggerProvider(), MeterProvider([self._reader])
        traces.add_span_processor(SimpleSpanProcessor(self._spans))
        logs.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        self.telemetry = OtelTelemetry(
            Providers(traces=traces, metrics=metrics, logs=logs, closing=(traces, metrics, logs)),
            monotonic=lambda: self.now,
        )

    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    def logs(self) -> list[ReadableLogRecord]:
        return list(self._logs.get_finished_logs())

    def figures(self, name: str) -> dict[tuple[str, ...], float]:
        """Values of a metric by the values of its attributes, sorted by their names; of a histogram the sums."""
        data = self._reader.get_metrics_data()
        found: dict[tuple[str, ...], float] = {}
        for resource in data.resource_metrics if data else ():
            for metric in (one for scope in resource.scope_metrics for one in scope.metrics if one.name == name):
                for point in metric.data.data_points:
                    labels = tuple(str(value) for _, value in sorted((point.attributes or {}).items()))
                    found[labels] = point.value if hasattr(point, "value") else getattr(point, "sum")  # noqa: B009
        return found


def ids(span: ReadableSpan) -> tuple[str, str, str | None]:
    """Trace, span and parent, as W3C writes them."""
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}", f"{span.parent.span_id:016x}" if span.parent else None


@dataclass
class Collector:
    """What exporters have sent to this machine, by path."""

    address: str = ""
    bodies: dict[str, list[bytes]] = field(default_factory=dict)

    def spans(self) -> list[Any]:
        requests = map(ExportTraceServiceRequest.FromString, self.bodies.get("/v1/traces", []))
        scopes = [scope for one in requests for resource in one.resource_spans for scope in resource.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    def metric_names(self) -> set[str]:
        requests = map(ExportMetricsServiceRequest.FromString, self.bodies.get("/v1/metrics", []))
        scopes = [scope for one in requests for resource in one.resource_metrics for scope in resource.scope_metrics]
        return {metric.name for scope in scopes for metric in scope.metrics}

    def log_texts(self) -> list[str]:
        requests = map(ExportLogsServiceRequest.FromString, self.bodies.get("/v1/logs", []))
        scopes = [scope for one in requests for resource in one.resource_logs for scope in resource.scope_logs]
        return [record.body.string_value for scope in scopes for record in scope.log_records]

    def application_insights(self) -> list[dict[str, Any]]:
        return [item for body in self.bodies.get("/v2.1/track", []) for item in json.loads(body)]


@contextmanager
def collector() -> Iterator[Collector]:
    collected = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            collected.bodies.setdefault(self.path, []).append(body)
            answer = b'{"itemsReceived": 1, "itemsAccepted": 1, "errors": []}' if "track" in self.path else b""
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collected.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield collected
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
