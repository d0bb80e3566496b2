"""`python -m local`: one command to a working system, and nothing left of it afterwards."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.stack.azurite import AzuriteMissing, azurite_command
from local.stack.ports import is_free
from tests.support.host_fixtures import ROOT
from tests.support.local_command import Command, alive, wait_gone

PORTS = ("http", "primary", "primary-admin", "secondary", "secondary-admin", "blob", "queue", "table")
ANY_PORTS = tuple(f"--{name}-port=0" for name in PORTS)


class LocalCommand(Command):
    """A running `python -m local`."""

    def __init__(self, data: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        super().__init__("local", "--data", str(data), *arguments, environment=environment)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[LocalCommand]:
    command = LocalCommand(tmp_path, *ANY_PORTS)
    command.until("Ctrl-C stops everything.")
    yield command
    command.process.kill()
    command.ended()


def test_it_ends_in_a_ready_message_whose_curl_gets_an_answer(running: LocalCommand, tmp_path: Path) -> None:
    assert re.search(r"Ready after [\d.]+ s \(azurite [\d.]+ s, broker [\d.]+ s, host [\d.]+ s\)", running.text)
    (curl,) = [line.strip() for line in running.lines if line.strip().startswith("curl ")]
    done = subprocess.run([*shlex.split(curl), "--fail", "--silent"], capture_output=True, text=True, timeout=60,
                          check=False)  # fmt: skip
    assert 0 == done.returncode, (curl, done.stdout, done.stderr)
    assert 0o600 == (tmp_path / "keys.json").stat().st_mode & 0o777


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_process_and_no_port_behind(running: LocalCommand, number: signal.Signals) -> None:
    pids, ports = running.descendants(), running.ports()
    assert 3 <= len(pids)
    assert 8 <= len(set(ports))
    running.process.send_signal(number)
    assert 0 == running.ended(), running.text
    assert [] == [pid for pid in pids if alive(pid)]
    assert [] == [port for port in ports if not is_free(port)]


def test_children_die_even_when_the_parent_is_killed_hard(running: LocalCommand) -> None:
    pids = running.descendants()
    running.process.kill()
    running.ended()
    wait_gone(pids)


def test_a_child_that_crashes_is_one_clear_line_and_ends_everything(running: LocalCommand) -> None:
    pids = running.descendants()
    broker = next(pid for pid in pids if "local.broker" in Path(f"/proc/{pid}/cmdline").read_text())
    os.kill(broker, signal.SIGKILL)
    assert 1 == running.ended()
    assert 1 == len([line for line in running.lines if "ERROR broker was ended by SIGKILL" in line])
    wait_gone(pids)


def test_a_second_one_on_the_same_data_is_refused(running: LocalCommand, tmp_path: Path) -> None:
    second = LocalCommand(tmp_path, *ANY_PORTS)
    assert 1 == second.ended()
    assert "ERROR another `python -m local` uses" in second.text


def test_a_usual_port_in_use_is_replaced_and_that_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        asked = LocalCommand(tmp_path, f"--http-port={port}", *ANY_PORTS[1:])
        assert 1 == asked.ended()
        assert f"ERROR port {port} for http is in use" in asked.text
    with socket.socket() as usual:
        usual.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_free(7071):
            usual.bind(("127.0.0.1", 7071))
            usual.listen()
        moved = LocalCommand(tmp_path, *ANY_PORTS[1:])
        moved.until("Ctrl-C stops everything.")
        moved.process.send_signal(signal.SIGINT)
        assert 0 == moved.ended()
        assert "port 7071 for http is in use; taking " in moved.text


def test_a_broken_setting_is_one_clear_line(tmp_path: Path) -> None:
    settings = tmp_path / "broken.json"
    settings.write_text('{"Values": {"BACKLOG_QUEUE_COUNT": "many"}}')
    command = LocalCommand(tmp_path, str(settings), *ANY_PORTS)
    assert 1 == command.ended()
    (error,) = [line for line in command.lines if line.startswith("local") and "ERROR" in line]
    assert "BACKLOG_QUEUE_COUNT" in error
    assert "Traceback" not in command.text


def test_a_missing_azurite_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(AzuriteMissing, match="make setup"):
        azurite_command(tmp_path, location=tmp_path, blob=1, queue=2, table=3)


def test_namespaces_and_storage_elsewhere_start_nothing_here(running: LocalCommand, tmp_path: Path) -> None:
    """A second host against the first one's broker and storage."""
    found = re.findall(r"sb://(127\.0\.0\.1:\d+)", running.text)
    strings = [
        f"Endpoint=sb://{address};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=local-development-only;UseDevelopmentEmulator=true;"
        for address in found[:2]
    ]
    (tables,) = re.findall(r"storage +http://127\.0\.0\.1:(\d+)", running.text)
    from local.host.storage import development_connection_string

    other = LocalCommand(
        tmp_path / "other", "--http-port=0", f"--primary={strings[0]}", f"--secondary={strings[1]}",
        f"--storage={development_connection_string(table_port=int(tables))}",
    )  # fmt: skip
    other.until("Ctrl-C stops everything.")
    assert 1 == len(other.descendants())
    other.process.send_signal(signal.SIGTERM)
    assert 0 == other.ended()


def test_no_colour_where_nobody_sees_it(running: LocalCommand) -> None:
    assert "\x1b[" not in running.text


def test_the_help_teaches() -> None:
    done = subprocess.run([sys.executable, "-m", "local", "--help"], cwd=ROOT, capture_output=True, text=True,
                          timeout=60, check=True)  # fmt: skip
    for word in ("examples:", "--primary", "--storage", "--http-port", "fault black-hole"):
        assert word in done.stdout
