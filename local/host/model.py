"""Values that describe an indexed function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

HTTP_TRIGGER = "httpTrigger"
TIMER_TRIGGER = "timerTrigger"
SERVICE_BUS_TRIGGER = "serviceBusTrigger"
ORCHESTRATION_TRIGGER = "orchestrationTrigger"
ACTIVITY_TRIGGER = "activityTrigger"
ENTITY_TRIGGER = "entityTrigger"

HTTP_OUTPUT = "http"
SERVICE_BUS_OUTPUT = "serviceBus"
DURABLE_CLIENT = "durableClient"


@dataclass(frozen=True, kw_only=True)
class ParamType:
    """Which converter serves a parameter, and the Python type its annotation asks for."""

    binding: str
    pytype: Any


@dataclass(frozen=True, kw_only=True)
class FunctionSpec:
    """One function as the worker would know it after indexing."""

    name: str
    function_id: str
    directory: str
    call: Callable[..., Any]
    is_async: bool
    requires_context: bool
    inputs: Mapping[str, ParamType]
    outputs: Mapping[str, ParamType]
    returns: ParamType | None
    trigger: Mapping[str, Any]
    bindings: tuple[Mapping[str, Any], ...]
    retry: Mapping[str, Any] | None = None

    @property
    def trigger_type(self) -> str:
        return str(self.trigger["type"])

    @property
    def trigger_name(self) -> str:
        return str(self.trigger["name"])

    def bindings_of(self, kind: str) -> tuple[Mapping[str, Any], ...]:
        return tuple(binding for binding in self.bindings if binding["type"] == kind)


@dataclass(frozen=True, kw_only=True)
class IndexedApp:
    """All functions of one app, and those that were refused with the reason."""

    functions: tuple[FunctionSpec, ...]
    directory: str
    script: str

    def by_trigger(self, kind: str) -> tuple[FunctionSpec, ...]:
        return tuple(function for function in self.functions if function.trigger_type == kind)
