"""OpenTelemetry over the broker and through the app: one trace from caller to delivery, and nothing left behind."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage

from shared import composition
from shared.adapters.otel_export import start_export
from shared.adapters.otel_telemetry import OtelTelemetry
from shared.domain.availability import Event, Route
from shared.domain.message import outgoing
from shared.domain.pair import EntityPath
from shared.domain.ping import ping_message
from shared.errors import MessageTooLarge
from shared.paired_sender import PairedSender
from shared.telemetry_events import AvailabilityChanged, SendAccepted
from tests.support.app_process import example_settings, run_python
from tests.support.otel import SPAN_ID, TRACE_ID, TRACEPARENT, Collector, InMemory, collector, ids
from tests.support.send_hosts import SendHost, send_hosts
from tests.support.send_services import PairOnBroker, application_properties, until
from tests.support.syphon_services import SyphonHost

ORDERS = EntityPath("orders")
#: What the sender's own libraries put on a message is the sender's.
OWN = {"traceparent": "00-theirs", "Diagnostic-Id": "theirs", "tracestate": "a=b"}
SECONDS_MAX = 30.0


@contextmanager
def with_open_telemetry(memory: InMemory) -> Iterator[None]:
    build = composition.build

    def building(*args: object, **options: object) -> composition.Runtime:
        return build(*args, **options, open_telemetry=memory.telemetry)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shared.paired_sender.build", building)
        yield


def one_sender(pair: PairOnBroker) -> PairedSender:
    settings = pair.settings(BACKLOG_QUEUE_COUNT="1")
    return PairedSender(settings, create_queues=False, authority_file=str(pair.broker.authority_file))


async def test_one_trace_leads_from_the_caller_through_the_backlog_to_the_delivery(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    (queue,) = pair.backlog_paths(1)
    memory = InMemory()
    with with_open_telemetry(memory):
        async with one_sender(pair) as bus:
            state, to_outgoing = bus.runtime.state, bus.runtime.to_outgoing
            await bus.runtime.sender.send(ORDERS, [to_outgoing(ServiceBusMessage("straight"))], trace=TRACEPARENT)
            await state.mark(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
            for number in range(3):
                message = ServiceBusMessage(f"{number}", message_id=f"m{number}", application_properties=dict(OWN))
                await bus.runtime.sender.send(ORDERS, [to_outgoing(message)], trace=TRACEPARENT)
            assert [TRACE_ID] * 3 == [str(held(one)["x-pair-trace"])[3:35] for one in pair.in_backlog("orders")]
            await state.mark(ORDERS, Event.MARKED_HEALTHY, "rehearsal")
            async with SyphonHost(pair, bus.runtime, [queue]):
                await until(lambda: not pair.in_backlog(), seconds=SECONDS_MAX, what="an empty backlog")
                await until(lambda: len(memory.spans()) == 7, seconds=SECONDS_MAX, what="a span for each delivery")
    sends = {ids(span)[1]: span for span in memory.spans() if span.name == "send orders"}
    forwards = [span for span in memory.spans() if span.name == "forward orders"]
    assert {TRACE_ID} == {ids(span)[0] for span in memory.spans()}
    assert {SPAN_ID} == {ids(span)[2] for span in sends.values()}
    for span in forwards:
        send = sends[str(ids(span)[2])]
        assert (send.attributes or {})["messaging.message.id"] == (span.attributes or {})["messaging.message.id"]
    assert {("orders", "primary"): 1, ("orders", "backlog"): 3} == memory.figures("pair.sends")
    assert 3 == memory.figures("pair.forwarded")[("orders", queue)]
    arrived = [held(message) for message in pair.in_primary("orders")]
    assert [{}, OWN, OWN, OWN] == arrived, "the sender's own stays, ours is gone"


async def test_nothing_is_added_to_a_message_while_it_is_off(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=1)
    async with one_sender(pair) as bus:
        await bus.runtime.state.mark(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
        await bus.runtime.sender.send(ORDERS, [bus.runtime.to_outgoing("x")], trace=TRACEPARENT)
    (waiting,) = pair.in_backlog()
    assert {"x-ms-path": "orders"} == held(waiting)


async def test_a_message_that_fits_only_without_its_trace_waits_without_it(pair: PairOnBroker) -> None:
    """And one that does not fit at all is refused, as it is without OpenTelemetry."""
    pair.create_entities("orders", backlog=1)
    limit = 262_144
    with with_open_telemetry(InMemory()):
        async with one_sender(pair) as bus:
            await bus.runtime.state.mark(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
            sizes = {}
            for over in range(0, 400, 25):
                body = b"x" * (limit - over)
                try:
                    await bus.send("orders", ServiceBusMessage(body, message_id="m"))
                except MessageTooLarge:
                    continue
                sizes[over] = "x-pair-trace" in held(pair.in_backlog()[-1])
    first = min(sizes)
    assert first > 0
    assert not sizes[first], "the largest that fits has no room for a trace"
    assert sizes[max(sizes)], "one with room has one"


def held(message: object) -> dict[str, object]:
    properties = application_properties(message)  # type: ignore[arg-type]
    return {
        _text(name): _text(value) if isinstance(value, str | bytes) else value for name, value in properties.items()
    }


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@pytest.mark.timeout(120)
async def test_the_app_sends_everything_to_a_collector_when_told_to(
    pair: PairOnBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(pair.broker.authority_file))
    pair.create_entities("orders")
    with collector() as collected:
        settings = {
            "OPEN_TELEMETRY": "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collected.address,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_BLRP_SCHEDULE_DELAY": "200",
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
            "ENABLE_SYPHON": "true",
            "FAILOVER_INTERVAL": "PT0S",
            "PING_PRIMARY_INTERVAL": "PT1S",
        }
        async with send_hosts(pair, tmp_path, **settings) as (host,):
            await an_outage_is_followed(pair, host, collected)


async def an_outage_is_followed(pair: PairOnBroker, host: SendHost, collected: Collector) -> None:
    assert "primary" == (await host.send("orders")).headers["x-pair-route"]
    await pair.broker.inject(kind="refuse", namespace="primary")
    answer = await host.send("orders", traceparent=TRACEPARENT)
    assert "backlog" == answer.headers["x-pair-route"]
    await pair.broker.heal()

    def names() -> list[str]:
        return sorted(span.name for span in collected.spans() if span.trace_id.hex() == TRACE_ID)

    await until(
        lambda: names() == ["forward orders", "send orders"], seconds=SECONDS_MAX, what="both ends of the trace"
    )
    wanted = {"pair.sends", "pair.entity.available", "pair.pings", "pair.forwarded", "pair.backlog.depth"}
    await until(lambda: wanted <= collected.metric_names(), seconds=SECONDS_MAX, what="the metrics")
    changes = [text for text in collected.log_texts() if text.startswith("availability.changed ")]
    assert ['"after": "unavailable"', '"after": "available"'] == [
        part for text in changes for part in ('"after": "unavailable"', '"after": "available"') if part in text
    ]


async def test_application_insights_gets_spans_metrics_and_events(monkeypatch: pytest.MonkeyPatch) -> None:
    for what in ("STATSBEAT_DISABLED_ALL", "SDKSTATS_DISABLED", "CONTROLPLANE_DISABLED"):
        monkeypatch.setenv(f"APPLICATIONINSIGHTS_{what}", "true")
    with collector() as collected:
        key = "00000000-0000-0000-0000-000000000001"
        text = f"InstrumentationKey={key};IngestionEndpoint={collected.address}/"
        monkeypatch.setenv("APPLICATIONINSIGHTS_CONNECTION_STRING", text)
        telemetry = start_export("azure-monitor", service="paired-namespaces-sender", instance="one", version="1")
        assert telemetry is not None
        send_one(telemetry)
        await telemetry.close()
    items = collected.application_insights()
    kinds = {item["data"]["baseType"]: item for item in items}
    assert {"RemoteDependencyData", "MessageData", "MetricData"} <= set(kinds)
    assert TRACE_ID == kinds["RemoteDependencyData"]["tags"]["ai.operation.id"]
    assert "paired-namespaces-sender" == kinds["RemoteDependencyData"]["tags"]["ai.cloud.role"]
    assert kinds["MessageData"]["data"]["baseData"]["message"].startswith("availability.changed {")


def send_one(telemetry: OtelTelemetry) -> None:
    span = telemetry.start_send(ORDERS, [outgoing(ping_message(message_id="m", session_id="s"))], parent=TRACEPARENT)
    span.accepted(via=Route.PRIMARY, backlog_queue=None)
    now = datetime.now(UTC)
    telemetry.emit(SendAccepted(at=now, path=ORDERS, message_id="m", backlog_queue=None, seconds=0.1, body_bytes=1))
    telemetry.emit(
        AvailabilityChanged(at=now, path=ORDERS, before="available", after="unavailable", reason="rehearsal")
    )


@pytest.mark.parametrize(
    ("choice", "missing", "package"),
    [
        ("otlp", "opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry-exporter-otlp-proto-http"),
        ("azure-monitor", "azure.monitor.opentelemetry", "azure-monitor-opentelemetry-exporter"),
    ],
)
def test_an_exporter_that_is_not_installed_is_one_line_and_nothing_else(
    choice: str, missing: str, package: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)  # importing it fails, as if it were not there
    assert start_export(choice, service="s", instance="i", version="1") is None
    (record,) = caplog.records
    assert logging.ERROR == record.levelno
    assert f"OPEN_TELEMETRY={choice} needs the package {package}, which is not installed" in record.getMessage()


@pytest.mark.parametrize("text", [None, "", "InstrumentationKey=a-secret-that-is-no-key"])
def test_a_connection_string_that_cannot_be_used_is_one_line_that_does_not_repeat_it(
    text: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = "APPLICATIONINSIGHTS_CONNECTION_STRING"
    if text is None:
        monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setenv(name, text)
    assert start_export("azure-monitor", service="s", instance="i", version="1") is None
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("shared.")]
    assert [f"OPEN_TELEMETRY=azure-monitor needs a usable {name}; the app goes on without OpenTelemetry"] == lines
    assert "a-secret" not in caplog.text


def test_an_exporter_that_breaks_is_one_line_and_harms_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("with a-secret in it")

    monkeypatch.setattr("shared.adapters.otel_export._otlp", broken)
    assert start_export("otlp", service="s", instance="i", version="1") is None
    line = "OPEN_TELEMETRY=otlp did not start (RuntimeError); the app goes on without OpenTelemetry"
    assert [line] == caplog.messages


def test_nothing_of_opentelemetry_is_imported_while_it_is_off() -> None:
    code = (
        "import sys; from shared.adapters.otel_export import start_export; import shared.composition;"
        "assert start_export('off', service='', instance='', version='') is None;"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'azure.monitor'))])"
    )
    done = run_python("-c", code, settings=example_settings())
    assert (0, "[]\n") == (done.returncode, done.stdout), done.stderr
