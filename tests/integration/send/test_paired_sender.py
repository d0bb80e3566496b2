"""The Python API over the real SDK, the embedded broker and Azurite."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage

from local.broker.descriptions import QueueDescription
from shared.domain.availability import Event, Route
from shared.domain.backlog import backlog_queue_path
from shared.domain.pair import EntityPath
from shared.errors import (
    BacklogExhausted,
    EntityNotFound,
    MessageTooLarge,
    Misconfigured,
    PairingFailed,
    PrimaryFailed,
    Rejected,
)
from shared.paired_sender import PairedSender
from shared.telemetry_events import AvailabilityChanged, CredentialsRefused, SendAccepted
from tests.support.app_process import ROOT, run_python
from tests.support.send_services import PairOnBroker, Recorder, until

ORDERS = EntityPath("orders")


async def test_while_the_primary_is_healthy_messages_go_there_untouched(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    async with PairedSender(pair.settings(), create_queues=False) as bus:
        sent = await bus.send("orders", ServiceBusMessage(b"x", message_id="m1", application_properties={"a": 1}))
    (message,) = pair.in_primary("orders")
    assert (Route.PRIMARY, ("m1",), False) == (sent.via, sent.message_ids, sent.possible_duplicate)
    assert {"a": 1} == message.content.sections().decode_application_properties()
    assert [] == pair.in_backlog()


async def test_a_topic_is_an_entity_like_any_other(pair: PairOnBroker) -> None:
    pair.create_entities()
    pair.create_topic("events", "all")
    async with PairedSender(pair.settings(), create_queues=False) as bus:
        await bus.send("events", "news")
    assert 1 == pair.primary.core.subscription("events", "all").main.message_count


async def test_every_message_gets_an_id_that_is_reported(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    async with PairedSender(pair.settings(), create_queues=False) as bus:
        plain = await bus.send("orders", b"bytes")
        annotated = await bus.send("orders", AmqpAnnotatedMessage(value_body="value"))
    ids = [message.content.message_id for message in pair.in_primary("orders")]
    assert [*plain.message_ids, *annotated.message_ids] == ids
    assert all(ids)


async def test_concurrent_sends_travel_together_and_each_caller_gets_its_own_outcome(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    async with PairedSender(pair.settings(), create_queues=False) as bus:
        await bus.send("orders", "first")

        async def one(number: int) -> object:
            body = b"x" * 300_000 if number == 7 else b"x"
            try:
                return (await bus.send("orders", ServiceBusMessage(body, message_id=f"m{number}"))).via
            except MessageTooLarge as error:
                return error

        outcomes = await asyncio.gather(*(one(number) for number in range(50)))
    too_large = outcomes.pop(7)
    assert isinstance(too_large, MessageTooLarge)
    assert "more than the limit of 262144" in str(too_large)
    assert [Route.PRIMARY] * 49 == outcomes
    assert 50 == len(pair.in_primary("orders"))


async def test_a_batch_is_accepted_whole_or_not_at_all(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    async with PairedSender(pair.settings(), create_queues=False) as bus:
        await bus.send_batch("orders", [ServiceBusMessage(b"x", message_id=f"m{number}") for number in range(5)])
        with pytest.raises(MessageTooLarge, match="bytes over the limit"):
            await bus.send_batch("orders", [ServiceBusMessage(b"x" * 100_000) for _ in range(3)])
        with pytest.raises(Rejected, match="at least one"):
            await bus.send_batch("orders", [])
    assert 5 == len(pair.in_primary("orders"))


async def test_with_interval_zero_the_failing_send_itself_goes_to_the_backlog(pair: PairOnBroker) -> None:
    pair.create_entities("orders", "others")
    telemetry = Recorder()
    settings = pair.settings(FAILOVER_INTERVAL="PT0S", PRIMARY_ATTEMPT_TIMEOUT="PT2S")
    async with PairedSender(settings, telemetry=telemetry, create_queues=False) as bus:
        await bus.send("orders", "before")
        await pair.broker.inject(kind="disable", namespace="primary", entity="orders")
        diverted = await bus.send("orders", ServiceBusMessage("x", message_id="m1", session_id="s"))
        other = await bus.send("others", "unaffected")
        started = time.monotonic()
        again = await bus.send("orders", "y")
        took = time.monotonic() - started
    assert (Route.BACKLOG, Route.PRIMARY, Route.BACKLOG) == (diverted.via, other.via, again.via)
    assert took < 1
    assert diverted.backlog_queue == again.backlog_queue
    assert ["m1", again.message_ids[0]] == [message.content.message_id for message in pair.in_backlog("orders")]
    (change,) = telemetry.of(AvailabilityChanged)
    assert isinstance(change, AvailabilityChanged)
    assert ("available", "unavailable") == (change.before, change.after)
    accepted = [event.backlog_queue for event in telemetry.events if isinstance(event, SendAccepted)]
    assert [None, diverted.backlog_queue, None, diverted.backlog_queue] == accepted


async def test_until_the_interval_has_passed_callers_see_the_failure(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    settings = pair.settings(FAILOVER_INTERVAL="PT1S")
    async with PairedSender(settings, create_queues=False) as bus:
        await bus.send("orders", "before")
        fault = await pair.broker.inject(kind="full", namespace="primary", entity="orders")
        with pytest.raises(PrimaryFailed, match="entity full"):
            await bus.send("orders", "during")
        await pair.broker.heal(fault)
        cleared = await bus.send("orders", "one success clears it")
        await pair.broker.inject(kind="full", namespace="primary", entity="orders")
        with pytest.raises(PrimaryFailed):
            await bus.send("orders", "again")
        state = bus.runtime.state
        await until(lambda: "Unavailable" in repr(state.availability(ORDERS)), seconds=2, what="failover")
        diverted = await bus.send("orders", "after")
    assert (Route.PRIMARY, Route.BACKLOG) == (cleared.via, diverted.via)


async def test_divert_while_suspect_spares_the_caller_the_failure(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    settings = pair.settings(FAILOVER_INTERVAL="PT1H", DIVERT_WHILE_SUSPECT="true")
    async with PairedSender(settings, create_queues=False) as bus:
        await pair.broker.inject(kind="full", namespace="primary", entity="orders", count=1)
        diverted = await bus.send("orders", "x")
        next_one = await bus.send("orders", "y")
    assert (Route.BACKLOG, Route.PRIMARY) == (diverted.via, next_one.via)


async def test_an_entity_that_never_existed_is_the_callers_mistake(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    settings = pair.settings(FAILOVER_INTERVAL="PT0S")
    async with PairedSender(settings, create_queues=False) as bus:
        with pytest.raises(EntityNotFound):
            await bus.send("nowhere", "x")
        await bus.send("orders", "x")
        pair.primary.core.delete_queue("orders")
        deleted = await bus.send("orders", "y")
    assert Route.BACKLOG == deleted.via


async def test_refused_credentials_never_fail_over_and_are_said_aloud(
    pair: PairOnBroker, caplog: pytest.LogCaptureFixture
) -> None:
    pair.create_entities("orders")
    telemetry = Recorder()
    settings = pair.settings(FAILOVER_INTERVAL="PT0S")
    async with PairedSender(settings, telemetry=telemetry, create_queues=False) as bus:
        await pair.broker.inject(kind="revoke", namespace="primary")
        with pytest.raises(Misconfigured, match="primary namespace refused"):
            await bus.send("orders", "x")
    assert [] == pair.in_backlog()
    assert 1 == len(telemetry.of(CredentialsRefused))
    assert any(record.levelname == "CRITICAL" for record in caplog.records)


@pytest.mark.parametrize(
    ("path", "message", "complaint"),
    [
        ("a//b", "x", "single slashes"),
        ("orders/$management", "x", "letters, digits"),
        ("../orders", "x", "starts and ends"),
        ("orders", ServiceBusMessage("x", application_properties={"x-ms-path": "y"}), "belongs to the pair"),
        ("orders", 5, "this is a int"),
        (
            "orders",
            AmqpAnnotatedMessage(
                data_body=b"", properties={"group_id": "a"}, annotations={"x-opt-partition-key": "b"}
            ),
            "both set and differ",
        ),
    ],
)
async def test_bad_input_is_refused_before_anything_is_sent(
    pair: PairOnBroker, path: str, message: object, complaint: str
) -> None:
    async with PairedSender(pair.settings(), create_queues=False) as bus:
        with pytest.raises(Rejected, match=complaint):
            await bus.send(path, message)


async def test_backlog_queues_take_messages_from_the_pair_alone(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    async with PairedSender(pair.settings(), create_queues=False) as bus:
        with pytest.raises(Rejected, match="reserved"):
            await bus.send(pair.backlog_paths()[0], "x")


async def test_a_failing_backlog_queue_leaves_the_rotation_and_returns(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    settings = pair.settings(PRIMARY_ATTEMPT_TIMEOUT="PT2S")
    async with PairedSender(settings, create_queues=False) as bus:
        state = bus.runtime.state
        await state.mark(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
        first = await bus.send("orders", "x")
        await pair.broker.inject(kind="disable", namespace="secondary", entity=str(first.backlog_queue))
        second = await bus.send("orders", "y")
        third = await bus.send("orders", "z")
        assert second.backlog_queue == third.backlog_queue != first.backlog_queue
        assert {first.backlog_queue} == state.rotation.out.keys()
        await pair.broker.heal()
        await until(lambda: not state.rotation.out, seconds=10, what="the queue returns")


async def test_with_every_backlog_queue_failing_callers_are_told(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    settings = pair.settings(SEND_DEADLINE="PT8S")
    async with PairedSender(settings, create_queues=False) as bus:
        await bus.runtime.state.mark(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
        await pair.broker.inject(kind="full", namespace="secondary")
        with pytest.raises(BacklogExhausted, match="entity full"):
            await bus.send("orders", "x")
    assert [] == pair.in_backlog()


async def test_a_message_that_fits_the_primary_but_not_the_backlog_is_refused_with_the_bytes_over(
    pair: PairOnBroker,
) -> None:
    pair.create_entities("orders")
    body = b"x" * (262_144 - 160)
    async with PairedSender(pair.settings(), create_queues=False) as bus:
        sent = await bus.send("orders", ServiceBusMessage(body, message_id="m", session_id="s" * 100))
        await bus.runtime.state.mark(ORDERS, Event.MARKED_UNAVAILABLE, "rehearsal")
        with pytest.raises(MessageTooLarge, match=r"too large to wait there: .* \d+ more than the limit"):
            await bus.send("orders", ServiceBusMessage(body, message_id="m", session_id="s" * 100))
        status = await bus.runtime.status.collect()
    assert Route.PRIMARY == sent.via
    assert any("close to the limit" in warning for warning in status.warnings)


async def test_the_example_of_the_documentation_runs(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    page = (ROOT / "docs" / "sending.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    settings = {**pair.app_settings(), "SSL_CERT_FILE": str(pair.broker.authority_file)}
    done = await asyncio.to_thread(run_python, "-W", "error", "-c", example, settings=settings)
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("primary (")
    assert 103 == len(pair.in_primary("orders"))


async def test_pairing_creates_queues_from_many_instances_at_once(pair: PairOnBroker) -> None:
    authority = str(pair.broker.authority_file)
    senders = [PairedSender(pair.settings(), authority_file=authority, create_queues=False) for _ in range(4)]
    async with senders[0] as a, senders[1] as b, senders[2] as c, senders[3] as d:
        await asyncio.gather(*(bus.pair() for bus in (a, b, c, d)))
        extra = backlog_queue_path(a.runtime.settings.pair.primary, 7)
        pair.secondary.core.create_queue(extra, QueueDescription())
        await a.pair()
    assert {*pair.backlog_paths(), extra} == {queue.path for queue in pair.secondary.core.queues()}
    description = pair.secondary.core.queue(pair.backlog_paths()[0]).description
    assert timedelta(minutes=1) == description.lock_duration
    assert description.auto_delete_on_idle >= timedelta(days=10675198)
    assert description.default_message_time_to_live >= timedelta(days=10675198)


async def test_an_existing_queue_with_other_properties_is_used_with_a_warning(pair: PairOnBroker) -> None:
    pair.secondary.core.create_queue(pair.backlog_paths()[0], QueueDescription(max_delivery_count=10))
    authority = str(pair.broker.authority_file)
    async with PairedSender(pair.settings(), authority_file=authority, create_queues=False) as bus:
        paired = await bus.runtime.pairing.pair()
        status = await bus.runtime.status.collect()
    assert 3 == len(paired.queues)
    assert 10 == pair.secondary.core.queue(pair.backlog_paths()[0]).description.max_delivery_count
    assert any("max_delivery_count is 10" in warning for warning in status.warnings)


async def test_pairing_without_rights_stops_at_once(pair: PairOnBroker) -> None:
    authority = str(pair.broker.authority_file)
    wrong = pair.app_settings()
    wrong["ServiceBusSecondary"] = wrong["ServiceBusSecondary"].replace("a-key-for-tests-only", "another-key")
    async with PairedSender(wrong, authority_file=authority, create_queues=False) as bus:
        with pytest.raises(PairingFailed, match="refused the app's credentials"):
            await bus.pair()
    assert [] == pair.secondary.core.queues()


async def test_pairing_with_a_dead_secondary_says_why(pair: PairOnBroker) -> None:
    settings = pair.app_settings(ServiceBusSecondary="Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b")
    async with PairedSender(settings, create_queues=False) as bus:
        with pytest.raises(PairingFailed, match="Not one backlog queue"):
            await bus.pair()


async def test_backlog_queues_are_made_in_the_background_when_a_sender_starts(pair: PairOnBroker) -> None:
    async with PairedSender(pair.settings(), authority_file=str(pair.broker.authority_file)):
        await until(lambda: len(pair.secondary.core.queues()) == 3, seconds=10, what="pairing")
