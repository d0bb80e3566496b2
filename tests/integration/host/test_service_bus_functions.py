import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.amqp import AmqpAnnotatedMessage

from local.host.pump import Pump
from tests.support.host_fixtures import ToyLog, until, until_async
from tests.support.host_setup import StartHost

if TYPE_CHECKING:
    from local.broker.broker import Broker


class Bus:
    """A plain client beside the host."""

    def __init__(self, client: ServiceBusClient, connection_string: str) -> None:
        self.client = client
        self.connection_string = connection_string

    async def send(self, queue: str, *messages: ServiceBusMessage) -> None:
        async with self.client.get_queue_sender(queue) as sender:
            await sender.send_messages(list(messages))

    async def bodies(self, queue: str, count: int) -> list[str]:
        async with self.client.get_queue_receiver(
            queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
        ) as receiver:
            return [str(message) for message in await receiver.receive_messages(count, max_wait_time=10)]

    async def left(self, queue: str) -> int:
        async with self.client.get_queue_receiver(queue) as receiver:
            return len(await receiver.peek_messages(100))


@pytest.fixture
async def bus(broker: "Broker") -> AsyncIterator[Bus]:
    string = broker["toy"].connection_string
    async with ServiceBusClient.from_connection_string(string) as client:
        yield Bus(client, string)


def fields(entry: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: entry[name] for name in names}


async def test_a_message_is_handled_once_and_completed(start_host: StartHost, bus: Bus, toy_log: ToyLog) -> None:
    async with start_host(take_text="on", ToyBus=bus.connection_string):
        await bus.send("toy", *(ServiceBusMessage(f"m{n}") for n in range(20)))
        await until(lambda: len(toy_log.entries("text")) == 20)
        await until_async(lambda: _empty(bus, "toy"))
    assert {f"m{n}" for n in range(20)} == {entry["body"] for entry in toy_log.entries("text")}


async def _empty(bus: Bus, queue: str) -> bool:
    return await bus.left(queue) == 0


async def test_metadata_is_what_the_real_extension_sends(start_host: StartHost, bus: Bus, toy_log: ToyLog) -> None:
    message = ServiceBusMessage(
        "text", message_id="id", correlation_id="c", subject="s", to="t", content_type="text/plain",
        partition_key="p", application_properties={"n": 1, "t": "x", "b": True},
    )  # fmt: skip
    async with start_host(take_text="on", ToyBus=bus.connection_string):
        await bus.send("toy", message)
        await until(lambda: toy_log.entries("text"))
    (entry,) = toy_log.entries("text")
    expected = {
        "message_id": "id", "correlation_id": "c", "subject": "s", "to": "t", "content_type": "text/plain",
        "partition_key": "p", "user_properties": {"n": 1, "t": "x", "b": True}, "delivery_count": 1,
        "sequence_number": 1, "session_id": None,
    }  # fmt: skip
    assert expected == fields(entry, list(expected))
    never_sent = ("ttl", "locked_until", "dead_letter_reason")
    assert dict.fromkeys(never_sent) == fields(entry, never_sent)
    assert "+" not in entry["enqueued"]
    assert {"UserProperties", "ApplicationProperties", "LockToken", "Label", "ExpiresAtUtc"} <= set(entry["metadata"])
    assert {"TimeToLive", "State", "LockedUntil", "ReplyTo"}.isdisjoint(entry["metadata"])


async def test_a_message_without_a_properties_section_is_taken_like_any_other(
    start_host: StartHost, bus: Bus, toy_log: ToyLog
) -> None:
    """Plain AMQP clients may leave it out."""
    async with start_host(take_text="on", ToyBus=bus.connection_string):
        async with bus.client.get_queue_sender("toy") as sender:
            await sender.send_messages(AmqpAnnotatedMessage(data_body=b"bare"))
        await until(lambda: toy_log.entries("text"))
        await until_async(lambda: _empty(bus, "toy"))
    (entry,) = toy_log.entries("text")
    expected = {"body": "bare", "message_id": None, "content_type": None, "session_id": None, "delivery_count": 1}
    assert expected == fields(entry, list(expected))


async def test_a_json_body_overrides_metadata_of_text_triggers_but_not_of_binary_ones(
    start_host: StartHost, bus: Bus, toy_log: ToyLog
) -> None:
    body = '{"to": "from the body", "messageId": "forged", "deliveryCount": 7, "subject": null, "list": [1]}'
    async with start_host(take_text="on", take_binary="on", ToyBus=bus.connection_string):
        for queue in ("toy", "toy-binary"):
            await bus.send(queue, ServiceBusMessage(body, to="real", message_id="real", subject="real"))
        await until(lambda: toy_log.entries("text") and toy_log.entries("binary"))
    overridden = {"to": "from the body", "message_id": "forged", "delivery_count": 7, "subject": "real"}
    assert overridden == fields(toy_log.entries("text")[0], list(overridden))
    assert {"to": "real", "message_id": "real"} == fields(toy_log.entries("binary")[0], ["to", "message_id"])


async def test_a_body_that_breaks_the_metadata_is_abandoned_before_any_code_runs(
    start_host: StartHost, bus: Bus, toy_log: ToyLog
) -> None:
    async with start_host(take_text="on", ToyBus=bus.connection_string):
        await bus.send("toy", ServiceBusMessage('{"deliveryCount": "abc"}'))
        dead = bus.client.get_queue_receiver("toy", sub_queue="deadletter")
        async with dead:
            assert 1 == len(await dead.receive_messages(1, max_wait_time=20))
    assert [] == toy_log.entries("text")


async def test_a_failing_message_comes_again_at_once_until_it_is_dead_lettered(
    start_host: StartHost, bus: Bus, toy_log: ToyLog
) -> None:
    async with start_host(take_text="on", take_dead="on", ToyBus=bus.connection_string):
        await bus.send("toy", ServiceBusMessage("fail"), ServiceBusMessage("fine"))
        await until(lambda: toy_log.entries("dead"))
    assert [1, 2, 3] == [entry["delivery_count"] for entry in toy_log.entries("text") if entry["body"] == "fail"]
    (dead,) = toy_log.entries("dead")
    assert (None, "MaxDeliveryCountExceeded") == (dead["reason"], dead["user_properties"]["DeadLetterReason"])


async def test_a_lock_is_renewed_while_a_call_runs(start_host: StartHost, bus: Bus, toy_log: ToyLog) -> None:
    """The call takes longer than the queue's lock of five seconds, and the message still comes only once."""
    async with start_host(take_binary="on", ToyBus=bus.connection_string) as host:
        host.host._invoker._deadlines._limit_s = 60
        await bus.send("toy-binary", ServiceBusMessage(b"slow7", message_id="slow"))
        assert ["done slow"] == await bus.bodies("toy-results", 1)
        await until_async(lambda: _empty(bus, "toy-binary"))
    assert 1 == len(toy_log.entries("binary"))


async def test_batches_carry_the_real_hosts_shifted_arrays(start_host: StartHost, bus: Bus, toy_log: ToyLog) -> None:
    await bus.send(
        "toy-batch",
        ServiceBusMessage("a", message_id="1"),
        ServiceBusMessage("b", message_id="2", correlation_id="of b"),
    )
    async with start_host(take_batch="on", ToyBus=bus.connection_string):
        await until(lambda: toy_log.entries("batch"))
        await until_async(lambda: _empty(bus, "toy-batch"))
    (entry,) = toy_log.entries("batch")
    assert {"bodies": ["a", "b"], "ids": ["1", "2"], "correlation": ["of b", None]} == fields(
        entry, ["bodies", "ids", "correlation"]
    )


async def test_a_failed_batch_is_abandoned_as_a_whole(start_host: StartHost, bus: Bus, toy_log: ToyLog) -> None:
    async with start_host(take_batch="on", ToyBus=bus.connection_string):
        await bus.send("toy-batch", ServiceBusMessage("fine"), ServiceBusMessage("fail"))
        await until(lambda: sum(entry["bodies"].count("fail") for entry in toy_log.entries("batch")) == 2)
        await until_async(lambda: _empty(bus, "toy-batch"))


async def test_sessions_keep_their_order_one_call_at_a_time(start_host: StartHost, bus: Bus, toy_log: ToyLog) -> None:
    async with start_host(take_session="on", ToyBus=bus.connection_string):
        await bus.send(
            "toy-sessions", *(ServiceBusMessage(f"{n}", session_id=session) for n in range(5) for session in "abc")
        )
        await until(lambda: len(toy_log.entries("session end")) == 15)
    for session in "abc":
        own = [entry for entry in toy_log.entries() if entry["session_id"] == session]
        expected = [(kind, str(n)) for n in range(5) for kind in ("session begin", "session end")]
        assert expected == [(entry["kind"], entry["body"]) for entry in own]


async def test_more_sessions_than_receivers_are_all_served(start_host: StartHost, bus: Bus, toy_log: ToyLog) -> None:
    async with start_host(take_session="on", ToyBus=bus.connection_string):
        await bus.send("toy-sessions", *(ServiceBusMessage("x", session_id=f"s{n}") for n in range(12)))
        await until(lambda: len(toy_log.entries("session end")) == 12, deadline_s=60)


async def test_without_auto_complete_nothing_is_settled_and_the_lock_runs_out(
    start_host: StartHost, bus: Bus, toy_log: ToyLog
) -> None:
    async with start_host(take_and_leave="on", ToyBus=bus.connection_string):
        await bus.send("toy-manual", ServiceBusMessage("x"))
        await until(lambda: len(toy_log.entries("manual")) == 2)
    assert [1, 2] == [entry["delivery_count"] for entry in toy_log.entries("manual")]


async def test_a_subscription_is_listened_to(start_host: StartHost, bus: Bus, toy_log: ToyLog) -> None:
    async with start_host(take_subscription="on", ToyBus=bus.connection_string):
        async with bus.client.get_topic_sender("toy-topic") as sender:
            await sender.send_messages(ServiceBusMessage("news"))
        await until(lambda: toy_log.entries("subscription"))
    assert ["news"] == [entry["body"] for entry in toy_log.entries("subscription")]


async def test_a_missing_queue_is_one_line_and_the_others_go_on(
    start_host: StartHost, bus: Bus, toy_log: ToyLog, caplog: pytest.LogCaptureFixture
) -> None:
    async with start_host(take_text="on", take_nothing="on", ToyBus=bus.connection_string):
        await until(lambda: "no-such-queue" in caplog.text)
        await bus.send("toy", ServiceBusMessage("fine"))
        await until(lambda: toy_log.entries("text"))
    said = [record.getMessage() for record in caplog.records if "no-such-queue" in record.getMessage()]
    assert ["function 'take_nothing': 'no-such-queue' of connection 'ToyBus' does not exist; trying again"] == said


async def test_a_missing_connection_is_refused_by_name(start_host: StartHost) -> None:
    async with start_host(take_text="on") as host:
        (refused,) = host.host.refused
    assert "function 'take_text': connection 'ToyBus' is not set" in str(refused)


async def test_a_listener_outlives_an_outage(
    start_host: StartHost, bus: Bus, toy_log: ToyLog, broker: "Broker", caplog: pytest.LogCaptureFixture
) -> None:
    async with start_host(take_text="on", ToyBus=bus.connection_string):
        await bus.send("toy", ServiceBusMessage("before"))
        await until(lambda: len(toy_log.entries("text")) == 1)
        await broker.inject(kind="refuse", namespace="toy")
        await until(lambda: "trying again" in caplog.text)
        await broker.heal()
        async with (
            ServiceBusClient.from_connection_string(bus.connection_string) as client,
            client.get_queue_sender("toy") as sender,
        ):
            await sender.send_messages(ServiceBusMessage("after"))
        await until(lambda: len(toy_log.entries("text")) == 2)
    assert ["before", "after"] == [entry["body"] for entry in toy_log.entries("text")]


async def test_a_listener_outlives_an_error_that_nobody_thought_of(
    start_host: StartHost,
    bus: Bus,
    toy_log: ToyLog,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run, failures = Pump.run, [KeyError("a mistake"), KeyError("a mistake")]

    async def fail_first(pump: Pump, receiver: ServiceBusReceiver) -> None:
        if failures:
            raise failures.pop()
        await run(pump, receiver)

    monkeypatch.setattr(Pump, "run", fail_first)
    async with start_host(take_text="on", ToyBus=bus.connection_string):
        await bus.send("toy", ServiceBusMessage("after all"))
        await until(lambda: toy_log.entries("text"))
    assert [] == failures
    assert "cannot receive from 'toy' of connection 'ToyBus': KeyError: 'a mistake'; trying again" in caplog.text


async def test_a_call_that_succeeds_after_stop_was_asked_for_is_given_back(
    start_host: StartHost, bus: Bus, toy_log: ToyLog
) -> None:
    async with start_host(take_binary="on", ToyBus=bus.connection_string):
        await bus.send("toy-binary", ServiceBusMessage(b"slow1", message_id="late"))
        await until(lambda: toy_log.entries("binary"))
    assert ["done late"] == await bus.bodies("toy-results", 1)
    async with bus.client.get_queue_receiver("toy-binary") as receiver:
        (message,) = await receiver.receive_messages(1, max_wait_time=10)
        assert 1 == message.delivery_count
        await receiver.complete_message(message)


async def test_no_more_calls_run_at_once_than_allowed(start_host: StartHost, bus: Bus, toy_log: ToyLog) -> None:
    """host.json of the toy app says four."""
    async with start_host(take_binary="on", ToyBus=bus.connection_string):
        await bus.send("toy-binary", *(ServiceBusMessage(b"slow1") for _ in range(6)))
        await until(lambda: len(toy_log.entries("binary")) == 4)
        await asyncio.sleep(0.3)
        assert 4 == len(toy_log.entries("binary"))
        await until(lambda: len(toy_log.entries("binary")) == 6)
        await until_async(lambda: _empty(bus, "toy-binary"))
