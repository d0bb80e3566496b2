"""One broker for the tests of this folder, and Proton where it can be had."""

from __future__ import annotations

import importlib.util
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient

from tests.conformance.broker_process import Address, BrokerProcess
from tests.conformance.shim.backend import ConnectionParts

HAS_PROTON = importlib.util.find_spec("proton") is not None
IN_CI = os.environ.get("CI") == "true"

# Without Proton the test modules cannot even be imported. CI must have it; see requirements-judge.txt.
if not HAS_PROTON and not IN_CI:
    collect_ignore = ["client.py", *(path.name for path in Path(__file__).parent.glob("test_*.py"))]


@pytest.fixture(scope="package")
def broker_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with BrokerProcess(log=tmp_path_factory.mktemp("proton") / "broker.log") as broker:
        yield broker.address


@pytest.fixture(scope="package")
def connection(broker_address: Address) -> ConnectionParts:
    return ConnectionParts.parse(broker_address.connection_string)


@pytest.fixture
def queue(broker_address: Address) -> str:
    """A queue of the test's own, locks of 30 seconds, five deliveries at most."""
    name = f"proton-{uuid.uuid4()}"
    with ServiceBusAdministrationClient.from_connection_string(
        broker_address.connection_string, connection_verify=broker_address.authority
    ) as administration:
        administration.create_queue(name, lock_duration="PT30S", max_delivery_count=5)
    return name
