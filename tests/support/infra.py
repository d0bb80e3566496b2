"""What can be said about the deployment without Azure: checks over text, so that tests can plant a mistake in each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from shared.settings import options
from tests.support.app_process import ROOT
from tests.support.azure_types import problems
from tests.support.bicep import BicepFile, Expression, Value, outputs_asked_of_modules, parse, unresolved, walk

INFRA = ROOT / "infra"
#: Microsoft's built-in roles, by name.
ROLES = {
    "senderRole": "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39",
    "ownerRole": "090c5cfd-751d-490a-894a-3ce6f1109419",
    "blobRole": "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
    "queueRole": "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
    "tableRole": "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3",
    "publisherRole": "3913510d-42f4-4e42-8a64-420c390055eb",
}
#: From the schema of azure.yaml, version 1.0.
AZURE_YAML_KEYS = {"name", "resourceGroup", "metadata", "infra", "services", "pipeline", "hooks", "requiredVersions"}
SERVICE_KEYS = {"project", "language", "host", "resourceName", "resourceGroup", "module", "remoteBuild", "hooks"}
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SECRETS = re.compile(r"listKeys|SharedAccessKey|AccountKey|@secure|listConnectionStrings", re.IGNORECASE)


def infra_texts() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(INFRA.glob("*.bicep"))}


def files_of(texts: Mapping[str, str]) -> dict[str, BicepFile]:
    """Or BicepError."""
    return {name: parse(Path(name), text) for name, text in texts.items()}


def property_problems(files: Mapping[str, BicepFile]) -> list[str]:
    found = []
    for name, file in files.items():
        for one in file.of("resource"):
            value = one.value[0] if isinstance(one.value, list) else one.value
            kind, _, version = one.target.partition("@")
            found += [] if re.fullmatch(r"\d{4}-\d{2}-\d{2}", version) else [f"{name}: {one.name} has no API version"]
            assert isinstance(value, dict), f"{name}: {one.name} is not an object"
            found += [f"{name}: {one.name}: {text}" for text in problems(kind, value)]
    return found


def symbol_problems(files: Mapping[str, BicepFile]) -> list[str]:
    """Names that nothing declares, what nobody uses, and modules that are given or asked for something else."""
    found = [f"{name}: {text} is not declared" for name, file in files.items() for text in unresolved(file)]
    for name, file in files.items():
        used = {(node.text or b"").decode() for node in walk(file.root) if node.type == "identifier"}
        counts = {one: _count(file, one) for one in used}
        declared = [one.name for one in file.declarations if one.kind in ("parameter", "variable")]
        found += [f"{name}: {one} is not used" for one in declared if counts.get(one, 0) < 2]
        for module in file.of("module"):
            found += _module_problems(name, module.name, module.target, module.value, files)
        targets = {module.name: module.target for module in file.of("module")}
        for module_name, output in outputs_asked_of_modules(file):
            target = files.get(targets[module_name])
            if target is None or output not in {one.name for one in target.of("output")}:
                found.append(f"{name}: {module_name} has no output {output}")
    return found


def _count(file: BicepFile, name: str) -> int:
    return sum(1 for node in walk(file.root) if node.type == "identifier" and (node.text or b"").decode() == name)


def _module_problems(
    name: str, module: str, target: str, value: Value, files: Mapping[str, BicepFile]
) -> list[str]:
    if target not in files:
        return [f"{name}: {module}: there is no {target}"]
    assert isinstance(value, dict)
    given = value.get("params")
    assert isinstance(given, dict)
    known = {one.name: one.value is None for one in files[target].of("parameter")}
    unknown = [f"{name}: {module}: {target} has no param {one}" for one in given if one not in known]
    missing = [one for one, needed in known.items() if needed and one not in given]
    return unknown + [f"{name}: {module}: {target} needs param {one}" for one in missing]


def role_problems(files: Mapping[str, BicepFile]) -> list[str]:
    """Every GUID is a role we mean, under its name, and every role is assigned."""
    found = []
    for name, file in files.items():
        for one in file.of("variable"):
            if one.name in ROLES and one.value != ROLES[one.name]:
                found.append(f"{name}: {one.name} is not {ROLES[one.name]}")
        text = (file.root.text or b"").decode()
        found += [f"{name}: {guid} is no role of ours" for guid in _GUID.findall(text) if guid not in ROLES.values()]
    held = {one.name for file in files.values() for one in file.of("variable")}
    return found + [f"{role} is assigned nowhere" for role in ROLES if role not in held]


def secret_problems(texts: Mapping[str, str]) -> list[str]:
    return [f"{name}: {found}" for name, text in texts.items() for found in _SECRETS.findall(text)]


def deployed_settings(file: BicepFile) -> dict[str, Value]:
    settings = file.named("settings").value
    assert isinstance(settings, dict)
    return settings


def settings_problems(file: BicepFile) -> list[str]:
    """Options without a value in the deployment, and values for options that are gone."""
    given = deployed_settings(file)
    wanted = {one.setting for one in options().values()}
    advice = "has no value: add it to `var settings` in infra/app.bicep"
    missing = [f"{one} {advice}" for one in sorted(wanted - set(given))]
    ours = {name for name in given if name.isupper() and not name.startswith(("APPLICATIONINSIGHTS_", "OTEL_"))}
    return missing + [f"{one} is no option of shared/settings.py" for one in sorted(ours - wanted)]


def rendered_settings(file: BicepFile, samples: Mapping[str, str]) -> dict[str, str]:
    """What the app would find in its environment; expressions take the values given for them."""
    return {
        name: samples[value.text] if isinstance(value, Expression) else str(value)
        for name, value in deployed_settings(file).items()
    }


def log_alerts(file: BicepFile) -> dict[str, str]:
    alerts = file.named("logAlerts").value
    assert isinstance(alerts, list)
    return {str(one["name"]): str(one["query"]) for one in alerts if isinstance(one, dict)}


_CONDITION = re.compile(r'Message (startswith|contains|!contains) "((?:[^"\\]|\\.)*)"')


def finds(query: str, message: str) -> bool:
    """Whether a query of this simple form, `AppTraces | where Message ... and Message ...`, finds a message."""
    table, _, condition = query.partition(" | where ")
    assert table == "AppTraces", query
    for part in condition.split(" and "):
        read = _CONDITION.fullmatch(part)
        assert read is not None, f"not a condition this check understands: {part}"
        # Kusto's operators do not mind the case.
        operator, wanted, text = read[1], read[2].replace('\\"', '"').lower(), message.lower()
        holds = text.startswith(wanted) if operator == "startswith" else wanted in text
        if holds is (operator == "!contains"):
            return False
    return True


def parameters_problems(file: BicepFile, parameters: Mapping[str, Any]) -> list[str]:
    known = {one.name: one.value is None for one in file.of("parameter")}
    given = parameters["parameters"]
    found = [f"main.bicep has no param {name}" for name in given if name not in known]
    return found + [f"{name} has no value" for name, needed in known.items() if needed and name not in given]


def azure_yaml_problems(text: str, outputs: set[str]) -> list[str]:
    content = yaml.safe_load(text)
    found = [f"{key} is not known" for key in content if key not in AZURE_YAML_KEYS]
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", str(content.get("name"))):
        found.append("name is not lower-case letters, digits and hyphens")
    infra = content.get("infra", {})
    if not (ROOT / infra.get("path", "infra") / f"{infra.get('module', 'main')}.bicep").is_file():
        found.append("infra names a file that is not there")
    for name, service in content.get("services", {}).items():
        found += [f"{name}: {key} is not known" for key in service if key not in SERVICE_KEYS]
        if (service.get("host"), service.get("language")) != ("function", "python"):
            found.append(f"{name}: not a Python function app")
        if not (ROOT / service.get("project", "") / "host.json").is_file():
            found.append(f"{name}: its project has no host.json")
        for variable in re.findall(r"\$\{(\w+)", service.get("resourceName", "")):
            found += [] if variable in outputs else [f"{name}: main.bicep has no output {variable}"]
    return found if content.get("services") else [*found, "there are no services"]


def read_parameters() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((INFRA / "main.parameters.json").read_text(encoding="utf-8"))
    return content
