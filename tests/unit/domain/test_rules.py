"""Rules of keys, failures, rotation and backlog queues."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.domain.backlog import BacklogQueueDescription, differences, is_backlog_path
from shared.domain.failures import JUDGEMENTS, Blame, Failure, counts
from shared.domain.keys import check_keys
from shared.domain.pair import EntityPath, Namespace, Side
from shared.domain.rotation import Outage, Rotation, choose_backlog
from shared.errors import Rejected
from tests.support.sending import NOON

CONTOSO = Namespace(side=Side.PRIMARY, name="contoso")
A, B, C = (EntityPath(name) for name in "abc")
OUTAGE = Outage(since=NOON, reason="full")


def test_every_failure_is_judged() -> None:
    assert set(Failure) == JUDGEMENTS.keys()


def test_only_faults_of_the_service_fail_over() -> None:
    always = {failure for failure in Failure if counts(failure, entity_is_known=False)}
    assert always == {
        Failure.TIMEOUT,
        Failure.CONNECTION,
        Failure.NAMESPACE_NOT_FOUND,
        Failure.SERVICE_ERROR,
        Failure.ENTITY_DISABLED,
        Failure.ENTITY_FULL,
    }
    assert {Failure.ENTITY_NOT_FOUND} == {
        failure for failure in Failure if counts(failure, entity_is_known=True)
    } - always
    assert all(failure.judgement.blame is Blame.SERVICE for failure in always)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"session_id": "a", "partition_key": "b"}, "both set and differ"),
        ({"session_id": "x" * 129}, "SessionId has 129 characters"),
        ({"partition_key": "x" * 129}, "PartitionKey has 129 characters"),
        ({"message_id": "x" * 129}, "MessageId has 129 characters"),
        ({"message_id": ""}, "MessageId is empty"),
        ({"session_id": 7}, "SessionId is text"),
        ({"reply_to_session_id": "x" * 129}, "ReplyToSessionId has 129"),
    ],
)
def test_bad_keys_are_refused_with_the_thing_to_change(keys: dict[str, object], complaint: str) -> None:
    with pytest.raises(Rejected, match=complaint):
        check_keys(**{"message_id": "m", "session_id": None, "partition_key": None, **keys})


def test_good_keys_pass() -> None:
    check_keys(message_id="m" * 128, session_id="a", partition_key="a", reply_to_session_id="b")


def test_a_sender_stays_on_its_queue_until_that_one_leaves_the_rotation() -> None:
    rotation = Rotation(queues=(A, B, C))
    assert B == choose_backlog(rotation, (B, C, A))
    assert C == choose_backlog(rotation.without(B, OUTAGE), (B, C, A))
    assert B == choose_backlog(rotation.without(B, OUTAGE).with_again(B), (B, C, A))


def test_with_every_queue_out_there_is_none_to_choose() -> None:
    rotation = Rotation(queues=(A,)).without(A, OUTAGE)
    assert None is choose_backlog(rotation, (A,))


def test_the_first_reason_for_leaving_the_rotation_stays() -> None:
    rotation = Rotation(queues=(A, B)).without(A, OUTAGE).without(A, Outage(since=NOON, reason="later"))
    assert {A: OUTAGE} == rotation.out


def test_queues_that_are_not_in_use_do_not_leave_the_rotation() -> None:
    assert Rotation(queues=(A,)) == Rotation(queues=(A,)).without(B, OUTAGE)


def test_backlog_queues_are_described_as_the_original_made_them() -> None:
    description = BacklogQueueDescription()
    assert (5120, 2147483647) == (description.max_size_in_megabytes, description.max_delivery_count)
    assert timedelta(minutes=1) == description.lock_duration
    assert description.dead_lettering_on_message_expiration
    assert description.enable_batched_operations


def test_an_existing_queue_is_compared_with_what_would_be_created() -> None:
    # The SDK reads TimeSpan.MaxValue a little short.
    found = {
        "auto_delete_on_idle": timedelta(days=10675199),
        "lock_duration": timedelta(minutes=1),
        "max_size_in_megabytes": 1024,
    }
    assert ("max_size_in_megabytes is 1024, not 5120",) == differences(found)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("contoso/x-servicebus-transfer/0", True),
        ("Contoso/X-ServiceBus-Transfer/99", True),
        ("contoso/x-servicebus-transferred", False),
        ("fabrikam/x-servicebus-transfer/0", False),
    ],
)
def test_backlog_queues_are_recognised_whatever_their_index_or_case(path: str, expected: bool) -> None:
    assert expected is is_backlog_path(CONTOSO, path)
