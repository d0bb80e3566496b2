"""Topics: each subscription gets its own copy of what its rules let through."""

from __future__ import annotations

from datetime import timedelta

import pytest

from local.broker.clock import ManualClock
from local.broker.descriptions import (
    CorrelationFilter,
    EntityStatus,
    FalseFilter,
    RuleDescription,
    SqlFilter,
    SqlRuleAction,
    TopicDescription,
)
from local.broker.entities import Topic
from local.broker.errors import EntityExists, EntityNotFound
from local.broker.namespace import Namespace
from tests.support.broker import accept, application_of, body_of, message, receive, subscribe, take


@pytest.fixture
def topic(space: Namespace) -> Topic:
    return space.create_topic("events", TopicDescription())


def test_every_subscription_gets_its_own_copy(space: Namespace, topic: Topic) -> None:
    one, two = subscribe(space, "events", "one"), subscribe(space, "events", "two")
    topic.send(message(b"news"))
    one.main.complete(take(one.main))
    assert (0, 1) == (one.main.message_count, two.main.message_count)
    assert (0, 0) == (topic.inbox.message_count, topic.scheduled_count)


def test_a_topic_without_subscriptions_takes_messages_and_keeps_none(space: Namespace, topic: Topic) -> None:
    assert 1 == topic.send(message())
    assert 0 == topic.size_bytes


def test_filters_decide_by_user_and_system_properties(space: Namespace, topic: Topic) -> None:
    red = subscribe(space, "events", "red", rule=SqlFilter(expression="colour = 'red' AND sys.Label = 'paint'"))
    mine = subscribe(space, "events", "mine", rule=CorrelationFilter(correlation_id="me", properties=(("n", 1),)))
    none = subscribe(space, "events", "none", rule=FalseFilter())
    topic.send(message(b"1", subject="paint", application={"Colour": "red"}))
    topic.send(message(b"2", subject="other", application={"colour": "red"}))
    topic.send(message(b"3", correlation_id="me", application={"n": 1}))
    topic.send(message(b"4", correlation_id="me", application={"n": 2}))
    assert [b"1"] == [body_of(m) for m in receive(red.main, 5)]
    assert [b"3"] == [body_of(m) for m in receive(mine.main, 5)]
    assert [] == receive(none.main, 5)


def test_plain_rules_give_one_copy_together_and_each_action_one_more(space: Namespace, topic: Topic) -> None:
    subscription = subscribe(space, "events", "all")
    space.create_rule("events", "all", RuleDescription(name="also"))
    action = SqlRuleAction(expression="SET tagged = 'yes'; SET sys.Label = 'new'; REMOVE secret")
    space.create_rule("events", "all", RuleDescription(name="tag", action=action))
    topic.send(message(b"x", subject="old", application={"secret": 1, "kept": 2}))
    plain, changed = receive(subscription.main, 5)
    assert {"secret": 1, "kept": 2} == application_of(plain)
    assert {"kept": 2, "tagged": "yes", "RuleName": "tag"} == application_of(changed)
    assert ("old", "new") == tuple(m.content.sections().decode_properties().subject for m in (plain, changed))


def test_an_action_may_set_the_session_and_the_time_to_live(space: Namespace, topic: Topic, clock: ManualClock) -> None:
    subscription = subscribe(
        space, "events", "s", requires_session=True, action="SET sys.SessionId = colour; SET sys.TimeToLive = 10"
    )
    topic.send(message(application={"colour": "red"}))
    (taken,) = accept(subscription.main, "red", credit=1).got
    assert clock.now() + 10 == taken.expires_at


def test_an_action_replaces_a_property_whatever_its_case(space: Namespace, topic: Topic) -> None:
    subscription = subscribe(space, "events", "s", action="SET colour = 'blue'; REMOVE SECRET; SET sys.Label = 'x'")
    topic.send(message(application={"Colour": "red", "Secret": 1}))
    (changed,) = receive(subscription.main)
    assert {"colour": "blue", "RuleName": "$Default"} == application_of(changed)
    assert "x" == changed.content.sections().decode_properties().subject


def test_an_action_that_makes_an_impossible_message_buries_it(space: Namespace, topic: Topic) -> None:
    subscription = subscribe(space, "events", "s", action="SET sys.SessionId = long")
    topic.send(message(application={"long": "x" * 129}))
    assert (0, 1) == (subscription.main.message_count, subscription.dead_letters.message_count)


def test_a_session_subscription_buries_what_has_no_session(space: Namespace, topic: Topic) -> None:
    subscription = subscribe(space, "events", "s", requires_session=True)
    topic.send(message(b"with", session_id="a"))
    topic.send(message(b"without"))
    assert [b"with"] == [body_of(m) for m in accept(subscription.main, credit=5).got]
    (buried,) = receive(subscription.dead_letters)
    assert (b"without", "Session ID is null") == (body_of(buried), application_of(buried)["DeadLetterReason"])


@pytest.mark.parametrize("dead_letters", [True, False])
def test_a_filter_that_fails_buries_the_message_where_asked(space: Namespace, topic: Topic, dead_letters: bool) -> None:
    subscription = subscribe(
        space,
        "events",
        "s",
        rule=SqlFilter(expression="1 / zero = 1"),
        dead_lettering_on_filter_evaluation_exceptions=dead_letters,
    )
    topic.send(message(application={"zero": 0}))
    assert (0, int(dead_letters)) == (subscription.main.message_count, subscription.dead_letters.message_count)


def test_the_shorter_time_to_live_of_topic_and_subscription_counts(space: Namespace, clock: ManualClock) -> None:
    topic = space.create_topic("short", TopicDescription(default_message_time_to_live=timedelta(seconds=20)))
    shorter = subscribe(space, "short", "shorter", default_message_time_to_live=timedelta(seconds=5))
    same = subscribe(space, "short", "same")
    topic.send(message(ttl_s=60))
    assert [clock.now() + 5] == [m.expires_at for m in shorter.main.messages()]
    assert [clock.now() + 20] == [m.expires_at for m in same.main.messages()]


def test_a_scheduled_message_reaches_the_subscriptions_of_its_time(
    space: Namespace, topic: Topic, clock: ManualClock
) -> None:
    number = topic.send(message(b"later", scheduled_at=clock.now() + 10))
    cancelled = topic.send(message(scheduled_at=clock.now() + 10))
    topic.inbox.cancel_scheduled([cancelled])
    late = subscribe(space, "events", "late")
    assert 1 == topic.scheduled_count
    clock.advance(10)
    assert [b"later"] == [body_of(m) for m in receive(late.main, 5)]
    assert 1 == number


def test_rules_can_be_changed_while_messages_flow(space: Namespace, topic: Topic) -> None:
    subscription = subscribe(space, "events", "s")
    space.delete_rule("events", "s", "$default")
    topic.send(message(b"no rule, no copy"))
    space.create_rule("events", "s", RuleDescription(name="red", filter=SqlFilter(expression="colour = 'red'")))
    topic.send(message(b"1", application={"colour": "red"}))
    space.update_rule("events", "s", RuleDescription(name="RED", filter=SqlFilter(expression="colour = 'blue'")))
    topic.send(message(b"2", application={"colour": "red"}))
    assert [b"1"] == [body_of(m) for m in receive(subscription.main, 5)]
    with pytest.raises(EntityExists):
        space.create_rule("events", "s", RuleDescription(name="Red"))
    with pytest.raises(EntityNotFound):
        space.delete_rule("events", "s", "blue")


def test_a_subscription_that_cannot_be_received_from_still_gets_its_copies(space: Namespace, topic: Topic) -> None:
    subscription = subscribe(space, "events", "s", status=EntityStatus.RECEIVE_DISABLED)
    topic.send(message())
    assert 1 == subscription.main.message_count


def test_subscriptions_count_towards_the_size_of_their_topic(space: Namespace, topic: Topic) -> None:
    subscriptions = [subscribe(space, "events", name) for name in "ab"]
    topic.send(message(b"x" * 100))
    assert sum(s.size_bytes for s in subscriptions) == topic.size_bytes > 200
