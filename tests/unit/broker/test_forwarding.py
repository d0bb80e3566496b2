"""Auto-forward: messages and dead letters move on by themselves, and what cannot move is kept."""

from __future__ import annotations

import pytest

from local.broker.clock import ManualClock
from local.broker.descriptions import EntityStatus, QueueDescription, TopicDescription
from local.broker.entities import Queue
from local.broker.entity import MEGABYTE
from local.broker.errors import ENTITY_DISABLED, QUOTA_EXCEEDED
from local.broker.message_queue import HOPS_MAX
from local.broker.namespace import Namespace
from tests.support.broker import Receiver, accept, application_of, body_of, message, receive, subscribe, take


def queue(space: Namespace, name: str, **description: object) -> Queue:
    return space.create_queue(name, QueueDescription(**description))  # type: ignore[arg-type]


def test_a_message_moves_on_with_the_number_it_first_had(space: Namespace) -> None:
    target = queue(space, "target")
    target.send(message(b"direct"))
    source = queue(space, "source", forward_to="target")
    source.send(message(b"moved"))
    assert 0 == source.main.message_count
    direct, moved = receive(target.main, 2)
    assert (b"moved", 2, 1) == (body_of(moved), moved.sequence_number, moved.enqueue_sequence_number)
    assert None is direct.enqueue_sequence_number


def test_the_destination_may_be_written_as_an_address(space: Namespace) -> None:
    target = queue(space, "target")
    queue(space, "source", forward_to="sb://localhost:5672/Target").send(message())
    assert 1 == target.main.message_count


def test_a_chain_may_have_four_links_and_no_more(space: Namespace) -> None:
    end = queue(space, "q0")
    for index in range(1, HOPS_MAX + 2):
        queue(space, f"q{index}", forward_to=f"q{index - 1}")
    space.queue(f"q{HOPS_MAX}").send(message(b"arrives"))
    assert [b"arrives"] == [body_of(m) for m in receive(end.main, 5)]
    space.queue(f"q{HOPS_MAX + 1}").send(message(b"too far"))
    assert [] == receive(end.main, 5)
    (stuck,) = receive(space.queue("q1").transfer_dead_letters)
    assert (b"too far", "MaxTransferHopCountExceeded") == (body_of(stuck), application_of(stuck)["DeadLetterReason"])


def test_a_circle_ends(space: Namespace) -> None:
    queue(space, "a", forward_to="b")
    queue(space, "b", forward_to="a")
    space.queue("a").send(message())
    assert 1 == sum(space.queue(name).transfer_dead_letters.message_count for name in "ab")


def test_a_missing_destination_keeps_the_message_apart(space: Namespace) -> None:
    source = queue(space, "source", forward_to="nowhere")
    source.send(message(b"kept"))
    (kept,) = receive(source.transfer_dead_letters)
    assert (b"kept", "TransferDestinationNotFound") == (body_of(kept), application_of(kept)["DeadLetterReason"])
    assert 1 == source.counts().transfer_dead_letter


def test_a_disabled_destination_keeps_the_message_apart(space: Namespace) -> None:
    queue(space, "target", status=EntityStatus.SEND_DISABLED)
    source = queue(space, "source", forward_to="target")
    source.send(message())
    (kept,) = receive(source.transfer_dead_letters)
    assert ENTITY_DISABLED == application_of(kept)["DeadLetterReason"]


def test_a_full_destination_keeps_the_message_apart(space: Namespace) -> None:
    target = queue(space, "target", max_size_in_megabytes=1)
    target.send(message(b"x" * MEGABYTE))
    source = queue(space, "source", forward_to="target")
    source.send(message())
    (kept,) = receive(source.transfer_dead_letters)
    assert QUOTA_EXCEEDED == application_of(kept)["DeadLetterReason"]


def test_a_destination_with_sessions_takes_only_messages_with_session_id(space: Namespace) -> None:
    target = queue(space, "target", requires_session=True)
    source = queue(space, "source", forward_to="target")
    source.send(message(b"with", session_id="a"))
    source.send(message(b"without"))
    assert [b"with"] == [body_of(m) for m in accept(target.main, "a", credit=5).got]
    assert [b"without"] == [body_of(m) for m in receive(source.transfer_dead_letters, 5)]


def test_dead_letters_move_on_and_say_where_they_died(space: Namespace) -> None:
    morgue = queue(space, "morgue")
    source = queue(space, "source", forward_dead_lettered_messages_to="morgue")
    source.send(message(b"dead"))
    source.main.dead_letter(take(source.main), "Broken", None)
    (dead,) = receive(morgue.main)
    assert (b"dead", "source") == (body_of(dead), dead.dead_letter_source)
    assert "Broken" == application_of(dead)["DeadLetterReason"]
    assert 0 == source.dead_letters.message_count


def test_dead_letters_that_cannot_move_on_keep_their_reason(space: Namespace) -> None:
    source = queue(space, "source", forward_dead_lettered_messages_to="nowhere")
    source.send(message(b"dead"))
    source.main.dead_letter(take(source.main), "Broken", None)
    (dead,) = receive(source.transfer_dead_letters)
    assert (b"dead", "Broken") == (body_of(dead), application_of(dead)["DeadLetterReason"])


def test_two_graves_that_point_at_each_other_come_to_rest(space: Namespace) -> None:
    for here, there in ("ab", "ba"):
        queue(space, here, forward_dead_lettered_messages_to=there, max_delivery_count=1)
    space.queue("a").send(message())
    for name in "ababab":
        main = space.queue(name).main
        if main.message_count:
            main.abandon(take(main))
    assert 1 == sum(space.queue(name).transfer_dead_letters.message_count for name in "ab")


def test_switching_forwarding_on_moves_what_waits_and_leaves_what_is_locked(
    space: Namespace, clock: ManualClock
) -> None:
    target, source = queue(space, "target"), queue(space, "source")
    for body in (b"locked", b"waiting"):
        source.send(message(body))
    take(source.main)
    space.update_queue("source", QueueDescription(forward_to="target"))
    assert [b"waiting"] == [body_of(m) for m in receive(target.main, 5, deletes=True)]
    clock.advance(60)
    assert [b"locked"] == [body_of(m) for m in receive(target.main, 5)]
    assert 0 == source.main.message_count


def test_switching_forwarding_off_lets_receivers_in_again(space: Namespace) -> None:
    queue(space, "target")
    source = queue(space, "source", forward_to="target")
    space.update_queue("source", QueueDescription())
    source.send(message(b"stays"))
    assert [b"stays"] == [body_of(m) for m in receive(source.main)]


def test_a_forwarding_queue_hands_nothing_out(space: Namespace) -> None:
    queue(space, "target")
    source = queue(space, "source")
    receiver = Receiver(credit=10)
    source.main.attach(receiver)
    space.update_queue("source", QueueDescription(forward_to="target"))
    source.send(message())
    assert [] == receiver.got


def test_scheduled_messages_move_on_when_their_time_comes(space: Namespace, clock: ManualClock) -> None:
    target = queue(space, "target")
    source = queue(space, "source", forward_to="target")
    source.send(message(scheduled_at=clock.now() + 10))
    assert (1, 0) == (source.main.scheduled_count, target.main.message_count)
    clock.advance(10)
    assert (0, 1) == (source.main.message_count, target.main.message_count)


def test_a_subscription_forwards_to_a_topic(space: Namespace) -> None:
    space.create_topic("first", TopicDescription())
    space.create_topic("second", TopicDescription())
    subscribe(space, "first", "bridge", forward_to="second")
    end = subscribe(space, "second", "end")
    space.topic("first").send(message(b"through"))
    (arrived,) = receive(end.main)
    assert (b"through", 1) == (body_of(arrived), arrived.enqueue_sequence_number)


@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.RECEIVE_DISABLED])
def test_forwarding_goes_on_while_receiving_is_disabled(space: Namespace, status: EntityStatus) -> None:
    target = queue(space, "target")
    source = queue(space, "source", forward_to="target")
    source.main.put(message())
    space.update_queue("source", QueueDescription(forward_to="target", status=status))
    source.main.put(message())
    assert 2 == target.main.message_count
