"""The decorators of the SDK's `servicebus_preparer`, with the broker in place of Azure Resource Manager.

A preparer makes a resource before the test, hands it over as a keyword argument and removes it afterwards.
They are stacked, the outermost first, and an inner one reads what an outer one has put in (a subscription
needs its topic). pytest must not take the injected names for fixtures, so each wrapper shows a signature
without them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .backend import Backend, Resource

Injected = dict[str, Any]

_cached: dict[tuple[Any, ...], Injected] = {}
_NO_FIXTURES = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


class Preparer:
    """Base of all: `prepare` yields what to inject; `needs` says by what a cached resource is known again."""

    def __init__(self, name_prefix: str = "", *, use_cache: bool = False, parameter_name: str = "", **options: Any):
        options.pop("random_name_enabled", None)
        self.name_prefix = name_prefix
        self.use_cache = use_cache
        self.parameter_name = parameter_name or self.default_parameter
        self.options = options

    default_parameter = "resource"

    def injected_names(self) -> set[str]:
        return {self.parameter_name}

    def create(self, backend: Backend, given: Injected) -> Injected:
        raise NotImplementedError

    def remove(self, backend: Backend, given: Injected, made: Injected) -> None:
        """Nothing to remove unless a subclass says so."""

    @contextmanager
    def prepared(self, given: Injected) -> Iterator[Injected]:
        backend = the_backend()
        key = (type(self).__name__, self.name_prefix, self.parameter_name, repr(sorted(self.options.items())))
        if self.use_cache:
            if key not in _cached:
                _cached[key] = self.create(backend, given)
            yield {**given, **_cached[key]}
            return
        made = self.create(backend, given)
        try:
            yield {**given, **made}
        finally:
            self.remove(backend, given, made)

    def __call__(self, test: Callable[..., Any]) -> Any:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def prepared_test(*args: Any, **kwargs: Any) -> None:
                with self.prepared(kwargs) as given:
                    await test(*args, **accepted_by(test, given))
        else:

            @functools.wraps(test)
            def prepared_test(*args: Any, **kwargs: Any) -> None:
                with self.prepared(kwargs) as given:
                    test(*args, **accepted_by(test, given))

        return shown_to_pytest(prepared_test, test, hidden=self.injected_names())


def shown_to_pytest(wrapper: Any, test: Any, *, hidden: set[str]) -> Any:
    """Give the wrapper a signature in which everything optional or injected is missing."""
    shown = [
        parameter
        for parameter in inspect.signature(test).parameters.values()
        if parameter.name not in hidden and parameter.kind not in _NO_FIXTURES
    ]
    wrapper.__signature__ = inspect.Signature(shown)
    wrapper.__dict__.pop("__wrapped__", None)
    wrapper.needs_broker = True
    wrapper.takes_any = takes_any(test)
    return wrapper


def takes_any(test: Any) -> bool:
    """Whether the test, below all its preparers, takes any keyword argument."""
    if hasattr(test, "takes_any"):
        return bool(test.takes_any)
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in inspect.signature(test).parameters.values())


def accepted_by(test: Any, given: Injected) -> Injected:
    """Drop what a test without `**kwargs` would refuse; a preparer further in takes all."""
    if hasattr(test, "takes_any") or takes_any(test):
        return given
    return {name: value for name, value in given.items() if name in inspect.signature(test).parameters}


@functools.cache
def the_backend() -> Backend:
    return Backend.from_environment()


class ResourceGroupPreparer(Preparer):
    """Azure's resource group: nothing to make here."""

    default_parameter = "resource_group"

    def injected_names(self) -> set[str]:
        return {self.parameter_name, "location"}

    def create(self, backend: Backend, given: Injected) -> Injected:
        return {self.parameter_name: Resource(name="local"), "location": "local"}


class NamespacePreparer(Preparer):
    """The worker's broker namespace, whatever was asked for."""

    default_parameter = "servicebus_namespace"

    def injected_names(self) -> set[str]:
        name = self.parameter_name
        return {name, f"{name}_connection_string", f"{name}_key_name", f"{name}_primary_key"}

    def create(self, backend: Backend, given: Injected) -> Injected:
        name = self.parameter_name
        return {
            name: Resource(name=backend.hostname),
            f"{name}_connection_string": backend.parts.connection_string(),
            f"{name}_key_name": backend.parts.key_name,
            f"{name}_primary_key": backend.parts.key,
        }


class QueuePreparer(Preparer):
    default_parameter = "servicebus_queue"

    def create(self, backend: Backend, given: Injected) -> Injected:
        options = {"lock_duration": "PT30S", **self.options}
        return {self.parameter_name: backend.create_queue(self.name_prefix, **_for_admin(options))}

    def remove(self, backend: Backend, given: Injected, made: Injected) -> None:
        backend.delete_queue(made[self.parameter_name].name)


class TopicPreparer(Preparer):
    default_parameter = "servicebus_topic"

    def create(self, backend: Backend, given: Injected) -> Injected:
        return {self.parameter_name: backend.create_topic(self.name_prefix)}

    def remove(self, backend: Backend, given: Injected, made: Injected) -> None:
        backend.delete_topic(made[self.parameter_name].name)


class SubscriptionPreparer(Preparer):
    """Removed together with its topic."""

    default_parameter = "servicebus_subscription"

    def create(self, backend: Backend, given: Injected) -> Injected:
        options = dict(self.options)
        topic = given[options.pop("servicebus_topic_parameter_name", "servicebus_topic")].name
        options.setdefault("lock_duration", "PT60S")
        return {self.parameter_name: backend.create_subscription(self.name_prefix, topic, **_for_admin(options))}


class NamespaceRulePreparer(Preparer):
    """A namespace-wide policy, which Azure makes through Resource Manager. Here one with fewer rights than all is
    made on the test's queue and given without naming the queue: to the test it looks the same.
    """

    default_parameter = "servicebus_authorization_rule"

    def injected_names(self) -> set[str]:
        return {self.parameter_name, f"{self.parameter_name}_connection_string"}

    def create(self, backend: Backend, given: Injected) -> Injected:
        rights = self.options.get("access_rights")
        parts = backend.parts
        if rights is not None:
            parts = backend.add_queue_rule(given["servicebus_queue"].name, self.name_prefix, rights)
        return {
            self.parameter_name: Resource(name=parts.key_name),
            f"{self.parameter_name}_connection_string": parts.connection_string(),
        }


class QueueRulePreparer(Preparer):
    """A policy on one queue; its connection string names the queue, as Azure's does."""

    default_parameter = "servicebus_queue_authorization_rule"

    def injected_names(self) -> set[str]:
        return {self.parameter_name, f"{self.parameter_name}_connection_string"}

    def create(self, backend: Backend, given: Injected) -> Injected:
        queue = given[self.options.get("servicebus_queue_parameter_name", "servicebus_queue")].name
        rights = sorted(self.options.get("access_rights") or ("Listen", "Manage", "Send"))
        parts = backend.add_queue_rule(queue, self.name_prefix, rights)
        return {
            self.parameter_name: Resource(name=parts.key_name),
            f"{self.parameter_name}_connection_string": parts.connection_string(entity=queue),
        }


def _for_admin(options: dict[str, Any]) -> dict[str, Any]:
    """Resource Manager takes a few names the administration client spells differently."""
    return {key: value for key, value in options.items() if not key.startswith(("servicebus_", "resource_"))}


class EnvironmentPreparer:
    """`PowerShellPreparer`: hands a test, by the names in its signature, what Azure's set-up script exports."""

    def __init__(self, directory: str, **defaults: str) -> None:
        self.names = set(defaults)

    def _values(self) -> Injected:
        parts = the_backend().parts
        return {
            "servicebus_connection_str": parts.connection_string(),
            "servicebus_fully_qualified_namespace": parts.host,
            "servicebus_sas_policy": parts.key_name,
            "servicebus_sas_key": parts.key,
        }

    def __call__(self, test: Callable[..., Any]) -> Any:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def prepared_test(*args: Any, **kwargs: Any) -> None:
                await test(*args, **accepted_by(test, {**kwargs, **self._values()}))
        else:

            @functools.wraps(test)
            def prepared_test(*args: Any, **kwargs: Any) -> None:
                test(*args, **accepted_by(test, {**kwargs, **self._values()}))

        return shown_to_pytest(prepared_test, test, hidden=self.names)
