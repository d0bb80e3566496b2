"""Ways to trust the broker's certificate authority, and identity-based access, as applications use them."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import aiohttp
import pytest
from azure.core.exceptions import ResourceExistsError, ServiceRequestError
from azure.identity import ManagedIdentityCredential
from azure.identity.aio import ManagedIdentityCredential as AsyncManagedIdentityCredential
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsyncAdministrationClient
from azure.servicebus.management import ServiceBusAdministrationClient, SqlRuleFilter

if TYPE_CHECKING:
    from tests.integration.broker_admin.conftest import Administration


async def test_the_async_client_trusts_by_connection_verify(standard: Administration) -> None:
    async with AsyncAdministrationClient.from_connection_string(
        standard.served.connection_string, connection_verify=standard.authority
    ) as client:
        await client.create_queue("q")
        await client.create_topic("t")
        await client.create_subscription("t", "s")
        await client.create_rule("t", "s", "r", filter=SqlRuleFilter("a = 1"))
        assert [queue.name async for queue in client.list_queues()] == ["q"]
        assert [rule.name async for rule in client.list_rules("t", "s")] == ["$Default", "r"]
        assert (await client.get_queue_runtime_properties("q")).total_message_count == 0
        queue = await client.get_queue("q")
        await client.update_queue(queue, max_delivery_count=4)
        assert (await client.get_queue("q")).max_delivery_count == 4
        with pytest.raises(ResourceExistsError):
            await client.create_queue("q")
        await client.delete_topic("t")
        assert [topic.name async for topic in client.list_topics()] == []


async def test_the_sync_client_trusts_by_environment(standard: Administration, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", standard.authority)

    def work() -> str:
        with ServiceBusAdministrationClient.from_connection_string(standard.served.connection_string) as client:
            return client.create_queue("q").name

    assert await asyncio.to_thread(work) == "q"


async def test_the_async_client_trusts_by_the_environment_it_was_started_with(standard: Administration) -> None:
    program = (
        "import asyncio, os\n"
        "from azure.servicebus.aio.management import ServiceBusAdministrationClient as Client\n"
        "async def main():\n"
        "    async with Client.from_connection_string(os.environ['CONNECTION']) as client:\n"
        "        print((await client.create_queue('q')).name)\n"
        "asyncio.run(main())\n"
    )
    trust = {"SSL_CERT_FILE": standard.authority, "CONNECTION": standard.served.connection_string}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env={**os.environ, **trust}, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await asyncio.wait_for(process.communicate(), 60)
    assert printed.decode().strip() == "q"


async def test_a_client_that_was_not_told_to_trust_does_not(standard: Administration) -> None:
    def work() -> None:
        with (
            ServiceBusAdministrationClient.from_connection_string(
                standard.served.connection_string, retry_total=0
            ) as client,
            pytest.raises(ServiceRequestError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            client.create_queue("q")

    await asyncio.to_thread(work)


async def test_a_managed_identity_administers(standard: Administration, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDENTITY_ENDPOINT", standard.broker.identity_endpoint)
    monkeypatch.setenv("IDENTITY_HEADER", standard.broker.identity_header)
    host = f"127.0.0.1:{standard.served.amqp_port}"

    def work() -> list[str]:
        with (
            ManagedIdentityCredential() as credential,
            ServiceBusAdministrationClient(host, credential, connection_verify=standard.authority) as client,
        ):
            client.create_queue("target")
            client.create_queue("q", forward_to="target")
            return [queue.name for queue in client.list_queues()]

    assert await asyncio.to_thread(work) == ["q", "target"]
    async with (
        AsyncManagedIdentityCredential() as credential,
        AsyncAdministrationClient(host, credential, connection_verify=standard.authority) as client,
    ):
        assert [queue.name async for queue in client.list_queues()] == ["q", "target"]


async def test_the_administration_port_speaks_plain_http(standard: Administration) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{standard.served.control_url}/$namespaceinfo?api-version=2021-05") as answer:
            assert answer.status == 401
            assert "SubCode=40100" in await answer.text()
        async with session.get(f"{standard.served.control_url}/health") as answer:
            assert answer.status == 200
