"""The SDK's client as the benchmarks use it, and the two servers it is pointed at."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.management import ServiceBusAdministrationClient

from tests.conformance.broker_process import Address, BrokerProcess

REPOSITORY = Path(__file__).resolve().parents[1]
LOG = REPOSITORY / "build" / "bench" / "broker.log"
STOP_SECONDS_MAX = 5
RECEIVE_SECONDS_MAX = 60
RECEIVE_AT_ONCE = 100


@contextmanager
def broker(*queues: str, options: tuple[str, ...] = ()) -> Iterator[BrokerProcess]:
    """A fresh broker with these queues."""
    with BrokerProcess(log=LOG, options=options) as process:
        create_queues(process.address, *queues)
        yield process


def create_queues(address: Address, *queues: str) -> None:
    with ServiceBusAdministrationClient.from_connection_string(
        address.connection_string, connection_verify=address.authority
    ) as administration:
        for queue in queues:
            administration.create_queue(queue)


def inject(address: Address, **fault: object) -> None:
    """Sets a fault; the broker's one port speaks HTTP as well."""
    host = address.connection_string.split("sb://", 1)[1].split(";", 1)[0]
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{host}/$faults", json.dumps(fault).encode(), headers, method="POST")
    with urllib.request.urlopen(request, timeout=STOP_SECONDS_MAX) as answer:
        assert answer.status == HTTPStatus.CREATED


@contextmanager
def bare_sink() -> Iterator[tuple[str, str]]:
    """What the yardstick is called, and a connection string to it: Proton, or our engine where it is missing."""
    has_proton = importlib.util.find_spec("proton") is not None
    module = "benchmarks._proton_sink" if has_proton else "benchmarks._engine_sink"
    name = "bare Proton sink" if has_proton else "bare sink on our engine"
    command = [sys.executable, "-m", module]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield (
            name,
            f"Endpoint=sb://localhost:{port}/;SharedAccessKeyName=any;SharedAccessKey=any;UseDevelopmentEmulator=true",
        )
    finally:
        process.terminate()
        process.wait(STOP_SECONDS_MAX)
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def sender_to(connection_string: str, queue: str) -> Iterator[ServiceBusSender]:
    """An open sender that has sent its first message."""
    with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_queue_sender(queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage(b"first"))
        yield sender


@contextmanager
def receiver_from(connection_string: str, queue: str) -> Iterator[ServiceBusReceiver]:
    with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_queue_receiver(queue) as receiver,
    ):
        yield receiver


def singles_per_second(sender: ServiceBusSender, *, count: int, body_bytes: int) -> float:
    body = b"x" * body_bytes
    started = time.perf_counter()
    for _ in range(count):
        sender.send_messages(ServiceBusMessage(body))
    return count / (time.perf_counter() - started)


def batched_per_second(sender: ServiceBusSender, *, batches: int, batch: int, body_bytes: int) -> float:
    body = b"x" * body_bytes
    started = time.perf_counter()
    for _ in range(batches):
        sender.send_messages([ServiceBusMessage(body) for _ in range(batch)])
    return batches * batch / (time.perf_counter() - started)


def received_per_second(receiver: ServiceBusReceiver, *, count: int) -> float:
    """Receive with a lock and complete, one by one, as a careful consumer does."""
    started = time.perf_counter()
    done = 0
    while done < count:
        wanted = min(RECEIVE_AT_ONCE, count - done)
        messages = receiver.receive_messages(max_message_count=wanted, max_wait_time=RECEIVE_SECONDS_MAX)
        if not messages:
            raise RuntimeError(f"only {done} of {count} messages came")
        for message in messages:
            receiver.complete_message(message)
        done += len(messages)
    return count / (time.perf_counter() - started)
