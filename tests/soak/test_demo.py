"""The whole demo, report and all, for the faults that people meet first."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient

from local.stack.options import DEVELOPMENT_KEY
from tests.support.local_command import Command

WHOLE_S_MAX = 1_200.0
#: The primary stores these messages and the sender does not learn of it: some come twice, and the books say so.
CERTAIN_TO_DUPLICATE = "lose-acknowledgement"


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["refuse", "black-hole", "throttle", CERTAIN_TO_DUPLICATE])
def test_the_demo_and_its_report_agree_that_nothing_is_lost(
    tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    command = Command("local.demo", "--fault", fault, "--out", str(tmp_path))
    assert 0 == command.ended(WHOLE_S_MAX), command.text
    figures = json.loads((tmp_path / "demo.json").read_text())
    for name in ("sent", "accepted", "delivered", "lost", "duplicated", "longest_send_s"):
        record_property(name, figures[name])
    report = json.loads((tmp_path / "demo" / "report" / "summary.json").read_text())
    assert (0, True, "proved") == (figures["lost"], figures["exact"], report["proof"]["word"])
    assert 0 < figures["accepted_by_backlog"]
    assert figures["duplicated"] == report["duplicated"]
    if fault == CERTAIN_TO_DUPLICATE:
        assert 0 < figures["duplicated"]
    assert str(tmp_path / "demo" / "report" / "report.html") == figures["report"]
    assert (tmp_path / "demo" / "report" / "report.html").stat().st_size


@pytest.mark.soak
async def test_messages_that_somebody_takes_out_of_the_backlog_are_convicted_as_lost(tmp_path: Path) -> None:
    """The demo must not be able to end well whatever happens: here accepted messages really disappear."""
    command = Command("local.demo", "--duration", "30", "--outage", "15", "--out", str(tmp_path))
    command.until("unavailable, ")
    taken = await take_from_backlog(secondary_port(command), at_least=3)
    assert 1 == command.ended(WHOLE_S_MAX), command.text
    figures = json.loads((tmp_path / "demo.json").read_text())
    report = json.loads((tmp_path / "demo" / "report" / "summary.json").read_text())
    assert set() < set(figures["lost_ids"]) <= taken
    assert sorted(figures["lost_ids"]) == sorted(report["lost_ids"])
    assert figures["accepted"] == figures["delivered"] + figures["lost"]
    assert command.lines[-1].startswith(f"NOT EXACT: {figures['lost']} accepted messages are lost: ")
    assert (tmp_path / "demo" / "data").exists(), "what is needed to find out why is gone"


def secondary_port(command: Command) -> int:
    lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in command.descendants()]
    return int(next(found[1] for line in lines if (found := re.search(r"\0secondary:(\d+):", line))))


async def take_from_backlog(port: int, *, at_least: int) -> set[str]:
    key = f"SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={DEVELOPMENT_KEY}"
    address = f"Endpoint=sb://127.0.0.1:{port};{key};UseDevelopmentEmulator=true;"
    taken: set[str] = set()
    ends = time.monotonic() + 60
    async with ServiceBusClient.from_connection_string(address) as client:
        while len(taken) < at_least:
            assert time.monotonic() < ends, "nothing waits in the backlog"
            for index in range(3):
                receiver = client.get_queue_receiver(
                    f"primary/x-servicebus-transfer/{index}", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
                )
                async with receiver:
                    messages = await receiver.receive_messages(5, max_wait_time=1)
                taken |= {str(message.message_id) for message in messages}
    return taken
