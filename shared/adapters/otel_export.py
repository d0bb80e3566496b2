"""Where OpenTelemetry goes: Application Insights, or a collector that speaks OTLP. Nothing is imported while it is off.

The libraries read their own environment: APPLICATIONINSIGHTS_CONNECTION_STRING and ..._AUTHENTICATION_STRING,
OTEL_EXPORTER_OTLP_ENDPOINT and whatever else OpenTelemetry defines, the sampler of traces among it. The Functions
worker's own switches for OpenTelemetry are not needed, and this module does not touch the process's global providers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from shared.adapters.otel_telemetry import OtelTelemetry

_LOGGER = logging.getLogger(__name__)

OFF, AZURE_MONITOR, OTLP = "off", "azure-monitor", "otlp"
PACKAGES = {
    AZURE_MONITOR: "azure-monitor-opentelemetry-exporter",
    OTLP: "opentelemetry-exporter-otlp-proto-http",
}
NEEDED = {AZURE_MONITOR: "APPLICATIONINSIGHTS_CONNECTION_STRING", OTLP: "OTEL_EXPORTER_OTLP_ENDPOINT"}


class Exporters(NamedTuple):
    traces: Any
    metrics: Any
    logs: Any


def start_export(choice: str, *, service: str, instance: str, version: str) -> OtelTelemetry | None:
    """None, and one line in the log, where it cannot be had: no message waits for telemetry."""
    if choice == OFF:
        return None
    attributes = {"service.name": service, "service.instance.id": instance, "service.version": version}
    try:
        return _telemetry(_azure_monitor() if choice == AZURE_MONITOR else _otlp(), attributes)
    except ImportError:
        _LOGGER.error(
            "OPEN_TELEMETRY=%s needs the package %s, which is not installed: add it to requirements.txt and deploy "
            "again; the app goes on without OpenTelemetry",
            choice,
            PACKAGES[choice],
        )
    except ValueError:
        # Not repeated, here and below: the text may hold what should not be seen.
        _LOGGER.error(
            "OPEN_TELEMETRY=%s needs a usable %s; the app goes on without OpenTelemetry", choice, NEEDED[choice]
        )
    except Exception as error:
        kind = type(error).__name__
        _LOGGER.error("OPEN_TELEMETRY=%s did not start (%s); the app goes on without OpenTelemetry", choice, kind)
    return None


def _azure_monitor() -> Exporters:
    from azure.monitor.opentelemetry import exporter

    return Exporters(
        exporter.AzureMonitorTraceExporter(),
        exporter.AzureMonitorMetricExporter(),
        exporter.AzureMonitorLogExporter(),
    )


def _otlp() -> Exporters:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return Exporters(OTLPSpanExporter(), OTLPMetricExporter(), OTLPLogExporter())


def _telemetry(exporters: Exporters, attributes: dict[str, str]) -> OtelTelemetry:
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from shared.adapters.otel_telemetry import OtelTelemetry, Providers

    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
    resource = Resource(attributes).merge(OTELResourceDetector().detect())
    traces = TracerProvider(resource=resource)
    traces.add_span_processor(BatchSpanProcessor(exporters.traces))
    metrics = MeterProvider([PeriodicExportingMetricReader(exporters.metrics)], resource=resource)
    logs = LoggerProvider(resource=resource)
    logs.add_log_record_processor(BatchLogRecordProcessor(exporters.logs))
    return OtelTelemetry(Providers(traces=traces, metrics=metrics, logs=logs, closing=(traces, metrics, logs)))
