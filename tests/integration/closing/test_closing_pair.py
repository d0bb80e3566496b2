"""Closed, faulted and opened: what senders see, over the real SDK, the embedded broker and Azurite."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.identity import CredentialUnavailableError

from shared.adapters.servicebus import SdkLinks
from shared.domain.failures import Failure
from shared.domain.pair import EntityPath, Side
from shared.domain.proofs import PROOFS_NEEDED, proof_of
from shared.errors import Misconfigured, PairClosed, PairFaulted
from shared.paired_sender import PairedSender
from shared.ports import SendFailed
from shared.telemetry_events import FactoryChanged
from tests.support.send_services import PairOnBroker, Recorder, until

ORDERS = EntityPath("orders")


async def test_sends_are_refused_when_the_pair_is_closed_and_work_again_when_it_is_open(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    async with (
        PairedSender(pair.settings(), create_queues=False) as one,
        PairedSender(pair.settings(), create_queues=False) as other,
    ):
        await other.send("orders", "before")
        await one.runtime.closing.close(Side.PRIMARY, reason="maintenance", by="ann")
        await one.send("orders", "one side is down: the partner may still follow")
        await one.runtime.closing.close(Side.SECONDARY, reason="maintenance too", by="ann")
        with pytest.raises(PairClosed, match=r"primary closed: maintenance; secondary closed: maintenance too"):
            await one.send("orders", "refused at once where it was closed")
        factories = other.runtime.state
        await until(lambda: not factories.factories[Side.SECONDARY].is_open, seconds=5, what="the other instance knows")
        with pytest.raises(PairClosed):
            await other.send("orders", "refused elsewhere too")
        await one.runtime.closing.open(reason="", by="ann")
        await one.send("orders", "open again")
        await until(lambda: factories.factories[Side.PRIMARY].is_open, seconds=5, what="the other instance knows")
        await other.send("orders", "open again elsewhere")
    assert 4 == len(pair.in_primary("orders"))


async def test_a_faulted_pair_tells_so(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    async with PairedSender(pair.settings(), create_queues=False) as bus:
        await bus.runtime.closing.close(Side.PRIMARY, reason="maintenance", by="ann")
        await bus.runtime.closing.fault(Side.SECONDARY, reason="broken", by="ann")
        with pytest.raises(PairFaulted, match="secondary faulted: broken"):
            await bus.send("orders", "refused")


@pytest.mark.timeout(60)
async def test_a_namespace_that_refuses_the_credentials_is_faulted_after_several_proofs(pair: PairOnBroker) -> None:
    pair.create_entities("orders")
    telemetry = Recorder()
    async with PairedSender(pair.settings(), create_queues=False, telemetry=telemetry) as bus:
        await bus.send("orders", "while they were good")
        await pair.broker.inject(kind="revoke", namespace="primary")
        state = bus.runtime.state
        refusals = 0
        while state.factories[Side.PRIMARY].is_open:
            with pytest.raises(Misconfigured):
                await bus.send("orders", "refused")
            refusals += 1
            assert refusals < 1000
            await asyncio.sleep(0.25)
    assert refusals >= PROOFS_NEEDED
    factory = (await factories_of(pair))[Side.PRIMARY]
    assert ("faulted", "the app itself") == (factory.state.value, factory.by)
    assert "refuses the app's credentials, proven 5 times in a row" in factory.reason
    assert pair.primary.connection_string.partition("SharedAccessKey=")[2][:20] not in factory.reason
    assert 1 == len(telemetry.of(FactoryChanged))


async def factories_of(pair: PairOnBroker) -> dict[Side, Any]:
    async with PairedSender(pair.settings(), create_queues=False) as bus:
        return bus.runtime.state.factories


@pytest.mark.parametrize(
    ("errno", "expected"),
    [
        (socket.EAI_NONAME, Failure.NAMESPACE_NOT_FOUND),
        (socket.EAI_AGAIN, Failure.CONNECTION),
    ],
)
async def test_a_name_that_does_not_exist_is_told_from_one_that_nobody_can_look_up(
    pair: PairOnBroker, monkeypatch: pytest.MonkeyPatch, errno: int, expected: Failure
) -> None:
    text = pair.primary.connection_string.replace("127.0.0.1", "contoso.servicebus.test")
    settings = pair.settings(ServiceBusPrimary=text)
    monkeypatch.setattr(socket, "getaddrinfo", _unknown(errno, socket.getaddrinfo))
    connections = {Side.PRIMARY: settings.primary, Side.SECONDARY: settings.secondary}
    link = SdkLinks(connections, dict.fromkeys(Side)).to(Side.PRIMARY, ORDERS)
    with pytest.raises(SendFailed) as failed:
        await link.open()
    await link.close()
    assert expected is failed.value.failure


class NoTokens:
    """A token service that is away, or that has another name than anybody knows."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        raise self._error

    async def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize(
    "error",
    [
        CredentialUnavailableError(message="no response from the IMDS endpoint"),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    ],
)
async def test_a_token_service_that_is_away_proves_nothing_about_the_namespace(
    pair: PairOnBroker, error: Exception
) -> None:
    """It is an outage: a fault would outlast it until somebody opens the pair."""
    pair.create_entities("orders")
    settings = pair.settings()
    connections = {Side.PRIMARY: settings.primary, Side.SECONDARY: settings.secondary}
    link = SdkLinks(connections, dict.fromkeys(Side)).to(Side.PRIMARY, ORDERS)
    # The embedded broker is reached with a connection string; only the token is had from elsewhere.
    link._sender._credential = NoTokens(error)  # type: ignore[assignment]
    with pytest.raises(SendFailed) as failed:
        await link.open()
    await link.close()
    assert None is proof_of(failed.value.failure)


def _unknown(errno: int, real: Any) -> Any:
    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        if str(host).endswith(".test"):
            raise socket.gaierror(errno, "as the resolver said")
        return real(host, *arguments, **options)

    return getaddrinfo
