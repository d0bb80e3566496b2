"""No exception of the SDK is unmapped."""

from __future__ import annotations

import inspect

import azure.core.exceptions as core
import azure.servicebus.exceptions as sdk
import pytest

from shared.adapters.sdk_failures import BY_CLASS, classify, detail_of
from shared.domain.failures import Blame, Failure

SDK_EXCEPTIONS = [
    kind
    for _, kind in inspect.getmembers(sdk, inspect.isclass)
    if issubclass(kind, Exception) and kind.__module__ == sdk.__name__
]


@pytest.mark.parametrize("kind", SDK_EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_every_exception_of_the_sdk_is_mapped_by_name(kind: type[Exception]) -> None:
    assert kind in BY_CLASS, f"the SDK has a new exception: decide what {kind.__name__} means"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (sdk.ServiceBusConnectionError(), Failure.CONNECTION),
        (sdk.OperationTimeoutError(), Failure.TIMEOUT),
        (sdk.ServiceBusServerBusyError(), Failure.BUSY),
        (sdk.MessagingEntityDisabledError(), Failure.ENTITY_DISABLED),
        (sdk.ServiceBusQuotaExceededError(), Failure.ENTITY_FULL),
        (sdk.MessagingEntityNotFoundError(), Failure.ENTITY_NOT_FOUND),
        (sdk.ServiceBusAuthorizationError(), Failure.UNAUTHORIZED),
        (sdk.ServiceBusAuthenticationError(), Failure.UNAUTHORIZED),
        (sdk.ServiceBusAuthenticationError(message="CBS failed.\nStatus code: 401\nno"), Failure.UNAUTHORIZED),
        (sdk.ServiceBusAuthenticationError(message="CBS failed.\nStatus code: 404\nno"), Failure.ENTITY_NOT_FOUND),
        (sdk.ServiceBusAuthenticationError(message="CBS failed.\nStatus code: 500\nno"), Failure.SERVICE_ERROR),
        (sdk.MessageSizeExceededError(), Failure.MESSAGE_TOO_LARGE),
        (sdk.ServiceBusError("x", condition="amqp:not-allowed"), Failure.MESSAGE_REJECTED),
        (sdk.ServiceBusError("x", condition=b"com.microsoft:argument-error"), Failure.MESSAGE_REJECTED),
        (sdk.ServiceBusError("x", condition="amqp:internal-error"), Failure.SERVICE_ERROR),
        (sdk.ServiceBusError("x", condition="com.microsoft:never-heard-of"), Failure.SERVICE_ERROR),
        (ConnectionResetError(), Failure.CONNECTION),
        (TimeoutError(), Failure.TIMEOUT),
        (core.ClientAuthenticationError("no token"), Failure.UNAUTHORIZED),
        (core.ServiceRequestError("no route"), Failure.CONNECTION),
        (ValueError("cannot encode"), Failure.MESSAGE_REJECTED),
        (TypeError("cannot encode"), Failure.MESSAGE_REJECTED),
        (KeyError("a bug"), Failure.SERVICE_ERROR),
    ],
    ids=repr,
)
def test_meaning(error: Exception, expected: Failure) -> None:
    assert expected is classify(error)


def test_what_nobody_has_heard_of_loses_no_message() -> None:
    class Unheard(Exception):
        pass

    assert Blame.SERVICE is classify(Unheard()).judgement.blame


def test_details_fit_one_line_of_bounded_length() -> None:
    text = detail_of(sdk.ServiceBusError("a\nb" * 1000))
    assert "\n" not in text
    assert len(text) < 600
