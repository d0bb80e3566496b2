"""App settings: local.settings.json, `%NAME%` references, and connections by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.host.errors import ConfigurationError

SETTINGS_FILE = "local.settings.json"
EXAMPLE_FILE = "local.settings.example.json"
DEFAULT_SERVICE_BUS = "AzureWebJobsServiceBus"
_REFERENCE = re.compile(r"%([^%]*)%")


@dataclass(frozen=True, kw_only=True)
class SettingsFile:
    """What a settings file holds: environment variables, and Host options such as LocalHttpPort."""

    values: Mapping[str, str]
    host: Mapping[str, Any]
    source: Path | None


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A connection by name: a connection string, or a namespace reached with an identity."""

    name: str
    connection_string: str | None = field(default=None, repr=False)
    fully_qualified_namespace: str | None = None
    client_id: str | None = None


def read_settings(directory: Path, chosen: Path | None = None) -> SettingsFile:
    """The chosen file, else local.settings.json, else the example file, else nothing."""
    if chosen is not None:
        if not chosen.is_file():
            raise ConfigurationError(f"settings file {chosen} does not exist")
        return _parse_settings(chosen)
    for name in (SETTINGS_FILE, EXAMPLE_FILE):
        path = directory / name
        if path.is_file():
            return _parse_settings(path)
    return SettingsFile(values={}, host={}, source=None)


def _parse_settings(path: Path) -> SettingsFile:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"{path.name} is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path.name} must be a JSON object with a Values object inside")
    if content.get("IsEncrypted"):
        raise ConfigurationError(f"{path.name} is encrypted; run `func settings decrypt` first")
    values = _texts(path, "Values", content.get("Values", {}))
    for name, text in _texts(path, "ConnectionStrings", content.get("ConnectionStrings", {})).items():
        values[f"ConnectionStrings:{name}"] = text
    host = content.get("Host", {})
    if not isinstance(host, dict):
        raise ConfigurationError(f"{path.name}: Host must be an object")
    return SettingsFile(values=values, host=host, source=path)


def _texts(path: Path, section: str, values: Any) -> dict[str, str]:
    if not isinstance(values, dict):
        raise ConfigurationError(f"{path.name}: {section} must be an object")
    texts: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, bool):
            texts[name] = "true" if value else "false"
        elif isinstance(value, (str, int, float)):
            texts[name] = str(value)
        elif value is not None:
            raise ConfigurationError(f"{path.name}: {section}.{name} must be text, got {type(value).__name__}")
    return texts


def merge_environment(settings: SettingsFile, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment wins over the file, as with Core Tools."""
    return {**settings.values, **environment}


def resolve_references(text: str, settings: Mapping[str, str]) -> str:
    """Replace every %NAME% by the setting of that name; an unknown name or a lone % is an error."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in settings:
            raise ConfigurationError(f"'%{name}%' does not resolve: there is no app setting named {name!r}")
        return settings[name]

    if text.count("%") % 2:
        raise ConfigurationError(f"'%' in {text!r} is not closed; references are written %NAME%")
    return _REFERENCE.sub(replace, text)


def resolve_binding(binding: Mapping[str, Any], settings: Mapping[str, str]) -> dict[str, Any]:
    """A binding with its text values resolved; `connection` stays the name of a setting."""
    resolved: dict[str, Any] = {}
    for key, value in binding.items():
        resolves = isinstance(value, str) and key not in ("connection", "name", "type")
        resolved[key] = resolve_references(value, settings) if resolves else value
    return resolved


def find_connection(name: str | None, settings: Mapping[str, str]) -> Connection:
    """A Service Bus connection by setting name, in the real host's order of places."""
    name = name or DEFAULT_SERVICE_BUS
    for key in _candidates(name):
        if settings.get(key):
            return Connection(name=name, connection_string=settings[key])
    for key in _candidates(name):
        namespace = settings.get(f"{key}__fullyQualifiedNamespace")
        if namespace:
            return Connection(
                name=name, fully_qualified_namespace=namespace, client_id=settings.get(f"{key}__clientId") or None
            )
    raise ConfigurationError(
        f"connection {name!r} is not set: give {name} a connection string, "
        f"or set {name}__fullyQualifiedNamespace=<namespace>.servicebus.windows.net"
    )


def _candidates(name: str) -> tuple[str, ...]:
    prefixed = f"AzureWebJobs{name}"
    return (f"ConnectionStrings:{prefixed}", prefixed, f"ConnectionStrings:{name}", name)


def is_disabled(function_name: str, settings: Mapping[str, str]) -> bool:
    """AzureWebJobs.<function>.Disabled, with the double-underscore spelling Linux needs."""
    for key in (f"AzureWebJobs.{function_name}.Disabled", f"AzureWebJobs__{function_name}__Disabled"):
        if settings.get(key, "").strip().lower() in ("true", "1"):
            return True
    return False
