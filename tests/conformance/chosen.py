"""The part of the SDK's live tests that is quick and touches every feature once; `make test` runs it.

All management tests (they take a tenth of a second each), and of the others those that need no long wait.
"""

from __future__ import annotations

from .suites import ROLE_OF_SUITE, Role, short_name, suite_of, without_parameters

FAST: frozenset[str] = frozenset(
    {
        # sending: single, many, batches, dictionaries, no body, too large
        "test_queues.py::test_queue_by_queue_client_send_multiple_messages",
        "test_queues.py::test_queue_message_batch_large",
        "test_queues.py::test_queue_by_servicebus_client_fail_send_messages",
        "test_queues.py::test_send_message_no_body",
        "async_tests/test_queues_async.py::test_queue_async_send_mapping_messages",
        "async_tests/test_queues_async.py::test_async_queue_message_batch_large",
        "test_queues.py::test_queue_message_duplicate_detection",
        # receiving and settling
        "test_queues.py::test_queue_by_queue_client_conn_str_receive_handler_peeklock",
        "async_tests/test_queues_async.py::test_async_queue_by_queue_client_conn_str_receive_handler_peeklock",
        "test_queues.py::test_queue_by_queue_client_conn_str_receive_handler_with_stop",
        "test_queues.py::test_queue_complete_message_on_different_receiver",
        "async_tests/test_queues_async.py::test_queue_complete_message_on_different_receiver_async",
        "test_queues.py::test_queue_by_servicebus_client_iter_messages_with_retrieve_deferred_receiver_complete",
        "async_tests/test_queues_async.py::"
        "test_async_queue_by_servicebus_client_receive_batch_with_retrieve_deadletter",
        "test_queues.py::test_queue_message_connection_closed",
        "async_tests/test_queues_async.py::test_async_queue_message_connection_closed",
        "test_queues.py::test_queue_receive_handler_peek_check_uniq_corr_id",
        # peeking, scheduling
        "test_queues.py::test_queue_by_queue_client_peek_auto_increment",
        "test_queues.py::test_queue_by_queue_client_peek_and_receive",
        "async_tests/test_queues_async.py::test_queue_async_by_queue_client_peek_auto_increment_multiple",
        "test_queues.py::test_state_scheduled",
        "async_tests/test_queues_async.py::test_state_scheduled_async",
        "async_tests/test_queues_async.py::test_queue_async_send_dict_messages_scheduled",
        # messages as they look on the wire
        "test_queues.py::test_message_inner_amqp_properties",
        "test_message.py::test_message_backcompat_peek_lock_databody",
        "test_message.py::test_message_backcompat_receive_and_delete_sequencebody",
        "test_message.py::test_message_backcompat_receive_and_delete_valuebody",
        "test_message.py::test_message_batch_backcompat",
        # sessions
        "test_sessions.py::test_session_by_session_client_conn_str_receive_handler_peeklock_abandon",
        "test_sessions.py::test_session_by_servicebus_client_iter_messages_with_retrieve_deferred_client",
        "test_sessions.py::test_session_non_session_send_to_session_queue_should_fail",
        "test_sessions.py::test_session_by_servicebus_client_browse_messages_client",
        "test_sessions.py::test_session_id_str_bytes",
        "test_queues.py::test_queue_by_servicebus_client_session_fail",
        "async_tests/test_sessions_async.py::test_async_session_message_connection_closed",
        "async_tests/test_sessions_async.py::"
        "test_async_session_by_session_client_conn_str_receive_handler_with_inactive_session",
        "test_list_sessions.py::test_list_queue_sessions_with_active_messages",
        "async_tests/test_list_sessions_async.py::test_list_subscription_sessions_with_active_messages_async",
        # topics and subscriptions
        "test_topic.py::test_topic_by_servicebus_client_send_basic",
        "test_subscriptions.py::test_subscription_by_subscription_client_conn_str_receive_basic",
        "test_sessions.py::test_session_basic_topic_subscription_send_and_receive",
        "async_tests/test_topic_async.py::test_topic_by_sas_token_credential_conn_str_send_basic",
        # who may do what
        "test_sb_client.py::test_sb_client_readonly_credentials",
        "test_sb_client.py::test_sb_client_writeonly_credentials",
        "test_sb_client.py::test_sb_client_incorrect_queue_conn_str",
        "test_sb_client.py::test_client_credential",
    }
)


def is_chosen(node: str) -> bool:
    if ROLE_OF_SUITE[suite_of(node)] is Role.MANAGEMENT:
        return True
    return without_parameters(short_name(node)) in FAST
