"""Which functions of an app run here: known, enabled, and with every reference resolved."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from local.host.errors import ConfigurationError, FunctionRefused
from local.host.model import (
    ACTIVITY_TRIGGER,
    DURABLE_CLIENT,
    HTTP_TRIGGER,
    ORCHESTRATION_TRIGGER,
    SERVICE_BUS_TRIGGER,
    TIMER_TRIGGER,
    FunctionSpec,
    IndexedApp,
)
from local.host.settings_files import is_disabled, resolve_binding

log = logging.getLogger("local.host")

KNOWN_TRIGGERS = frozenset(
    {HTTP_TRIGGER, TIMER_TRIGGER, SERVICE_BUS_TRIGGER, ORCHESTRATION_TRIGGER, ACTIVITY_TRIGGER}
)


def select_functions(
    app: IndexedApp,
    *,
    only: tuple[str, ...] | None,
    settings: Mapping[str, str],
    refuse: Callable[[FunctionRefused], None],
) -> list[FunctionSpec]:
    """The functions to run; what is wrong with the others is reported."""
    selected: list[FunctionSpec] = []
    for spec in app.functions:
        if only is not None and spec.name not in only:
            continue
        if is_disabled(spec.name, settings):
            log.info("function '%s' is disabled", spec.name)
            continue
        if spec.trigger_type not in KNOWN_TRIGGERS:
            refuse(FunctionRefused(spec.name, f"trigger '{spec.trigger_type}' is not supported locally"))
            continue
        try:
            selected.append(_resolved(spec, settings))
        except ConfigurationError as error:
            refuse(FunctionRefused(spec.name, str(error)))
    for spec in selected:
        _warn_about(spec)
    return selected


def listened_for(functions: list[FunctionSpec], names: frozenset[str] | None) -> list[FunctionSpec]:
    """Those of one instance; the platform keeps all durable functions together, so one of them brings the others."""
    if names is None:
        return functions
    unknown = names - {spec.name for spec in functions}
    if unknown:
        raise ConfigurationError(f"--listen-for names functions that the app has not: {', '.join(sorted(unknown))}")
    durable = {spec.name for spec in functions if spec.trigger_type in (ORCHESTRATION_TRIGGER, ACTIVITY_TRIGGER)}
    chosen = names | durable if names & durable else names
    return [spec for spec in functions if spec.name in chosen]


def _resolved(spec: FunctionSpec, settings: Mapping[str, str]) -> FunctionSpec:
    bindings = tuple(resolve_binding(binding, settings) for binding in spec.bindings)
    trigger = next(binding for binding in bindings if binding["name"] == spec.trigger_name)
    return replace(spec, bindings=bindings, trigger=trigger)


def _warn_about(spec: FunctionSpec) -> None:
    """What the worker accepts when it indexes and what fails at every call."""
    if spec.bindings_of(DURABLE_CLIENT):
        inner = getattr(spec.call, "client_function", spec.call)
        if not inspect.iscoroutinefunction(inner):
            log.warning("function '%s' takes a durable client but is not `async def`: every call will fail", spec.name)
