"""Which of the SDK's test files are run, by whom, and which tests take long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """Tests of one role share a broker; management tests expect a namespace that holds nothing but their own."""

    DATA = "data"
    MANAGEMENT = "management"


@dataclass(frozen=True, kw_only=True)
class Suite:
    path: str
    role: Role


SUITES = (
    Suite(path="test_queues.py", role=Role.DATA),
    Suite(path="test_sessions.py", role=Role.DATA),
    Suite(path="test_topic.py", role=Role.DATA),
    Suite(path="test_subscriptions.py", role=Role.DATA),
    Suite(path="test_sb_client.py", role=Role.DATA),
    Suite(path="test_list_sessions.py", role=Role.DATA),
    Suite(path="test_message.py", role=Role.DATA),
    Suite(path="async_tests/test_queues_async.py", role=Role.DATA),
    Suite(path="async_tests/test_sessions_async.py", role=Role.DATA),
    Suite(path="async_tests/test_topic_async.py", role=Role.DATA),
    Suite(path="async_tests/test_subscriptions_async.py", role=Role.DATA),
    Suite(path="async_tests/test_sb_client_async.py", role=Role.DATA),
    Suite(path="async_tests/test_list_sessions_async.py", role=Role.DATA),
    Suite(path="mgmt_tests/test_mgmt_queues.py", role=Role.MANAGEMENT),
    Suite(path="mgmt_tests/test_mgmt_topics.py", role=Role.MANAGEMENT),
    Suite(path="mgmt_tests/test_mgmt_subscriptions.py", role=Role.MANAGEMENT),
    Suite(path="mgmt_tests/test_mgmt_rules.py", role=Role.MANAGEMENT),
    Suite(path="mgmt_tests/test_mgmt_namespaces.py", role=Role.MANAGEMENT),
    Suite(path="mgmt_tests/test_topic_filter_counts.py", role=Role.MANAGEMENT),
    Suite(path="mgmt_tests/test_topic_filter_counts_live.py", role=Role.MANAGEMENT),
    Suite(path="mgmt_tests/async/test_mgmt_queues_async.py", role=Role.MANAGEMENT),
    Suite(path="mgmt_tests/async/test_mgmt_topics_async.py", role=Role.MANAGEMENT),
    Suite(path="mgmt_tests/async/test_mgmt_subscriptions_async.py", role=Role.MANAGEMENT),
    Suite(path="mgmt_tests/async/test_mgmt_rules_async.py", role=Role.MANAGEMENT),
    Suite(path="mgmt_tests/async/test_mgmt_namespaces_async.py", role=Role.MANAGEMENT),
)

ROLE_OF_SUITE: Mapping[str, Role] = {suite.path: suite.role for suite in SUITES}


def files_of(role: Role) -> list[str]:
    return [suite.path for suite in SUITES if suite.role is role]


def suite_of(node: str) -> str:
    return node.partition("::")[0]


def short_name(node: str) -> str:
    """`file::test[params]`: how tests are named in the lists of this package, without the class."""
    parts = node.split("::")
    return f"{parts[0]}::{parts[-1]}"


def without_parameters(name: str) -> str:
    return name.partition("[")[0]


# Started first, so that none of them is the last one running. Seconds as measured; only the order matters.
SLOW_SECONDS: Mapping[str, int] = {
    "test_topic.py::test_topic_by_servicebus_client_send_large_messages_w_sleep": 466,
    "test_queues.py::test_queue_receive_keep_conn_alive": 328,
    "async_tests/test_queues_async.py::test_queue_receive_keep_conn_alive_async": 317,
    "test_queues.py::test_queue_receiver_sender_resume_after_link_timeout": 307,
    "test_sessions.py::test_session_connection_failure_is_idempotent": 293,
    "test_sessions.py::test_session_cancel_scheduled_messages": 263,
    "test_queues.py::test_github_issue_6178": 185,
    "async_tests/test_queues_async.py::test_github_issue_6178_async": 144,
    "async_tests/test_sessions_async.py::test_async_session_connection_failure_is_idempotent": 138,
    "test_sessions.py::test_session_schedule_multiple_messages": 132,
    "async_tests/test_sessions_async.py::test_async_session_cancel_scheduled_messages": 128,
    "async_tests/test_sessions_async.py::test_async_session_schedule_message": 125,
    "test_queues.py::test_queue_cancel_scheduled_messages": 122,
    "async_tests/test_queues_async.py::test_async_queue_cancel_scheduled_messages": 122,
    "async_tests/test_queues_async.py::test_async_queue_schedule_multiple_messages": 122,
    "test_queues.py::test_queue_schedule_multiple_messages": 121,
    "async_tests/test_queues_async.py::test_async_queue_schedule_message": 121,
    "test_queues.py::test_queue_schedule_message": 120,
    "test_sessions.py::test_session_schedule_message": 120,
    "async_tests/test_sessions_async.py::test_async_session_schedule_multiple_messages": 120,
    "test_queues.py::test_queue_receive_handler_with_autolockrenew_many_msgs": 108,
    "async_tests/test_queues_async.py::test_async_queue_by_queue_client_conn_str_receive_handler_release_messages": 87,
    "test_queues.py::test_queue_by_queue_client_conn_str_receive_handler_release_messages": 87,
    "test_queues.py::test_queue_by_queue_client_conn_str_receive_handler_with_autolockrenew": 76,
    "test_sessions.py::test_session_by_servicebus_client_session_pool": 72,
    "async_tests/test_sessions_async.py::test_async_next_available_session_timeout_value": 65,
    "async_tests/test_queues_async.py::test_async_queue_message_expiry": 63,
    "async_tests/test_sessions_async.py::test_async_session_message_expiry": 63,
}

DEFAULT_SECONDS = 8
MANAGEMENT_DEFAULT_SECONDS = 1


def expected_seconds(node: str) -> int:
    usual = DEFAULT_SECONDS if ROLE_OF_SUITE[suite_of(node)] is Role.DATA else MANAGEMENT_DEFAULT_SECONDS
    return SLOW_SECONDS.get(without_parameters(short_name(node)), usual)
