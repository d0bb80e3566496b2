"""The deployment as far as it can be checked without Azure. Every check is shown to fail on a planted mistake.

This is no compilation: no Bicep compiler is needed to run these tests, and none has seen these files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.adapters.log_telemetry import text_of
from shared.domain.pair import EntityPath
from shared.settings import Settings
from shared.telemetry_events import (
    AvailabilityChanged,
    CredentialsRefused,
    EventsDropped,
    FactoryChanged,
    SetAside,
    TelemetryEvent,
)
from tests.support import infra
from tests.support.app_process import ROOT
from tests.support.bicep import BicepError

SAMPLES = {
    "blobAddress": "https://st1.blob.core.windows.net",
    "queueAddress": "https://st1.queue.core.windows.net",
    "tableAddress": "https://st1.table.core.windows.net",
    "clientId": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "primaryHost": "sb-primary-1.servicebus.windows.net",
    "secondaryHost": "sb-secondary-1.servicebus.windows.net",
    "insightsConnectionString": "InstrumentationKey=x",
    "'ClientId=${clientId};Authorization=AAD'": "ClientId=x;Authorization=AAD",
    "taskHub": "Hub",
    "telemetryContainer": "telemetry",
    "openTelemetry": "azure-monitor",
    "options.BACKLOG_QUEUE_COUNT": "10",
    "options.FAILOVER_INTERVAL": "PT1M",
    "options.PING_PRIMARY_INTERVAL": "PT1M",
    "options.DIVERT_WHILE_SUSPECT": "false",
}
SYPHON = "enableSyphon ? 'true' : 'false'"


def checked(texts: dict[str, str], check: Callable[..., list[str]]) -> list[str]:
    return check(infra.files_of(texts))


def planted(name: str, right: str, wrong: str) -> dict[str, str]:
    texts = infra.infra_texts()
    assert right in texts[name], "the mistake is planted where nothing is"
    return {**texts, name: texts[name].replace(right, wrong, 1)}


def test_every_file_parses() -> None:
    assert 7 == len(infra.files_of(infra.infra_texts()))


def test_a_missing_brace_is_found() -> None:
    with pytest.raises(BicepError, match=r"app.bicep:\d+"):
        infra.files_of(planted("app.bicep", "reserved: true\n  }", "reserved: true\n"))


def test_every_property_is_one_that_the_resource_has() -> None:
    assert [] == checked(infra.infra_texts(), infra.property_problems)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("app.bicep", "maximumInstanceCount", "maxInstanceCount"),
        ("app.bicep", "name: 'python'", "name: 'pyton'"),
        ("app.bicep", "sites@2024-04-01", "sites"),
        ("app.bicep", "Microsoft.Web/serverfarms", "Microsoft.Web/serverFarm"),
        ("namespace.bicep", "disableLocalAuth", "disableLocalAuht"),
        ("namespace.bicep", "roleDefinitionId:", "roleDefinition:"),
        ("storage.bicep", "allowSharedKeyAccess", "allowSharedKeysAccess"),
        ("storage.bicep", "'TLS1_2'", "'1.2'"),
        ("monitoring.bicep", "retentionInDays", "retentionDays"),
        ("monitoring.bicep", "DisableLocalAuth", "disableLocalAuthentication"),
        ("alerts.bicep", "evaluationFrequency", "frequency"),
        ("alerts.bicep", "metricName:", "metric:"),
        ("alerts.bicep", "emailAddress", "email"),
    ],
)
def test_a_misspelt_property_or_value_is_found(name: str, right: str, wrong: str) -> None:
    assert checked(planted(name, right, wrong), infra.property_problems)


def test_every_name_leads_somewhere_and_every_module_gets_what_it_needs() -> None:
    assert [] == checked(infra.infra_texts(), infra.symbol_problems)


@pytest.mark.parametrize(
    ("name", "right", "wrong", "said"),
    [
        ("app.bicep", "serverFarmId: plan.id", "serverFarmId: plane.id", "plane is not declared"),
        ("app.bicep", "appSettings: [for setting in items(settings)", "appSettings: [for setting in items(x)", "x is"),
        ("pair.bicep", "primary.outputs.host", "primary.outputs.address", "no output address"),
        ("pair.bicep", "    tier: serviceBusTier\n", "", "needs param tier"),
        ("pair.bicep", "tier: serviceBusTier", "sku: serviceBusTier", "no param sku"),
        ("pair.bicep", "'storage.bicep'", "'storages.bicep'", "no storages.bicep"),
        ("namespace.bicep", "param tags object", "param tags object\nparam left string", "left is not used"),
    ],
)
def test_a_name_that_leads_nowhere_is_found(name: str, right: str, wrong: str, said: str) -> None:
    assert any(said in text for text in checked(planted(name, right, wrong), infra.symbol_problems))


def test_roles_are_the_ones_meant() -> None:
    assert [] == checked(infra.infra_texts(), infra.role_problems)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("69a216fc-b8fb-44d8-bc22-1f3c2cd27a39", "090c5cfd-751d-490a-894a-3ce6f1109419"),
        ("69a216fc-b8fb-44d8-bc22-1f3c2cd27a39", "69a216fc-b8fb-44d8-bc22-1f3c2cd27a38"),
        ("var senderRole", "var roleOfSenders"),
    ],
)
def test_a_wrong_role_is_found(right: str, wrong: str) -> None:
    assert checked(planted("namespace.bicep", right, wrong), infra.role_problems)


def test_there_is_no_secret() -> None:
    assert [] == infra.secret_problems(infra.infra_texts())
    assert infra.secret_problems(planted("storage.bicep", "account.name", "account.listKeys().keys[0].value"))


def test_every_option_has_a_value_in_the_deployment() -> None:
    assert [] == infra.settings_problems(infra.files_of(infra.infra_texts())["app.bicep"])


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("  STATE_REFRESH: 'PT2S'\n", "", "STATE_REFRESH has no value: add"),
        ("STATE_REFRESH:", "STATE_REFERSH:", "STATE_REFERSH is no option"),
    ],
)
def test_an_option_that_is_missing_or_unknown_is_named(right: str, wrong: str, said: str) -> None:
    found = infra.settings_problems(infra.files_of(planted("app.bicep", right, wrong))["app.bicep"])
    assert any(text.startswith(said) for text in found)


@pytest.mark.parametrize("syphon", ["true", "false"])
def test_the_deployed_settings_are_usable_and_hold_no_connection_string(syphon: str) -> None:
    file = infra.files_of(infra.infra_texts())["app.bicep"]
    settings = Settings.from_env(infra.rendered_settings(file, {**SAMPLES, SYPHON: syphon}))
    assert (syphon == "true") == settings.enable_syphon
    connections = (settings.primary, settings.secondary, settings.state_storage)
    assert [None] * 3 == [one.connection_string for one in connections]
    assert {SAMPLES["clientId"]} == {one.client_id for one in connections}
    assert ("sb-primary-1", "sb-secondary-1") == (settings.primary.name, settings.secondary.name)
    defaults = {name: getattr(Settings, name) for name in vars(settings) if hasattr(Settings, name)}
    assert "telemetry" == settings.telemetry_container
    assert "azure-monitor" == settings.open_telemetry
    for name in ("enable_syphon", "telemetry_container", "open_telemetry"):
        del defaults[name]
    assert defaults == {name: getattr(settings, name) for name in defaults}, "the deployment keeps the defaults"


AT = datetime(2026, 11, 18, tzinfo=UTC)
ORDERS, QUEUE = EntityPath("orders"), EntityPath("p/x-servicebus-transfer/0")
QUIET: list[TelemetryEvent] = [
    AvailabilityChanged(at=AT, path=ORDERS, before="unavailable", after="available", reason=""),
    AvailabilityChanged(at=AT, path=ORDERS, before="available", after="suspect", reason="timeout"),
    FactoryChanged(at=AT, side="primary", before="closed", after="open", reason="", by="ann"),
    SetAside(at=AT, path=ORDERS, backlog_queue=QUEUE, messages=3),
]
#: Who is to be told of what; dead letters and the age of the backlog are metrics of the namespace.
LOUD: dict[str, TelemetryEvent] = {
    "entity-unavailable": AvailabilityChanged(at=AT, path=ORDERS, before="suspect", after="unavailable", reason="t"),
    "pair-down": FactoryChanged(at=AT, side="primary", before="open", after="faulted", reason="gone", by="ann"),
    "credentials-refused": CredentialsRefused(at=AT, side="primary", path=ORDERS, detail="no"),
    "events-dropped": EventsDropped(at=AT, events=3),
}


def test_every_alert_on_the_log_finds_its_event_and_no_other() -> None:
    queries = infra.log_alerts(infra.files_of(infra.infra_texts())["alerts.bicep"])
    assert LOUD.keys() == queries.keys()
    for name, query in queries.items():
        found = [other for other, event in LOUD.items() if infra.finds(query, text_of(event))]
        assert [name] == found, query
        assert [] == [event for event in QUIET if infra.finds(query, text_of(event))]


def test_an_alert_that_would_find_nothing_is_seen() -> None:
    for right, wrong in (('"availability.changed "', '"availability.change "'), (r'"unavailable\\"', r'"down\\"')):
        wrong_file = infra.files_of(planted("alerts.bicep", right, wrong))["alerts.bicep"]
        query = infra.log_alerts(wrong_file)["entity-unavailable"]
        assert not infra.finds(query, text_of(LOUD["entity-unavailable"]))


def test_alerts_on_metrics_watch_what_waits_and_what_is_dead() -> None:
    alerts: Any = infra.files_of(infra.infra_texts())["alerts.bicep"].named("metricAlerts").value
    watched = {one["name"]: (one["metric"], one["aggregation"]) for one in alerts}
    assert ("ActiveMessages", "Minimum") == watched["backlog-old"]
    assert ("DeadletteredMessages", "Maximum") == watched["backlog-dead-letters"]


def test_alerts_are_not_lost_to_sampling() -> None:
    """The host may drop log lines of which it sees many; alerts need every one of them."""
    sampling = json.loads((ROOT / "host.json").read_text())["logging"]["applicationInsights"]["samplingSettings"]
    assert "Trace" in sampling["excludedTypes"].split(";")


def test_parameters_fit_the_template() -> None:
    main = infra.files_of(infra.infra_texts())["main.bicep"]
    assert [] == infra.parameters_problems(main, infra.read_parameters())
    wrong = {"parameters": {"environment": {"value": "x"}}}
    said = infra.parameters_problems(main, wrong)
    assert {"main.bicep has no param environment", "secondaryLocation has no value"} <= set(said)


def test_azure_yaml_is_valid() -> None:
    outputs = {one.name for one in infra.files_of(infra.infra_texts())["main.bicep"].of("output")}
    text = (ROOT / "azure.yaml").read_text(encoding="utf-8")
    assert [] == infra.azure_yaml_problems(text, outputs)
    for right, wrong in (
        ("services:", "servises:"),
        ("host: function", "host: functions"),
        ("project: .", "project: ./src"),
        ("SYPHON_APP_NAME", "SYPHON_NAME"),
        ("name: paired-namespaces", "name: Paired_Namespaces"),
        ("module: main", "module: mian"),
        ("language: python", "langauge: python"),
    ):
        assert right in text
        assert infra.azure_yaml_problems(text.replace(right, wrong, 1), outputs), wrong
