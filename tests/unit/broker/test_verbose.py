"""What `--verbose` shows: who did what and what was refused, never a body or a token."""

from __future__ import annotations

import logging

import pytest

from local.broker.amqp.performatives import RECEIVER, SENDER, Accepted
from local.broker.clock import ManualClock
from local.broker.descriptions import QueueDescription
from local.broker.faults import FaultPlan, FaultSpec
from local.broker.namespace import Namespace
from tests.support.broker import KEY, payload
from tests.support.broker_wire import WireClient


def test_every_step_of_a_client_is_a_line_and_none_holds_what_is_private(
    space: Namespace, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "local.broker")
    space.create_queue("orders", QueueDescription())
    faults = FaultPlan()
    client = WireClient(space, clock, faults).connect()
    assert 401 == client.put_token("orders", key="another key")
    assert 202 == client.put_token()
    client.attach("nothing\nhere", SENDER)
    sender = client.attach("orders", SENDER)
    client.send(sender, payload(b"a secret body"))
    client.flow(client.attach("orders", RECEIVER), 1)
    client.settle(Accepted())
    faults.add(FaultSpec.from_json({"kind": "throttle", "entity": "orders"}))
    client.send(sender, payload(b"a secret body"))
    client.peer.gone()
    name = client.peer.name
    missing = "amqp:not-found: The messaging entity 'nothing\nhere' could not be found."
    expected = [
        f"{name}: connected",
        "test: a token for 'sb://localhost/orders': 401",
        "test: a token for 'sb://localhost/': 202",
        f"{name}: 'nothing\\nhere' refused: {missing!r}",
        f"{name}: attached to send to 'orders'",
        f"{name}: a send to 'orders' accepted",
        f"{name}: attached to receive from 'orders'",
        f"{name}: a message of 'orders' settled: accepted",
        "test: fault 1 (throttle) strikes send of 'orders'",
        f"{name}: a send to 'orders' refused: 'com.microsoft:server-busy: Injected fault.'",
        f"{name}: gone",
    ]
    said = [record.getMessage() for record in caplog.records]
    assert expected == [line for line in said if "$cbs" not in line]
    assert [] == [line for line in said if "secret body" in line or KEY in line or "SharedAccessSignature" in line]
