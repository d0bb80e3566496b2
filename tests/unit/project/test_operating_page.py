"""docs/operating.md says what is: its tables are compared with the files they speak of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support import infra
from tests.support.app_process import ROOT

PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
ROLE_NAMES = {
    "senderRole": "Azure Service Bus Data Sender",
    "ownerRole": "Azure Service Bus Data Owner",
    "blobRole": "Storage Blob Data Owner",
    "queueRole": "Storage Queue Data Contributor",
    "tableRole": "Storage Table Data Contributor",
    "publisherRole": "Monitoring Metrics Publisher",
}


def section(title: str, page: str = PAGE) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from leaves(one, f"{path}.{name}".lstrip("."))
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)


def host_json_differences(page: str) -> set[tuple[str, str]]:
    told = {(row[0].strip("`"), row[1].strip("`")) for row in rows(section("host.json", page))[1:]}
    config = json.loads((ROOT / "host.json").read_text(encoding="utf-8"))
    assert "2.0" == config.pop("version"), "the schema of the file, and no choice"
    return told ^ set(leaves(config))


def test_every_number_of_host_json_is_given_with_its_reason() -> None:
    assert set() == host_json_differences(PAGE)
    assert all(len(row[2]) > 15 for row in rows(section("host.json"))[1:])


def test_a_number_that_differs_or_has_no_reason_is_found() -> None:
    row = "| `extensions.serviceBus.maxConcurrentCalls` | `1` |"
    assert row in PAGE
    assert host_json_differences(PAGE.replace(row, row.replace("1", "16")))
    assert host_json_differences("\n".join(line for line in PAGE.splitlines() if not line.startswith(row)) + "\n")


def test_every_alert_is_explained() -> None:
    file = infra.files_of(infra.infra_texts())["alerts.bicep"]
    metric: Any = file.named("metricAlerts").value
    expected = {*infra.log_alerts(file), *(one["name"] for one in metric)}
    assert expected == {row[0].strip("`") for row in rows(section("Alerts"))[1:]}


def test_every_choice_of_a_deployment_is_listed_with_its_default() -> None:
    given = {}
    for value in infra.read_parameters()["parameters"].values():
        (name, default) = re.fullmatch(r"\$\{(\w+)(?:=(.*))?\}", value["value"]).groups()  # type: ignore[union-attr]
        given[name] = default
    del given["AZURE_ENV_NAME"], given["AZURE_LOCATION"]  # azd asks for both
    listed = [row for row in rows(section("Deploying")) if row[0].startswith("`")]
    names = {name: row[1].strip("`") for row in listed for name in re.findall(r"`(\w+)`", row[0])}
    assert given.keys() == names.keys()
    plain = {name: names[name] for name, default in given.items() if default and names[name][0] != "a"}
    assert plain == {name: given[name] for name in plain}


def test_every_role_is_listed_and_no_other() -> None:
    assert infra.ROLES.keys() == ROLE_NAMES.keys()
    assert set(ROLE_NAMES.values()) == {row[1] for row in rows(section("Security"))[1:]}


def test_every_metric_is_listed() -> None:
    source = (ROOT / "shared" / "adapters" / "otel_telemetry.py").read_text(encoding="utf-8")
    made = set(re.findall(r'create_\w+\(\s*"(pair\.[a-z_.]+)"', source))
    table = [row for row in rows(section("OpenTelemetry")) if "pair." in row[0]]
    assert made == {name for row in table for name in re.findall(r"`([\w.]+)`", row[0])}


def test_references_within_the_page_lead_somewhere() -> None:
    titles = re.findall(r"^##+ (.+)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set() == set(re.findall(r"\]\(#([^)]+)\)", PAGE)) - anchors
