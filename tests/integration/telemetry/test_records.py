"""The app's records of real sends: in a folder, in blob storage, after a kill; and receipts of what arrived."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from azure.servicebus.aio import ServiceBusClient
from azure.storage.blob import BlobServiceClient

from shared.adapters.receipts import Receipts
from shared.paired_sender import PairedSender
from tests.support.app_process import ROOT
from tests.support.send_services import PairOnBroker, until

KILLED = """
import asyncio, os, sys
from shared.paired_sender import PairedSender

async def main():
    async with PairedSender(authority_file=sys.argv[1]) as bus:
        for number in range(20):
            await bus.send("orders", f"{number}")
        await asyncio.sleep(1.5)
        print("written", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def records(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("date=*/hour=*/*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def start_killable(pair: PairOnBroker, folder: Path) -> subprocess.Popen[bytes]:
    env = {**os.environ, **pair.app_settings(TELEMETRY_FOLDER=str(folder)), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", KILLED, str(pair.broker.authority_file)]
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE)


async def test_every_send_is_a_record_with_its_route_and_receipts_prove_the_arrival(
    pair: PairOnBroker, tmp_path: Path
) -> None:
    pair.create_entities("orders")
    settings = pair.settings(TELEMETRY_FOLDER=str(tmp_path), FAILOVER_INTERVAL="PT0S")
    async with PairedSender(settings, authority_file=str(pair.broker.authority_file)) as bus:
        for number in range(5):
            await bus.send("orders", f"before {number}")
        await pair.broker.inject(kind="disable", namespace="primary")
        await bus.send("orders", "during")
        assert "availability.changed" in [event.name for event in bus.runtime.recent.latest()]
        await pair.broker.heal()
    client = ServiceBusClient.from_connection_string(pair.primary.connection_string)
    with Receipts(tmp_path) as receipts:
        async with client, client.get_queue_receiver("orders") as receiver:
            assert 5 == await receipts.audit("orders", receiver)
    found = records(tmp_path)
    sends = [record for record in found if record["event"] == "send.accepted"]
    assert [1, 1, 1, 1, 1, 2] == [record["attempt"] for record in sends]
    assert {True, False} == {"backlog_queue" in record for record in sends}
    received = Counter(record["message_id"] for record in found if record["event"] == "message.received")
    assert Counter(record["message_id"] for record in sends[:5]) == received
    assert [5] == [record["messages"] for record in found if record["event"] == "audit.completed"]
    assert "before 0" not in str(found)


async def test_records_go_to_blob_storage(pair: PairOnBroker, storage: str, tmp_path: Path) -> None:
    pair.create_entities("orders")
    container = f"telemetry-{pair.name}"
    settings = pair.settings(TELEMETRY_CONTAINER=container, TELEMETRY_FOLDER=str(tmp_path))
    async with PairedSender(settings, authority_file=str(pair.broker.authority_file)) as bus:
        for number in range(5):
            await bus.send("orders", f"{number}")
    with BlobServiceClient.from_connection_string(storage) as service:
        client = service.get_container_client(container)
        (blob,) = client.list_blobs()
        lines = client.download_blob(blob.name).readall().splitlines()
    assert blob.name.startswith("date=")
    assert ["telemetry.started", *5 * ["send.accepted"], "telemetry.stopped"] == [
        json.loads(line)["event"] for line in lines
    ]
    assert [] == files_in(tmp_path)


async def test_a_killed_instance_loses_only_what_it_had_not_flushed(pair: PairOnBroker, tmp_path: Path) -> None:
    pair.create_entities("orders")
    with start_killable(pair, tmp_path) as process:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        try:
            await until(lambda: process.stdout.read(), seconds=60, what="twenty sends")  # type: ignore[union-attr]
        finally:
            process.send_signal(signal.SIGKILL)
    assert [] == records(tmp_path)
    with Receipts(tmp_path) as receipts:
        receipts.audited("nothing", since=receipts._clock.now())
    found = [record for record in records(tmp_path) if not record["instance"].startswith("receipts")]
    assert 20 == sum(record["event"] == "send.accepted" for record in found)
    assert "telemetry.stopped" not in [record["event"] for record in found]
