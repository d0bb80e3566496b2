"""Topics and subscriptions through the real SDK."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError

from local.broker.descriptions import CorrelationFilter, SqlFilter
from local.broker.entities import Subscription, Topic
from tests.integration.broker.conftest import Connect, receive_until
from tests.integration.broker.test_queues import body

MakeTopic = Callable[..., Topic]
MakeSubscription = Callable[..., Subscription]


async def test_rules_decide_who_gets_what_and_change_it(
    connect: Connect, make_topic: MakeTopic, make_subscription: MakeSubscription
) -> None:
    make_topic()
    everything = make_subscription("everything")
    make_subscription("red", rule=SqlFilter(expression="colour = 'red' AND size > 2.5"))
    make_subscription("mine", rule=CorrelationFilter(correlation_id="me", label="news"))
    make_subscription("marked", rule=SqlFilter(expression="colour IS NOT NULL"), action="SET mark = colour + '!'")
    async with connect() as client:
        async with client.get_topic_sender("events") as sender:
            await sender.send_messages(
                [
                    ServiceBusMessage("1", application_properties={"colour": "red", "size": 3}),
                    ServiceBusMessage("2", application_properties={"colour": "red", "size": 2}),
                    ServiceBusMessage("3", correlation_id="me", subject="news"),
                ]
            )
        for name, expected in (("everything", [b"1", b"2", b"3"]), ("red", [b"1"]), ("mine", [b"3"])):
            async with client.get_subscription_receiver("events", name) as receiver:
                assert expected == [body(m) for m in await receive_until(receiver, len(expected))]
        async with client.get_subscription_receiver("events", "marked") as receiver:
            first, _ = await receive_until(receiver, 2)
            assert (b"red!", b"$Default") == (
                first.application_properties[b"mark"],
                first.application_properties[b"RuleName"],
            )
    assert 3 == everything.main.message_count


async def test_a_subscription_has_dead_letters_of_its_own(
    connect: Connect, make_topic: MakeTopic, make_subscription: MakeSubscription
) -> None:
    make_topic()
    make_subscription()
    async with connect() as client:
        async with client.get_topic_sender("events") as sender:
            await sender.send_messages(ServiceBusMessage("x"))
        async with client.get_subscription_receiver("events", "all") as receiver:
            (got,) = await receive_until(receiver, 1)
            await receiver.dead_letter_message(got, reason="Broken")
        dead_letters = client.get_subscription_receiver("events", "all", sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        async with dead_letters as receiver:
            (dead,) = await receive_until(receiver, 1)
            assert (b"x", "Broken") == (body(dead), dead.dead_letter_reason)
            await receiver.complete_message(dead)


async def test_messages_to_a_topic_can_be_scheduled_and_cancelled(
    connect: Connect, make_topic: MakeTopic, make_subscription: MakeSubscription
) -> None:
    topic = make_topic()
    make_subscription()
    async with connect() as client:
        async with client.get_topic_sender("events") as sender:
            soon = datetime.now(UTC) + timedelta(seconds=1)
            numbers = await sender.schedule_messages([ServiceBusMessage("1"), ServiceBusMessage("2")], soon)
            await sender.cancel_scheduled_messages(numbers[0])
        async with client.get_subscription_receiver("events", "all") as receiver:
            assert [b"2"] == [body(m) for m in await receive_until(receiver, 1)]
    assert 0 == topic.scheduled_count


async def test_topics_are_sent_to_and_subscriptions_received_from(
    connect: Connect, make_topic: MakeTopic, make_subscription: MakeSubscription
) -> None:
    make_topic()
    make_subscription()
    async with connect() as client:
        with pytest.raises(ServiceBusError, match="receive from its subscriptions"):
            async with client.get_queue_receiver("events") as receiver:
                await receiver.receive_messages(1, max_wait_time=1)
        with pytest.raises(ServiceBusError, match="cannot be sent to"):
            async with client.get_topic_sender("events/Subscriptions/all") as sender:
                await sender.send_messages(ServiceBusMessage("x"))
