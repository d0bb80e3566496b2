"""The proof on a real run: app, broker and outage are real, and the report agrees with the broker and with a ledger."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from pyspark.sql import SparkSession

from local.broker.descriptions import QueueDescription
from pipeline.job import ReportOptions, Wanted, report
from shared.adapters.receipts import Receipts
from shared.domain.availability import Route
from shared.paired_sender import PairedSender
from tests.support.send_services import PairOnBroker, until
from tests.support.syphon_services import SyphonHost, dead_letters, ids

RECEIVED = 50
SECONDS_MAX = 40.0


@dataclass
class Ledger:
    """What the test itself knows: which messages were accepted, by which way."""

    routes: dict[Route, set[str]] = field(default_factory=lambda: {route: set() for route in Route})

    async def send(self, bus: PairedSender, path: str, first: int, count: int) -> None:
        async def one(message_id: str) -> None:
            sent = await bus.send(path, ServiceBusMessage(f"body of {message_id}", message_id=message_id))
            self.routes[sent.via].add(message_id)

        await asyncio.gather(*(one(f"{path}-{number}") for number in range(first, first + count)))

    @property
    def accepted(self) -> int:
        return sum(map(len, self.routes.values()))


def sender(pair: PairOnBroker, folder: Path) -> PairedSender:
    settings = pair.settings(TELEMETRY_FOLDER=str(folder), FAILOVER_INTERVAL="PT0S")
    return PairedSender(settings, authority_file=str(pair.broker.authority_file))


async def live_through_an_outage(pair: PairOnBroker, folder: Path, ledger: Ledger) -> None:
    """`orders` comes home, `bills` stays down and waits, `carts` refuses for good what it gets."""
    pair.create_entities("orders", "bills", "gifts")
    pair.primary.core.create_queue("carts", QueueDescription(requires_session=True))
    async with sender(pair, folder) as bus:
        await ledger.send(bus, "orders", 0, 60)
        await ledger.send(bus, "bills", 0, 20)
        await pair.broker.inject(kind="disable", namespace="primary")
        await ledger.send(bus, "orders", 60, 90)
        await ledger.send(bus, "bills", 20, 15)
        await ledger.send(bus, "carts", 0, 4)
        await pair.broker.heal()
        await pair.broker.inject(kind="disable", namespace="primary", entity="bills")
        await bus.runtime.pinger.ping_what_is_due()
        async with SyphonHost(pair, bus.runtime, pair.backlog_paths()):
            await until(
                lambda: (ids(pair, "orders").total(), len(buried(pair))) == (150, 4),
                seconds=SECONDS_MAX,
                what="orders at home and carts dead-lettered",
            )
        await ledger.send(bus, "orders", 150, 10)
    await pair.broker.heal()


def buried(pair: PairOnBroker) -> list[str]:
    return [str(name) for queue in pair.backlog_paths() for name, _, _ in dead_letters(pair, queue)]


async def receive_and_audit(pair: PairOnBroker, folder: Path) -> None:
    """A receiver writes receipts of what it takes; audits look at all that is left in both namespaces."""
    with Receipts(folder) as receipts:
        async with ServiceBusClient.from_connection_string(pair.primary.connection_string) as client:
            async with client.get_queue_receiver("orders") as receiver:
                for message in await receiver.receive_messages(RECEIVED, max_wait_time=5):
                    receipts.received("orders", message)
                    await receiver.complete_message(message)
                await receipts.audit("orders", receiver)
            for path in ("bills", "gifts"):
                async with client.get_queue_receiver(path) as receiver:
                    await receipts.audit(path, receiver)
        async with ServiceBusClient.from_connection_string(pair.secondary.connection_string) as client:
            for path in pair.backlog_paths():
                async with client.get_queue_receiver(path) as receiver:
                    await receipts.audit(path, receiver)


def brokers_counts(pair: PairOnBroker, taken: int) -> dict[str, int]:
    there = {path: ids(pair, path) for path in ("orders", "bills", "carts", "gifts")}
    assert all(count == 1 for counts in there.values() for count in counts.values()), "there is a duplicate"
    return {
        "delivered": taken + sum(counts.total() for counts in there.values()),
        "waiting": len(pair.in_backlog("bills")),
        "dead_lettered": len(buried(pair)),
        "lost": 0,
        "duplicated": 0,
    }


def summary_of(spark: SparkSession, folder: Path, out: Path) -> dict[str, Any]:
    wanted = Wanted(tables=frozenset({"instances", "deliveries"}))
    return report(spark, ReportOptions(events=str(folder), out=str(out), wanted=wanted), lambda _: None)


async def test_the_report_of_a_real_outage_equals_the_brokers_counts_and_the_ledger(
    spark: SparkSession, pair: PairOnBroker, tmp_path: Path
) -> None:
    folder, ledger = tmp_path / "telemetry", Ledger()
    await live_through_an_outage(pair, folder, ledger)
    await receive_and_audit(pair, folder)
    summary = summary_of(spark, folder, tmp_path / "report")
    expected = brokers_counts(pair, RECEIVED)
    assert expected == {name: summary[name] for name in expected}
    assert ledger.accepted == summary["accepted"] == 199
    assert summary["accepted"] == sum(summary[name] for name in ("delivered", "waiting", "dead_lettered", "lost"))
    assert len(ledger.routes[Route.PRIMARY]) == summary["delivered_via_primary"]
    by_backlog = summary["delivered_via_backlog"] + summary["waiting"] + summary["dead_lettered"]
    assert len(ledger.routes[Route.BACKLOG]) == by_backlog == 109
    assert ("proved", []) == (summary["proof"]["word"], summary["proof"]["holes"])

    stolen = await steal_one(pair, folder, ledger)
    summary = summary_of(spark, folder, tmp_path / "report of the theft")
    assert ([stolen], 1, "lost") == (summary["lost_ids"], summary["lost"], summary["proof"]["word"])
    assert ledger.accepted == summary["accepted"] == 202
    assert expected["delivered"] + 2 == summary["delivered"]


async def steal_one(pair: PairOnBroker, folder: Path, ledger: Ledger) -> str:
    """Somebody receives and completes a message behind the app's back and writes no receipt."""
    async with sender(pair, folder) as bus:
        await ledger.send(bus, "gifts", 0, 3)
    async with ServiceBusClient.from_connection_string(pair.primary.connection_string) as client:
        async with client.get_queue_receiver("gifts") as receiver:
            (message,) = await receiver.receive_messages(1, max_wait_time=5)
            await receiver.complete_message(message)
        with Receipts(folder) as receipts:
            async with client.get_queue_receiver("gifts") as receiver:
                await receipts.audit("gifts", receiver)
    assert Counter(["gifts-0", "gifts-1", "gifts-2"]) - ids(pair, "gifts") == Counter([str(message.message_id)])
    return str(message.message_id)
