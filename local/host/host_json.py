"""host.json: read, checked, and turned into values with the real host's defaults."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from local.host.errors import ConfigurationError
from local.host.timespan import parse_timespan

ALLOWED_ROOTS = frozenset(
    {
        "$schema", "aggregator", "applicationInsights", "concurrency", "customHandler", "extensionBundle", "extensions",
        "functionTimeout", "functions", "healthMonitor", "http", "isDefaultHostConfig", "logging",
        "managedDependency", "retry", "sendGrid", "singleton", "telemetryMode", "version", "watchDirectories",
        "watchFiles",
    }
)  # fmt: skip
DEFAULT_FUNCTION_TIMEOUT = timedelta(minutes=30)
INFINITE_RENEWAL = timedelta(milliseconds=-1)
DEFAULT_HUB = "TestHubName"


@dataclass(frozen=True, kw_only=True)
class ServiceBusOptions:
    """extensions.serviceBus; app-wide, though each function has its own listener."""

    auto_complete: bool = True
    prefetch_count: int = 0
    max_concurrent_calls: int = 16
    max_concurrent_sessions: int = 8
    max_concurrent_calls_per_session: int = 1
    max_auto_lock_renewal: timedelta | None = timedelta(minutes=5)
    max_batch_size: int = 1000
    min_batch_size: int = 1
    max_batch_wait: timedelta = timedelta(seconds=30)
    session_idle_timeout: timedelta = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class DurableOptions:
    """extensions.durableTask, as far as a single machine needs it."""

    hub_name: str = DEFAULT_HUB
    max_concurrent_activities: int = 20
    max_concurrent_orchestrators: int = 20
    overridable_states: str = "NonRunningStates"


@dataclass(frozen=True, kw_only=True)
class HostConfig:
    """Everything of host.json that this host acts on."""

    route_prefix: str = "api"
    function_timeout: timedelta | None = DEFAULT_FUNCTION_TIMEOUT
    max_concurrent_requests: int | None = None
    max_outstanding_requests: int | None = None
    only_functions: tuple[str, ...] | None = None
    log_level: str = "Information"
    service_bus: ServiceBusOptions = field(default_factory=ServiceBusOptions)
    durable: DurableOptions = field(default_factory=DurableOptions)
    warnings: tuple[str, ...] = ()


class _Section:
    """One JSON object of host.json, read with errors that name the full key."""

    def __init__(self, values: Any, path: str) -> None:
        if not isinstance(values, dict):
            raise ConfigurationError(f"host.json: {path or 'the file'} must be an object, not {type(values).__name__}")
        self.values: Mapping[str, Any] = values
        self.path = path

    def _key(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def child(self, name: str) -> _Section:
        return _Section(self.values.get(name, {}), self._key(name))

    def integer(self, name: str, default: int, minimum: int = 0) -> int:
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise ConfigurationError(
                f"host.json: {self._key(name)} must be a whole number of at least {minimum}, got {value!r}"
            )
        return value

    def boolean(self, name: str, default: bool) -> bool:
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise ConfigurationError(f"host.json: {self._key(name)} must be true or false, got {value!r}")
        return value

    def text(self, name: str, default: str) -> str:
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise ConfigurationError(f"host.json: {self._key(name)} must be text, got {value!r}")
        return value

    def duration(self, name: str, default: timedelta) -> timedelta:
        value = self.values.get(name)
        if value is None:
            return default
        try:
            return parse_timespan(value)
        except (ValueError, TypeError, AttributeError):
            raise ConfigurationError(
                f"host.json: {self._key(name)} must be a TimeSpan such as 00:05:00, got {value!r}"
            ) from None


def read_host_json(path: Path) -> HostConfig:
    """Read host.json; the real host needs the file, so its absence is an error here too."""
    if not path.is_file():
        raise ConfigurationError(f"{path} does not exist; the smallest host.json is {{'version': '2.0'}}")
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"host.json is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    return parse_host_json(values)


def parse_host_json(values: Any) -> HostConfig:
    """Check host.json's content and apply the defaults of the real host."""
    root = _Section(values, "")
    if root.values.get("version") != "2.0":
        raise ConfigurationError(f'host.json: version must be "2.0", got {root.values.get("version")!r}')
    unknown = sorted(set(root.values) - ALLOWED_ROOTS)
    warnings = [f"host.json: {name!r} is not a known setting and is ignored" for name in unknown]
    extensions = root.child("extensions")
    http = extensions.child("http")
    if root.child("concurrency").values.get("dynamicConcurrencyEnabled"):
        warnings.append("host.json: dynamic concurrency is not supported locally; maxConcurrentCalls applies")
    functions = root.values.get("functions")
    if functions is not None and not (isinstance(functions, list) and all(isinstance(n, str) for n in functions)):
        raise ConfigurationError("host.json: functions must be a list of function names")
    return HostConfig(
        route_prefix=http.text("routePrefix", "api").strip("/"),
        function_timeout=_function_timeout(root),
        max_concurrent_requests=_unbounded(http.integer("maxConcurrentRequests", -1, -1)),
        max_outstanding_requests=_unbounded(http.integer("maxOutstandingRequests", -1, -1)),
        only_functions=None if functions is None else tuple(functions),
        log_level=_log_level(root),
        service_bus=_service_bus(extensions.child("serviceBus")),
        durable=_durable(extensions.child("durableTask")),
        warnings=tuple(warnings),
    )


def _unbounded(value: int) -> int | None:
    return None if value < 1 else value


def _log_level(root: _Section) -> str:
    levels = root.child("logging").child("logLevel")
    return levels.text("default", "Information")


def _function_timeout(root: _Section) -> timedelta | None:
    if root.values.get("functionTimeout") == "-1":
        return None
    timeout = root.duration("functionTimeout", DEFAULT_FUNCTION_TIMEOUT)
    if timeout < timedelta(seconds=1):
        raise ConfigurationError("host.json: functionTimeout must be at least 00:00:01, or -1 for no limit")
    return timeout


def _service_bus(section: _Section) -> ServiceBusOptions:
    renewal = section.duration("maxAutoLockRenewalDuration", timedelta(minutes=5))
    cores = os.cpu_count() or 1
    batch_wait = section.duration("maxBatchWaitTime", timedelta(seconds=30))
    if batch_wait > timedelta(minutes=2, seconds=30):
        raise ConfigurationError("host.json: extensions.serviceBus.maxBatchWaitTime may be at most 00:02:30")
    return ServiceBusOptions(
        auto_complete=section.boolean("autoCompleteMessages", True),
        prefetch_count=section.integer("prefetchCount", 0),
        max_concurrent_calls=section.integer("maxConcurrentCalls", 16 * cores, 1),
        max_concurrent_sessions=section.integer("maxConcurrentSessions", 8, 1),
        max_concurrent_calls_per_session=section.integer("maxConcurrentCallsPerSession", 1, 1),
        max_auto_lock_renewal=None if renewal == INFINITE_RENEWAL else max(renewal, timedelta(0)),
        max_batch_size=section.integer("maxMessageBatchSize", 1000, 1),
        min_batch_size=section.integer("minMessageBatchSize", 1, 1),
        max_batch_wait=batch_wait,
        session_idle_timeout=section.duration("sessionIdleTimeout", timedelta(minutes=1)),
    )


def _durable(section: _Section) -> DurableOptions:
    cores = os.cpu_count() or 1
    provider = section.child("storageProvider").text("type", "azureStorage")
    if provider.lower() not in ("azurestorage", "azure_storage"):
        raise ConfigurationError(
            f"host.json: extensions.durableTask.storageProvider.type {provider!r} is not supported locally; "
            "use AzureStorage"
        )
    hub = section.text("hubName", DEFAULT_HUB)
    if not (3 <= len(hub) <= 45 and hub.isalnum() and hub.isascii() and hub[0].isalpha()):
        raise ConfigurationError(
            f"host.json: extensions.durableTask.hubName {hub!r} must be 3 to 45 letters and digits, a letter first"
        )
    states = section.text("overridableExistingInstanceStates", "NonRunningStates")
    if states not in ("NonRunningStates", "AnyState"):
        raise ConfigurationError(
            "host.json: extensions.durableTask.overridableExistingInstanceStates must be NonRunningStates or AnyState"
        )
    return DurableOptions(
        hub_name=hub,
        max_concurrent_activities=section.integer("maxConcurrentActivityFunctions", 10 * cores, 1),
        max_concurrent_orchestrators=section.integer("maxConcurrentOrchestratorFunctions", 10 * cores, 1),
        overridable_states=states,
    )
