"""Which properties a resource has, read from the types in Microsoft's own management packages.

Three generations of them describe the same thing: typed dictionaries, models with rest fields, and models with an
attribute map. That is not compilation: a property of another API version than the package's may be missing or too much.
"""

from __future__ import annotations

import builtins
import enum
import importlib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import typing_extensions

from tests.support.bicep import Value

#: Resource type: where its type is.
RESOURCES = {
    "Microsoft.Resources/resourceGroups": ("azure.mgmt.resource.resources.models", "ResourceGroup"),
    "Microsoft.ManagedIdentity/userAssignedIdentities": ("azure.mgmt.msi.v2024_11_30.models", "Identity"),
    "Microsoft.Authorization/roleAssignments": (
        "azure.mgmt.authorization.v2022_04_01.models",
        "RoleAssignmentCreateParameters",
    ),
    "Microsoft.ServiceBus/namespaces": ("azure.mgmt.servicebus.types", "SBNamespace"),
    "Microsoft.ServiceBus/namespaces/queues": ("azure.mgmt.servicebus.types", "SBQueue"),
    "Microsoft.Storage/storageAccounts": ("azure.mgmt.storage.types", "StorageAccountCreateParameters"),
    "Microsoft.Storage/storageAccounts/blobServices": ("azure.mgmt.storage.types", "BlobServiceProperties"),
    "Microsoft.Storage/storageAccounts/blobServices/containers": ("azure.mgmt.storage.types", "BlobContainer"),
    "Microsoft.OperationalInsights/workspaces": ("azure.mgmt.loganalytics.models", "Workspace"),
    "Microsoft.Insights/components": (
        "azure.mgmt.applicationinsights.v2020_02_02.models",
        "ApplicationInsightsComponent",
    ),
    "Microsoft.Insights/actionGroups": ("azure.mgmt.monitor.models", "ActionGroupResource"),
    "Microsoft.Insights/scheduledQueryRules": ("azure.mgmt.monitor.models", "ScheduledQueryRuleResource"),
    "Microsoft.Insights/metricAlerts": ("azure.mgmt.monitor.models", "MetricAlertResource"),
    "Microsoft.Web/serverfarms": ("azure.mgmt.web.types", "AppServicePlan"),
    "Microsoft.Web/sites": ("azure.mgmt.web.types", "Site"),
}
#: What Bicep itself adds to every resource.
BICEP_OWN = {"name", "location", "tags", "parent", "scope", "dependsOn"}


@dataclass(frozen=True)
class Shape:
    """What may stand in one place: properties, one of some words, a list of something, or (all None) anything."""

    fields: Mapping[str, Any] | None = None
    words: frozenset[str] | None = None
    item: Any = None


ANYTHING = Shape()


class Names(dict[str, Any]):
    """The names a type may use; those imported for type checkers only are found among the models."""

    def __init__(self, module: types.ModuleType) -> None:
        models = importlib.import_module(module.__name__.removesuffix(".types").removesuffix(".models") + ".models")
        super().__init__({**vars(builtins), **vars(models), **vars(module), "_models": models})

    def __missing__(self, name: str) -> Any:
        return Any


def problems(resource_type: str, value: Mapping[str, Value]) -> list[str]:
    """What is wrong with a resource's properties, by path."""
    if resource_type not in RESOURCES:
        return [f"{resource_type} is not in the table of resource types"]
    module_name, type_name = RESOURCES[resource_type]
    module = importlib.import_module(module_name)
    given = {name: one for name, one in value.items() if name not in BICEP_OWN}
    return list(_compare(given, _shape(getattr(module, type_name), Names(module)), Names(module), ""))


def _compare(value: Value, shape: Shape, names: Names, path: str) -> Iterator[str]:
    if isinstance(value, dict) and shape.fields is not None:
        for name, one in value.items():
            if name not in shape.fields:
                yield f"{path}{name} is not known; known are {', '.join(sorted(shape.fields))[:400]}"
            else:
                yield from _compare(one, _shape(shape.fields[name], names), names, f"{path}{name}.")
    elif isinstance(value, list) and shape.item is not None:
        for one in value:
            yield from _compare(one, _shape(shape.item, names), names, path)
    elif isinstance(value, str) and shape.words is not None and value not in shape.words:
        yield f"{path.rstrip('.')} is '{value}'; it takes {', '.join(sorted(shape.words))[:200]}"


def _shape(hint: Any, names: Names) -> Shape:
    if isinstance(hint, Shape):
        return hint
    if isinstance(hint, str):
        return _shape_by_text(hint, names)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, typing.Sequence):
        return Shape(item=arguments[0])
    if origin is typing.Union or origin is types.UnionType:
        found = [_shape(one, names) for one in arguments if one not in (str, type(None))]
        known = [one for one in found if one != ANYTHING]
        return known[0] if known else ANYTHING
    if origin is not None and arguments and origin not in (dict, typing.Mapping):
        return _shape(arguments[0], names)  # Required[...] and the like
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return Shape(words=frozenset(str(one.value) for one in hint))
    if typing_extensions.is_typeddict(hint):
        return Shape(fields=typing_extensions.get_type_hints(hint, localns=names))
    if hasattr(hint, "_attribute_map"):
        return Shape(fields=_attribute_map(hint))
    if isinstance(hint, type) and any(_is_rest_field(one) for one in _members(hint).values()):
        hints = typing.get_type_hints(hint, localns=names)
        members = _members(hint).items()
        return Shape(
            fields={one._rest_name_input or name: hints[name] for name, one in members if _is_rest_field(one)}
        )
    return ANYTHING


def _members(hint: type) -> dict[str, Any]:
    return {name: one for base in reversed(hint.__mro__) for name, one in vars(base).items()}


def _is_rest_field(member: object) -> bool:
    return type(member).__name__ == "_RestField"


def _shape_by_text(text: str, names: Names) -> Shape:
    """A type as an attribute map writes it: `[Model]`, `Model`, or something plain."""
    if text.startswith("["):
        return Shape(item=text[1:-1])
    found = names.get(text)
    return _shape(found, names) if hasattr(found, "_attribute_map") else ANYTHING


def _attribute_map(model: Any) -> dict[str, Any]:
    """Of a model and of those derived from it, which a discriminator chooses from; `properties.x` becomes nested."""
    fields: dict[str, Any] = {}
    for one in (model, *_derived(model)):
        for entry in one._attribute_map.values():
            key, *rest = entry["key"].replace("\\.", "\0").split(".")
            name = key.replace("\0", ".")
            if not name:
                continue
            if rest:
                nested = fields.setdefault(name, Shape(fields={}))
                nested.fields[rest[0].replace("\0", ".")] = entry["type"]
            else:
                fields[name] = entry["type"]
    return fields


def _derived(model: Any) -> Iterator[Any]:
    for one in model.__subclasses__():
        yield one
        yield from _derived(one)
