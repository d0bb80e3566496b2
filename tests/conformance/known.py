"""The SDK's tests that are not expected to pass here, each by name and with the reason.

Names are `file::test`, with `[parameters]` only where one variant of a test is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from .suites import short_name, without_parameters


class Kind(Enum):
    """`NEEDS_AZURE`: not run. The others are run, and their failure does not fail the command."""

    NEEDS_AZURE = "needs Azure itself"
    EXPECTED_FAILURE = "expected failure"
    MAY_FAIL = "depends on the machine"


@dataclass(frozen=True, kw_only=True)
class Known:
    kind: Kind
    reason: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.reason}"


def needs_azure(reason: str) -> Known:
    return Known(kind=Kind.NEEDS_AZURE, reason=reason)


def expected_failure(reason: str) -> Known:
    return Known(kind=Kind.EXPECTED_FAILURE, reason=reason)


def may_fail(reason: str) -> Known:
    return Known(kind=Kind.MAY_FAIL, reason=reason)


WEBSOCKET = needs_azure("AMQP over web sockets: the SDK always dials port 443 of the namespace")
TLS = needs_azure("AMQP over TLS: the SDK always dials port 5671 of the namespace and trusts public authorities only")
NEXT_SESSION = expected_failure(
    "the test wants receive_messages(max_wait_time=5) to wait over 65 s for a session because the receiver was made "
    "with 70 s; since SDK 7.15.0 the wait of the call wins"
)
DECIMAL = expected_failure(
    "the SDK cannot decode the decimal128 it encodes itself (Overflow); Azure re-encodes application properties, "
    "the broker passes them on byte for byte"
)
MANY_RENEWALS = may_fail(
    "it needs 30 lock renewals a second from threads that share one connection; the SDK's threads wait for each other "
    "(1,900 a second with one thread, 67 with the six it starts on two cores), less on a busy machine"
)
OUTDATED_MOCK = expected_failure("its mock lacks the await_outcome argument SDK 7.15.0 passes, whatever the service")

KNOWN: Mapping[str, Known] = {
    "test_sb_client.py::test_sb_client_with_ssl_context[amqp-pyamqp]": TLS,
    "test_sb_client.py::test_sb_client_with_ssl_context[ws-pyamqp]": WEBSOCKET,
    "test_sb_client.py::test_custom_endpoint_connection_verify_exception": TLS,
    "test_queues.py::test_queue_message_amqp_over_websocket": WEBSOCKET,
    "test_queues.py::test_queue_send_twice": WEBSOCKET,
    "test_queues.py::test_queue_send_timeout": WEBSOCKET,
    "test_queues.py::test_queue_send_large_message_receive": WEBSOCKET,
    "test_queues.py::test_queue_operation_negative": OUTDATED_MOCK,
    "test_queues.py::test_queue_receive_handler_with_autolockrenew_many_msgs": MANY_RENEWALS,
    "test_sessions.py::test_next_available_session_timeout_value": NEXT_SESSION,
    "test_message.py::test_message_property": DECIMAL,
    "async_tests/test_sb_client_async.py::test_sb_client_with_ssl_context_async[amqp-pyamqp]": TLS,
    "async_tests/test_sb_client_async.py::test_sb_client_with_ssl_context_async[ws-pyamqp]": WEBSOCKET,
    "async_tests/test_sb_client_async.py::test_custom_endpoint_connection_verify_exception_async": TLS,
    "async_tests/test_queues_async.py::test_queue_message_amqp_over_websocket": WEBSOCKET,
    "async_tests/test_queues_async.py::test_async_queue_send_twice": WEBSOCKET,
    "async_tests/test_queues_async.py::test_async_queue_send_timeout": WEBSOCKET,
    "async_tests/test_queues_async.py::test_async_queue_send_large_message_receive": WEBSOCKET,
    "async_tests/test_queues_async.py::test_async_queue_operation_negative": OUTDATED_MOCK,
    "async_tests/test_sessions_async.py::test_async_next_available_session_timeout_value": NEXT_SESSION,
}


def known(node: str) -> Known | None:
    name = short_name(node)
    return KNOWN.get(name) or KNOWN.get(without_parameters(name))
