"""The demo's books: every accepted message has exactly one end, and copies are told apart."""

from __future__ import annotations

from local.demo.ledger import Ledger
from local.demo.traffic import ALL_EVENTS, ORDERS, URGENT_EVENTS, Message, Place
from tests.support.demo import arrival, order, urgent_event


def accepted(ledger: Ledger, message: Message, route: str = "primary") -> None:
    ledger.sending(message)
    ledger.answered(message, 201, 0.1, route)


def test_a_message_that_arrived_is_delivered() -> None:
    ledger, message = Ledger(), order(1)
    accepted(ledger, message)
    assert 1 == ledger.undelivered
    ledger.arrived(ORDERS, arrival(message))
    assert 0 == ledger.undelivered
    totals = ledger.totals()
    assert (1, 1, 1, 0, 0) == (totals.sent, totals.accepted, totals.delivered, totals.lost, totals.duplicated)
    assert () == totals.wrong


def test_an_accepted_message_that_nobody_saw_is_lost_and_named() -> None:
    ledger = Ledger()
    accepted(ledger, order(1))
    accepted(ledger, order(2), "backlog")
    assert ("orders-1", "orders-2") == ledger.totals().lost_ids


def test_a_message_that_was_only_refused_is_not_lost() -> None:
    ledger, message = Ledger(), order(1)
    ledger.sending(message)
    ledger.answered(message, 503, 2.5)
    ledger.answered(message, 0, 0.5)
    totals = ledger.totals()
    assert (1, 0, 1, 2, 0) == (totals.sent, totals.accepted, totals.never_accepted, totals.refusals, totals.lost)


def test_a_refused_message_that_arrived_all_the_same_counts_once_it_is_accepted() -> None:
    """The answer was lost, not the message; the second attempt makes it a duplicate."""
    ledger, message = Ledger(), order(1)
    ledger.sending(message)
    ledger.answered(message, 503, 1.0)
    ledger.arrived(ORDERS, arrival(message, 7))
    assert (0, 0) == (ledger.totals().delivered, ledger.undelivered)
    ledger.answered(message, 201, 0.1, "backlog")
    assert (1, 0) == (ledger.totals().delivered, ledger.undelivered)
    assert 0 == ledger.entities["orders"].waiting
    ledger.arrived(ORDERS, arrival(message, 8))
    assert (1, 1) == (ledger.totals().delivered, ledger.totals().duplicated)


def test_every_call_counts_for_the_longest_send() -> None:
    ledger, message = Ledger(), order(1)
    ledger.sending(message)
    ledger.answered(message, 503, 2.5)
    ledger.answered(message, 201, 0.1, "backlog")
    assert 2.5 == ledger.totals().longest_send_s


def test_a_topic_message_is_delivered_when_it_is_in_every_subscription_it_is_meant_for() -> None:
    ledger, message = Ledger(), urgent_event(1)
    accepted(ledger, message)
    ledger.arrived(ALL_EVENTS, arrival(message, 5))
    assert ("events-1",) == ledger.totals().lost_ids
    ledger.arrived(URGENT_EVENTS, arrival(message, 5))
    assert () == ledger.totals().lost_ids
    assert 0 == ledger.totals().duplicated, "one copy in each subscription is no duplicate"


def test_a_second_copy_is_a_duplicate_and_the_same_copy_again_is_not() -> None:
    ledger, message = Ledger(), order(1)
    accepted(ledger, message)
    for number in (3, 3, 4, 5):
        ledger.arrived(ORDERS, arrival(message, number))
    totals = ledger.totals()
    assert (1, 1, 1) == (totals.delivered, totals.duplicated, totals.redelivered)


def test_copies_of_what_was_never_accepted_are_no_duplicates_of_anything_promised() -> None:
    ledger, message = Ledger(), order(1)
    ledger.sending(message)
    ledger.answered(message, 503, 1.0)
    for number in (3, 4):
        ledger.arrived(ORDERS, arrival(message, number))
    assert (1, 0, 0) == (ledger.totals().never_accepted, ledger.totals().duplicated, ledger.totals().lost)


def test_waiting_and_dead_lettered_are_ends_only_of_what_was_not_delivered() -> None:
    ledger = Ledger()
    messages = [order(number) for number in range(4)]
    for message in messages:
        accepted(ledger, message, "backlog")
    ledger.arrived(ORDERS, arrival(messages[0]))
    for message in messages[:2]:
        ledger.waits(message.id)
    for message in messages[1:3]:
        ledger.is_dead_lettered(message.id)
    totals = ledger.totals()
    assert (1, 1, 1, ("orders-3",)) == (totals.delivered, totals.waiting, totals.dead_lettered, totals.lost_ids)
    ends = totals.delivered + totals.waiting + totals.dead_lettered + totals.lost
    assert totals.accepted == ends


def test_what_waits_in_the_backlog_is_counted_down_as_it_arrives() -> None:
    ledger = Ledger()
    accepted(ledger, order(1), "backlog")
    accepted(ledger, order(2), "primary")
    assert (2, 1, 1) == (
        ledger.entities["orders"].accepted, ledger.entities["orders"].diverted, ledger.entities["orders"].waiting
    )  # fmt: skip
    ledger.arrived(ORDERS, arrival(order(1)))
    assert 0 == ledger.entities["orders"].waiting


def test_what_nobody_sent_there_is_wrong() -> None:
    ledger, message = Ledger(), order(1)
    accepted(ledger, message)
    ledger.arrived(Place("invoices"), arrival(message))
    ledger.arrived(ORDERS, arrival(order(99)))
    assert (
        "orders-1: arrived at invoices, where nobody sent it",
        "orders-99: arrived at orders, where nobody sent it",
    ) == ledger.totals().wrong
    assert ("orders-1",) == ledger.totals().lost_ids


def test_a_message_that_was_changed_on_its_way_is_wrong() -> None:
    ledger, message = Ledger(), order(1)
    accepted(ledger, message)
    ledger.arrived(ORDERS, arrival(message, body="something else"))
    assert (f"orders-1: its body is 'something else', not {message.body!r}",) == ledger.totals().wrong
