"""The HTTP API of the app, run by the local host in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from local.broker.descriptions import QueueDescription
from tests.support.app_process import ROOT
from tests.support.send_hosts import SendHost, send_hosts
from tests.support.send_services import PairOnBroker, application_properties

CURL_SECONDS_MAX = 30


@pytest.fixture
async def host(pair: PairOnBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SendHost]:
    monkeypatch.setenv("SSL_CERT_FILE", str(pair.broker.authority_file))
    async with send_hosts(pair, tmp_path, FAILOVER_INTERVAL="PT0S", SEND_DEADLINE="PT8S") as (host,):
        yield host


def problem(answer: httpx.Response) -> tuple[int, str]:
    assert "application/problem+json" == answer.headers["content-type"]
    body = answer.json()
    assert answer.status_code == body["status"]
    assert {"type", "title", "status", "detail", "action"} <= body.keys()
    return answer.status_code, body["type"].removeprefix("urn:paired-namespaces:problem:")


async def test_sending_over_http(pair: PairOnBroker, host: SendHost) -> None:
    """One host for the whole story: starting one takes seconds."""
    pair.primary.core.create_queue("orders", QueueDescription())
    pair.primary.core.create_queue("sales/orders", QueueDescription())
    await the_first_call_pairs(pair, host)
    await a_message_arrives_as_the_rest_api_would_send_it(pair, host)
    await a_batch_arrives_whole(pair, host)
    await mistakes_are_explained(pair, host)
    await keys_are_asked_for(host)
    await an_operator_can_rehearse_a_failover(pair, host)
    await an_outage_diverts(pair, host)
    assert "a-key-for-tests-only" not in host.log_file.read_text()


async def the_first_call_pairs(pair: PairOnBroker, host: SendHost) -> None:
    paired = await host.post("pair")
    again = await host.post("pair")
    assert pair.backlog_paths() == paired["queues"] == again["queues"]
    assert ([], {}, []) == (again["created"], again["left_out"], again["warnings"])
    description = pair.secondary.core.queue(pair.backlog_paths()[0]).description
    assert (5120, 2147483647, True) == (
        description.max_size_in_megabytes,
        description.max_delivery_count,
        description.dead_lettering_on_message_expiration,
    )


async def a_message_arrives_as_the_rest_api_would_send_it(pair: PairOnBroker, host: SendHost) -> None:
    answer = await host.client.post(
        "/api/bus/sales/orders/messages",
        content=b"four apples",
        headers={
            "Content-Type": "text/plain",
            "BrokerProperties": json.dumps({"MessageId": "m1", "Label": "L", "TimeToLive": 60, "SessionId": "s"}),
            "Priority": '"High"',
            "Count": "4",
        },
    )
    assert (201, "primary", "m1", b"") == (
        answer.status_code,
        answer.headers["x-pair-route"],
        answer.headers["x-pair-message-id"],
        answer.content,
    )
    (message,) = pair.in_primary("sales/orders")
    properties = message.content.sections().decode_properties()
    assert ("m1", "L", "text/plain", "s") == (
        properties.message_id,
        properties.subject,
        properties.content_type,
        properties.group_id,
    )
    assert {"priority": "High", "count": 4} == application_properties(message)
    assert 60 == message.content.time_to_live


async def a_batch_arrives_whole(pair: PairOnBroker, host: SendHost) -> None:
    batch = [{"Body": f"b{number}", "UserProperties": {"Kept": number}} for number in range(3)]
    headers = {"Content-Type": "application/vnd.microsoft.servicebus.json"}
    answer = await host.client.post("/api/bus/orders/messages", json=batch, headers=headers)
    assert 201 == answer.status_code
    assert [{"Kept": 0}, {"Kept": 1}, {"Kept": 2}] == list(map(application_properties, pair.in_primary("orders")))
    batch[1]["Body"] = 5  # type: ignore[assignment]
    answer = await host.client.post("/api/bus/orders/messages", json=batch, headers=headers)
    assert (400, "rejected") == problem(answer)
    assert "Message 1 of the batch" in answer.json()["detail"]
    assert 3 == len(pair.in_primary("orders"))


async def mistakes_are_explained(pair: PairOnBroker, host: SendHost) -> None:
    cases = [
        ("nowhere/messages", {}, b"x", (404, "entity-not-found")),
        ("orders/messages", {"BrokerProperties": "{"}, b"x", (400, "rejected")),
        ("orders/messages", {"BrokerProperties": '{"SessionId": "a", "PartitionKey": "b"}'}, b"x", (400, "rejected")),
        ("orders/messages", {"Name": "za\u017c".encode()}, b"x", (400, "rejected")),
        ("orders/messages", {}, b"x" * 300_000, (413, "message-too-large")),
        ("orders/messages", {}, b"x" * 1_100_000, (413, "body-too-large")),
        ("orders/$management/messages", {}, b"x", (400, "rejected")),
        ("orders/%2e%2e/messages", {}, b"x", (400, "rejected")),
        ("orders//messages", {}, b"x", (400, "rejected")),
        ("orders/messages/head", {}, b"x", (400, "rejected")),
        (f"{pair.backlog_paths()[0]}/messages", {}, b"x", (400, "rejected")),
    ]
    for path, headers, body, expected in cases:
        answer = await host.client.post(f"/api/bus/{path}", content=body, headers=headers)  # type: ignore[arg-type]
        assert expected == problem(answer), (path, answer.text)
    assert 3 == len(pair.in_primary("orders"))


async def keys_are_asked_for(host: SendHost) -> None:
    async with httpx.AsyncClient(base_url=host.client.base_url) as stranger:
        answers = [
            await stranger.post("/api/bus/orders/messages", content=b"x"),
            await stranger.get("/api/pair"),
            await stranger.post("/api/pair"),
            await stranger.post("/api/entities/orders/unavailable"),
        ]
    assert [401] * 4 == [answer.status_code for answer in answers]


async def an_operator_can_rehearse_a_failover(pair: PairOnBroker, host: SendHost) -> None:
    marked = await host.post("entities/sales/orders/unavailable?reason=rehearsal")
    assert ("sales/orders", "unavailable", "rehearsal") == (marked["path"], marked["availability"], marked["reason"])
    assert "backlog" == await host.route("sales/orders")
    assert "primary" == await host.route("orders")
    status = await host.status()
    states = {entity["path"]: entity["availability"] for entity in status["entities"]}
    assert {"orders": "available", "sales/orders": "unavailable"} == states
    partitioned = {entity["path"]: entity["partitioned"] for entity in status["entities"]}
    assert {"orders", "sales/orders"} == partitioned.keys()
    assert partitioned["orders"] is False
    assert 1 == status["backlog"]["waiting"]
    (waiting,) = [queue for queue in status["backlog"]["queues"] if queue["active"]]
    assert waiting["oldest"]
    assert ("PT0S", 3, "open") == (
        status["options"]["failover_interval"],
        status["options"]["backlog_queue_count"],
        status["factories"]["primary"]["state"],
    )
    await host.post("entities/sales/orders/healthy")
    assert "primary" == await host.route("sales/orders")
    answer = await host.client.post("/api/entities/sales/orders/sick")
    assert (400, "rejected") == problem(answer)


async def an_outage_diverts(pair: PairOnBroker, host: SendHost) -> None:
    await pair.broker.inject(kind="refuse", namespace="primary")
    started = time.monotonic()
    answers = await asyncio.gather(*(host.send("orders") for _ in range(20)))
    assert time.monotonic() - started < 8
    assert {(201, "backlog")} == {(answer.status_code, answer.headers["x-pair-route"]) for answer in answers}
    await pair.broker.inject(kind="full", namespace="secondary")
    answer = await host.send("orders")
    assert (503, "backlog-exhausted") == problem(answer)
    assert "5" == answer.headers["retry-after"]


async def test_the_curl_examples_of_the_documents_work(pair: PairOnBroker, host: SendHost) -> None:
    pair.primary.core.create_queue("orders", QueueDescription())
    await run_examples("README.md", host)
    assert 3 == len(pair.in_primary("orders"))
    await run_examples("docs/operating.md", host)
    assert (3, 1) == (len(pair.in_primary("orders")), len(pair.in_backlog("orders"))), "one was sent in a rehearsal"
    assert {"open"} == {factory["state"] for factory in (await host.status())["factories"].values()}


async def run_examples(document: str, host: SendHost) -> None:
    examples = re.findall(r"^```bash\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)
    commands = [example for example in examples if "curl" in example]
    assert commands, f"{document} shows what to do with curl"
    env = {**os.environ, "BASE": host.process.address, "KEY": host.key, "ADMIN_KEY": host.key}
    for command in commands:
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-euc", command],
            env=env,
            capture_output=True,
            text=True,
            timeout=CURL_SECONDS_MAX,
            check=False,
        )
        assert 0 == done.returncode, (command, done.stderr)
        statuses = re.findall(r"^HTTP/1.1 (\d+)", done.stdout, re.MULTILINE)
        assert statuses, (command, done.stdout)
        assert set(statuses) <= {"200", "201"}, done.stdout
