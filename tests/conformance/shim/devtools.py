"""Stand-ins for the modules of Azure's repository the SDK's tests import and PyPI does not have.

`devtools_testutils` (recording proxy, sanitizers, credentials), `servicebus_preparer` (which talks to Azure
Resource Manager), and two names out of `azure.mgmt` and `azure.common`.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import azure.identity
import azure.identity.aio

from . import preparers


def get_credential(*, is_async: bool = False, **options: Any) -> Any:
    """A managed identity, whose tokens the broker's development provider issues; azure-identity finds it by itself."""
    return azure.identity.aio.ManagedIdentityCredential() if is_async else azure.identity.ManagedIdentityCredential()


class RecordedTestCase:
    """Base class of the SDK's test classes; the recording half of it has no work here."""

    is_live = True

    @staticmethod
    def await_prepared_test(test: Callable[..., Any]) -> Callable[..., Any]:
        return test


def as_it_is(test: Callable[..., Any]) -> Callable[..., Any]:
    """Stands for the decorators that record traffic."""
    return test


def no_recording(*values: Any, **options: Any) -> None:
    """Stands for the sanitizers of recordings."""


class AccessRights:
    manage = "Manage"
    send = "Send"
    listen = "Listen"


def install(*, endpoint_suffix: str) -> None:
    """Put every stand-in into `sys.modules`, before the first test module is imported."""
    sanitizers = ("add_remove_header_sanitizer", "add_general_regex_sanitizer", "add_oauth_response_sanitizer")
    groups = ("CachedResourceGroupPreparer", "RandomNameResourceGroupPreparer", "ResourceGroupPreparer")
    _module(
        "devtools_testutils",
        AzureMgmtRecordedTestCase=RecordedTestCase,
        AzureRecordedTestCase=RecordedTestCase,
        AzureTestCase=RecordedTestCase,
        PowerShellPreparer=preparers.EnvironmentPreparer,
        get_credential=get_credential,
        recorded_by_proxy=as_it_is,
        set_custom_default_matcher=no_recording,
        **dict.fromkeys(groups, preparers.ResourceGroupPreparer),
        **dict.fromkeys(sanitizers, no_recording),
    )
    _module("devtools_testutils.aio", recorded_by_proxy_async=as_it_is)
    _module("devtools_testutils.sanitizers", **dict.fromkeys(sanitizers, no_recording))
    _module("servicebus_preparer", SERVICEBUS_ENDPOINT_SUFFIX=endpoint_suffix, **_servicebus_preparers())
    _module("azure.mgmt")
    _module("azure.mgmt.servicebus")
    _module("azure.mgmt.servicebus.models", AccessRights=AccessRights)
    _module("azure.common", AzureHttpError=OSError, AzureConflictHttpError=OSError)


def _servicebus_preparers() -> dict[str, Any]:
    plain: dict[str, Callable[..., Any]] = {
        "ServiceBusResourceGroupPreparer": preparers.ResourceGroupPreparer,
        "ServiceBusNamespacePreparer": preparers.NamespacePreparer,
        "ServiceBusQueuePreparer": preparers.QueuePreparer,
        "ServiceBusTopicPreparer": preparers.TopicPreparer,
        "ServiceBusSubscriptionPreparer": preparers.SubscriptionPreparer,
        "ServiceBusNamespaceAuthorizationRulePreparer": preparers.NamespaceRulePreparer,
        "ServiceBusQueueAuthorizationRulePreparer": preparers.QueueRulePreparer,
    }
    cached = {f"Cached{name}": functools.partial(maker, use_cache=True) for name, maker in plain.items()}
    return {**plain, **cached}


def _module(name: str, **members: Any) -> None:
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module
