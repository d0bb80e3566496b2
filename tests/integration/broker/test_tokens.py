"""Who may do what: shared access signatures through the real SDK."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusAuthorizationError, ServiceBusError

from local.broker.auth import Right, SharedAccessKey, sign_sas
from local.broker.descriptions import AuthorizationRule
from local.broker.entities import Queue
from tests.integration.broker.conftest import Awaited, Connect, receive_until
from tests.support.broker import KEY, KEY_NAME
from tests.support.broker_thread import BrokerThread
from tests.support.sdk_leftovers import SDK_LEFTOVERS

pytestmark = pytest.mark.filterwarnings(SDK_LEFTOVERS)


@pytest.fixture(autouse=True)
def queue(make_queue: Callable[..., Queue]) -> Queue:
    rule = AuthorizationRule(key_name="of-the-queue", primary_key="its key", rights=("Send",))
    make_queue("other")
    return make_queue("orders", authorization_rules=(rule,))


def with_key(broker: BrokerThread, name: str, key: str) -> str:
    return broker.connection_string().replace(KEY_NAME, name).replace(KEY, key)


def with_token(broker: BrokerThread, *, audience: str = "", lifetime_s: float = 3600.0) -> str:
    endpoint = broker.connection_string().split(";")[0].removeprefix("Endpoint=")
    token = sign_sas(f"{endpoint}/{audience}", KEY_NAME, KEY, int(time.time() + lifetime_s))
    return f"Endpoint={endpoint};SharedAccessSignature={token};UseDevelopmentEmulator=true"


async def send(connect: Connect, text: str, queue: str = "orders") -> None:
    async with connect(connection_string=text) as client, client.get_queue_sender(queue) as sender:
        await sender.send_messages(ServiceBusMessage("x"))


async def receive(connect: Connect, text: str, queue: str = "orders") -> list[Any]:
    async with connect(connection_string=text) as client, client.get_queue_receiver(queue) as receiver:
        return await receive_until(receiver, 1)


async def test_a_wrong_key_is_refused(connect: Connect, broker: BrokerThread) -> None:
    with pytest.raises(ServiceBusAuthenticationError):
        await send(connect, with_key(broker, KEY_NAME, "wrong"))
    with pytest.raises(ServiceBusAuthenticationError):
        await send(connect, with_key(broker, "nobody", KEY))


async def test_a_token_is_good_until_it_runs_out(connect: Connect, broker: BrokerThread) -> None:
    await send(connect, with_token(broker))
    with pytest.raises(ServiceBusAuthenticationError):
        await send(connect, with_token(broker, lifetime_s=-5))


async def test_a_token_is_good_for_its_audience_only(connect: Connect, broker: BrokerThread) -> None:
    await send(connect, with_token(broker, audience="orders"))
    with pytest.raises(ServiceBusAuthenticationError):
        await send(connect, with_token(broker, audience="other"))


@pytest.mark.parametrize(("right", "works", "fails"), [(Right.SEND, send, receive), (Right.LISTEN, receive, send)])
async def test_a_right_is_for_one_way(
    connect: Connect, broker: BrokerThread, right: Right, works: Callable[..., Any], fails: Callable[..., Any]
) -> None:
    broker.call(lambda s: s.keys.put(SharedAccessKey(name=right.value, primary="k", rights=frozenset({right}))))
    await send(connect, broker.connection_string())
    await works(connect, with_key(broker, right.value, "k"))
    with pytest.raises(ServiceBusAuthorizationError):
        await fails(connect, with_key(broker, right.value, "k"))


async def test_a_key_of_one_queue_opens_no_other(connect: Connect, broker: BrokerThread) -> None:
    text = with_key(broker, "of-the-queue", "its key")
    await send(connect, text)
    with pytest.raises(ServiceBusAuthenticationError):
        await send(connect, text, "other")
    with pytest.raises(ServiceBusAuthorizationError):
        await receive(connect, text)


class Credential:
    """Gives the same short-lived token each time; it serves both flavours of the SDK."""

    def __init__(self, text: str, expires_at: int) -> None:
        self._token = AccessToken(text, expires_at)

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        return self._token


async def test_a_made_up_bearer_token_is_refused(broker: BrokerThread) -> None:
    endpoint = broker.connection_string().split(";")[0].removeprefix("Endpoint=sb://")
    credential = Credential("made.up.token", int(time.time()) + 3600)
    client = ServiceBusClient(endpoint, credential, retry_total=0, use_tls=False)
    async with Awaited(client) as opened:
        with pytest.raises(ServiceBusError):
            await opened.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
