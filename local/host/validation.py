"""Index-time rules of the Python worker: what it refuses, we refuse, with a line that names the function.

The checks and their order follow Microsoft's own runtime (azure-functions-runtime, `functions.py`); a test
compares both on the same bad apps.
"""

from __future__ import annotations

import inspect
import json
import operator
import pathlib
import typing
import uuid
from collections.abc import Mapping
from typing import Any

from azure.functions._thirdparty import typing_inspect as untyped_inspect

from local.host.converters import converter_for, has_implicit_output
from local.host.errors import FunctionRefused
from local.host.model import ENTITY_TRIGGER, ORCHESTRATION_TRIGGER, FunctionSpec, ParamType

# The worker's own rules for generics, from the copy of typing_inspect that the library carries.
typing_inspect: Any = untyped_inspect

DIRECTION_OUT = 1
DIRECTION_INOUT = 2


def describe(function: Any) -> FunctionSpec:
    """Check one function object of the azure-functions library and describe it."""
    name = str(function.get_function_name())
    call = function.get_user_function()
    parameters = dict(inspect.signature(call).parameters)
    annotations = _annotations(name, call)
    bound = _bound_parameters(name, function)
    requires_context = _takes_context(name, parameters, bound, annotations)
    _check_names(name, parameters, bound, annotations)
    inputs: dict[str, ParamType] = {}
    outputs: dict[str, ParamType] = {}
    for parameter in parameters:
        binding = bound[parameter]
        described = _check_parameter(name, parameter, binding, annotations)
        (outputs if binding.direction == DIRECTION_OUT else inputs)[parameter] = described
    raw = tuple(json.loads(text) for text in function.get_raw_bindings())
    trigger_name = function.get_trigger().name
    return FunctionSpec(
        name=name,
        function_id=str(uuid.uuid5(namespace=uuid.NAMESPACE_OID, name=name)),
        directory=str(pathlib.Path(inspect.getfile(call)).parent),
        call=call,
        is_async=inspect.iscoroutinefunction(call),
        requires_context=requires_context,
        inputs=inputs,
        outputs=outputs,
        returns=_return_type(name, function, annotations),
        trigger=next(binding for binding in raw if binding["name"] == trigger_name),
        bindings=raw,
        retry=function.get_settings_dict("retry_policy") or None,
    )


def _annotations(name: str, call: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(call)
    except Exception as error:
        raise FunctionRefused(name, f"its annotations cannot be resolved: {error}") from error


def _bound_parameters(name: str, function: Any) -> dict[str, Any]:
    bound: dict[str, Any] = {}
    for binding in function.get_bindings():
        if binding.direction == DIRECTION_INOUT:
            raise FunctionRefused(name, '"inout" bindings are not supported')
        if binding.name == "$return":
            if binding.direction != DIRECTION_OUT:
                raise FunctionRefused(name, '"$return" binding must have direction set to "out"')
            continue
        if binding.type in (ORCHESTRATION_TRIGGER, ENTITY_TRIGGER) and binding.name != "context":
            # The library hands the worker a wrapper whose only parameter is called `context`.
            raise FunctionRefused(name, f'context_name="{binding.name}" is refused; use context_name="context"')
        bound[binding.name] = binding
    return bound


def _takes_context(name: str, parameters: dict[str, Any], bound: Mapping[str, Any], hints: Mapping[str, Any]) -> bool:
    if "context" not in parameters or "context" in bound:
        return False
    del parameters["context"]
    if "context" in hints:
        hint = hints["context"]
        if not isinstance(hint, type) or hint.__name__ != "Context":
            raise FunctionRefused(
                name, f'the "context" parameter is expected to be of type azure.functions.Context, got {hint!r}'
            )
    return True


def _check_names(name: str, parameters: Mapping[str, Any], bound: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    unbound = sorted(set(parameters) - set(bound))
    if unbound:
        reason = f"parameters without a binding: {', '.join(unbound)}"
        if any("ServiceBusMessageActions" in repr(hints.get(parameter)) for parameter in unbound):
            reason += " (settling messages from the function needs the preview bindings, which this host does not run)"
        raise FunctionRefused(name, reason)
    missing = sorted(set(bound) - set(parameters))
    if missing:
        raise FunctionRefused(name, f"bindings without a parameter of that name: {', '.join(missing)}")


def _check_parameter(name: str, parameter: str, binding: Any, hints: Mapping[str, Any]) -> ParamType:
    annotated = parameter in hints
    hint = hints.get(parameter)
    is_out_param = annotated and _is_out(hint)
    pytype = _out_argument(name, parameter, hint) if is_out_param else hint
    if annotated and not isinstance(pytype, type) and not typing_inspect.is_generic_type(pytype):
        raise FunctionRefused(name, f"binding {parameter} has invalid non-type annotation {hint!r}")
    is_out_binding = binding.direction == DIRECTION_OUT
    if is_out_binding and annotated and not is_out_param:
        raise FunctionRefused(name, f'binding {parameter} has direction "out", so annotate it azure.functions.Out[...]')
    if not is_out_binding and is_out_param:
        raise FunctionRefused(name, f'binding {parameter} has direction "in" but is annotated azure.functions.Out')
    generic = annotated and pytype in (str, bytes) and not has_implicit_output(binding.type)
    kind = "generic" if generic else str(binding.type)
    if annotated and not _accepts(name, parameter, kind, pytype, is_out_param):
        shown = getattr(pytype, "__name__", repr(pytype))
        raise FunctionRefused(
            name, f'type of {parameter} binding "{binding.type}" does not match its Python annotation "{shown}"'
        )
    return ParamType(binding=kind, pytype=pytype)


def _is_out(hint: Any) -> bool:
    candidate = typing_inspect.get_origin(hint) if typing_inspect.is_generic_type(hint) else hint
    candidate = hint if candidate is None else candidate
    return isinstance(candidate, type) and candidate.__name__ == "Out"


def _out_argument(name: str, parameter: str, hint: Any) -> Any:
    arguments = typing_inspect.get_args(hint)
    if len(arguments) != 1:
        raise FunctionRefused(name, f"binding {parameter} has invalid Out annotation {hint!r}")
    argument = arguments[0]
    if isinstance(argument, tuple) and typing_inspect.is_generic_type(argument[0]):
        argument = operator.getitem(argument[0], *argument[1:])
    return argument


def _accepts(name: str, parameter: str, kind: str, pytype: Any, is_out: bool) -> bool:
    converter = converter_for(kind)
    check = converter.check_output_type_annotation if is_out else converter.check_input_type_annotation
    try:
        return bool(check(pytype))
    except TypeError as error:
        raise FunctionRefused(name, f"binding {parameter} has an annotation that is not a class: {pytype!r}") from error


def _return_type(name: str, function: Any, hints: Mapping[str, Any]) -> ParamType | None:
    kind: str | None = None
    explicit = False
    for binding in function.get_bindings():
        if binding.name == "$return":
            kind, explicit = str(binding.type), True
            break
        if has_implicit_output(binding.type):
            kind = str(binding.type)
    if kind is None:
        return None
    pytype = hints.get("return")
    if explicit and "return" in hints:
        if not isinstance(pytype, type):
            raise FunctionRefused(name, f"has invalid non-type return annotation {pytype!r}")
        if not converter_for(kind).check_output_type_annotation(pytype):
            raise FunctionRefused(name, f'return annotation "{pytype.__name__}" does not match binding type "{kind}"')
    return ParamType(binding=kind, pytype=pytype)
