"""`python -m local.broker` as people use it: in a terminal, with the strings it prints."""

from __future__ import annotations

import http.server
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessagingEntityDisabledError, ServiceBusServerBusyError

from tests.support.sdk_leftovers import SDK_LEFTOVERS

ROOT = Path(__file__).resolve().parents[3]
START_S = 20
STOP_S = 10
ENTITIES = """
{"UserConfig": {"Namespaces": [
  {"Name": "primary", "Queues": [{"Name": "orders"}]},
  {"Name": "secondary", "Queues": [{"Name": "orders"}]}
]}}
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "local.broker", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=START_S, check=False)


class Running:
    def __init__(self, process: subprocess.Popen[str], printed: str) -> None:
        self.process = process
        self.printed = printed
        self.connection_strings = re.findall(r"Endpoint=sb://\S+", printed)
        self.control_urls = [f"http://127.0.0.1:{port}" for port in re.findall(r"control on port (\d+)", printed)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Running]:
    entities = tmp_path / "entities.json"
    entities.write_text(ENTITIES)
    arguments = ("--namespace", "primary:0:0", "--namespace", "secondary:0:0", "--entities", str(entities))
    process = subprocess.Popen(command(*arguments), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if line == "ready\n":
            break
    yield Running(process, printed)
    process.kill()
    process.wait(STOP_S)
    process.stdout.close()


def send(connection_string: str, text: str) -> None:
    with (
        ServiceBusClient.from_connection_string(connection_string, retry_total=0) as client,
        client.get_queue_sender("orders") as sender,
    ):
        sender.send_messages(ServiceBusMessage(text))


def waiting(connection_string: str) -> list[str]:
    with (
        ServiceBusClient.from_connection_string(connection_string, retry_total=0) as client,
        client.get_queue_receiver("orders") as receiver,
    ):
        return [str(message) for message in receiver.peek_messages(10)]


def test_the_printed_connection_strings_work_and_the_namespaces_do_not_see_each_other(broker: Running) -> None:
    primary, secondary = broker.connection_strings
    send(primary, "for the primary")
    assert waiting(primary) == ["for the primary"]
    assert waiting(secondary) == []


def test_faults_are_set_listed_and_cleared_from_the_command_line(broker: Running) -> None:
    primary, url = broker.connection_strings[0], broker.control_urls[0]
    assert run("fault", "throttle", "--entity", "orders", "--url", url).stdout.startswith("id=1 hits=0")
    with pytest.raises(ServiceBusServerBusyError):
        send(primary, "throttled")
    assert "hits=1" in run("fault", "list", "--url", url).stdout
    assert run("fault", "clear", "--url", url).stdout == "cleared 1\n"
    assert run("fault", "list", "--url", url).stdout == "no faults\n"
    send(primary, "calm again")


@pytest.mark.filterwarnings(SDK_LEFTOVERS)
def test_receivers_alone_are_struck_from_the_command_line(broker: Running) -> None:
    primary, url = broker.connection_strings[0], broker.control_urls[0]
    shown = run("fault", "disable", "--entity", "orders", "--direction", "receive", "--url", url).stdout
    assert "direction=receive" in shown
    send(primary, "goes through")
    with ServiceBusClient.from_connection_string(primary, retry_total=0) as client:
        receiver = client.get_queue_receiver("orders")
        with pytest.raises(MessagingEntityDisabledError):
            receiver.receive_messages(1, max_wait_time=5)
        receiver.close()
    assert run("fault", "clear", "--url", url).stdout == "cleared 1\n"
    assert waiting(primary) == ["goes through"]


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """A web server that is no broker."""

    def do_POST(self) -> None:
        self.send_error(404)

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: object) -> None:
        pass


def test_another_server_at_the_control_address_is_one_line() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        refused, strange = run("fault", "throttle", "--url", url), run("fault", "list", "--url", url)
        server.shutdown()
    said = f"broker: {url}/$faults answers 404 Not Found: is that the control address of a broker?\n"
    assert (1, said) == (refused.returncode, refused.stderr)
    assert (1, 1) == (strange.returncode, strange.stderr.count("\n"))
    assert "is not a broker" in strange.stderr


def test_single_partitions_are_struck_from_the_command_line(broker: Running) -> None:
    url = broker.control_urls[0]
    for fault in (["partition-down"], ["partition-slow", "--delay-s", "30"], ["partition-full"]):
        shown = run("fault", *fault, "--partition", "3", "--entity", "orders", "--url", url).stdout
        assert f"kind={fault[0]} entity=orders" in shown
        assert "partition=3" in shown
    assert run("fault", "clear", "--url", url).stdout == "cleared 3\n"


def test_a_fault_that_makes_no_sense_is_refused_by_name(broker: Running) -> None:
    result = run("fault", "delay", "--url", broker.control_urls[0])
    assert (result.returncode, result.stderr) == (1, "broker: Bad fault: a delay needs delay_s or jitter_s.\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly(broker: Running, number: signal.Signals) -> None:
    broker.process.send_signal(number)
    assert broker.process.wait(STOP_S) == 0


def test_amqp_over_tls_is_served_on_the_same_port(broker: Running) -> None:
    port = int(broker.connection_strings[0].split(":")[2].split(";")[0])
    authority = re.findall(r"SSL_CERT_FILE=(\S+)", broker.printed)[0]
    context = ssl.create_default_context(cafile=authority)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=START_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        secure.sendall(b"AMQP\x03\x01\x00\x00")
        assert secure.recv(8) == b"AMQP\x03\x01\x00\x00"


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("--namespace", f"primary:{port}:0")
    assert result.returncode == 1
    assert result.stderr.startswith("broker: ")
    assert str(port) in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_missing_entities_file_is_one_line(tmp_path: Path) -> None:
    result = run("--namespace", "primary:0:0", "--entities", str(tmp_path / "none.json"))
    assert result.returncode == 1
    assert result.stderr.startswith("broker: ")
    assert "none.json" in result.stderr
    assert result.stderr.count("\n") == 1


def test_help_teaches() -> None:
    assert "python -m local.broker --namespace primary:5672:5300" in run("--help").stdout
    assert "lose-acknowledgement" in run("fault", "--help").stdout
