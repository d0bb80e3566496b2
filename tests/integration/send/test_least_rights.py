"""The rights that the deployment gives are enough: a sender may only send, a syphon may only send to the primary."""

from __future__ import annotations

import pytest

from local.broker.auth import SharedAccessKey
from local.broker.broker import ServedNamespace
from local.broker.claims import Right
from shared import composition
from shared.domain.message import DataBody, Message, Properties, outgoing
from shared.domain.pair import EntityPath, Side
from shared.errors import PairingFailed
from tests.support.send_services import PairOnBroker, Recorder, until
from tests.support.syphon_services import SyphonHost, ids

ORDERS = EntityPath("orders")
QUEUES = 2
MESSAGES = 5


def connection_string(namespace: ServedNamespace, *rights: Right) -> str:
    """With a key that gives these rights and no others."""
    name = "only-" + "-".join(right.value.lower() for right in rights)
    namespace.core.keys.put(SharedAccessKey(name=name, primary="a-key-of-few-rights", rights=frozenset(rights)))
    parts = dict(part.split("=", 1) for part in namespace.connection_string.rstrip(";").split(";"))
    return ";".join(f"{key}={value}" for key, value in {**parts, **_key(name)}.items()) + ";"


def _key(name: str) -> dict[str, str]:
    return {"SharedAccessKeyName": name, "SharedAccessKey": "a-key-of-few-rights"}


def app(pair: PairOnBroker, *, syphon: bool) -> composition.Runtime:
    """As infra/pair.bicep has it: Data Sender is Send, Data Owner is everything."""
    on_secondary = (Right.SEND, Right.LISTEN, Right.MANAGE) if syphon else (Right.SEND,)
    settings = pair.settings(
        ServiceBusPrimary=connection_string(pair.primary, Right.SEND),
        ServiceBusSecondary=connection_string(pair.secondary, *on_secondary),
        ENABLE_SYPHON=str(syphon).lower(),
        BACKLOG_QUEUE_COUNT=str(QUEUES),
        FAILOVER_INTERVAL="PT0S",
        PRIMARY_ATTEMPT_TIMEOUT="PT15S",
        PING_PRIMARY_INTERVAL="PT30S",
    )
    return composition.build(settings, telemetry=Recorder(), authority_file=str(pair.broker.authority_file))


def message(name: str) -> Message:
    return Message(body=DataBody((b"x",)), properties=Properties(message_id=name))


async def test_a_sender_that_may_only_send_and_a_syphon_keep_the_pair_going(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=0)
    sender, syphon = app(pair, syphon=False), app(pair, syphon=True)
    try:
        with pytest.raises(PairingFailed, match="refused the app's credentials"):
            await sender.pairing.pair()
        assert QUEUES == len((await syphon.pairing.pair()).created)
        await sender.state.refresh()
        assert not sender.pairing.is_needed, "what the syphon created is known to all"
        await sender.sender.send(ORDERS, [outgoing(message("before"))])
        await pair.broker.inject(kind="refuse", namespace="primary")
        for number in range(MESSAGES):
            sent = await sender.sender.send(ORDERS, [outgoing(message(f"m{number}"))])
            assert sent.backlog_queue is not None
        await pair.broker.heal()
        # Whichever app's timer comes first: both may ping.
        assert [ORDERS] == await sender.pinger.ping_what_is_due()
        await syphon.state.refresh()
        async with SyphonHost(pair, syphon, pair.backlog_paths(QUEUES)):
            await until(lambda: not pair.in_backlog(), seconds=30, what="an empty backlog")
        assert {"before": 1} | {f"m{number}": 1 for number in range(MESSAGES)} == ids(pair, "orders")
        for runtime in (sender, syphon):
            await runtime.state.refresh()
            assert [True, True] == [runtime.state.factories[side].is_open for side in Side], "no side is faulted"
    finally:
        await sender.close()
        await syphon.close()


async def test_the_status_of_a_sender_says_what_it_may_not_see(pair: PairOnBroker) -> None:
    pair.create_entities("orders", backlog=QUEUES)
    sender = app(pair, syphon=False)
    try:
        status = await sender.status.collect()
    finally:
        await sender.close()
    assert QUEUES == len(status.queues)
    for queue in status.queues:
        assert queue.depth is None
        assert queue.problem
