import asyncio
import errno
import io
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local.__main__ import parse_arguments, read_options
from local.host.__main__ import parse_arguments as parse_host_arguments
from local.stack.console import Console
from local.stack.options import Side, StackOptions
from local.stack.ports import QUIET, Port, PortPicker, PortTaken
from local.stack.stack import Stack, StackError
from local.stack.summary import first_curl


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    yield listener
    listener.close()


def test_the_usual_port_is_taken_if_it_is_free_and_another_one_if_not(taken: socket.socket) -> None:
    number = taken.getsockname()[1]
    picker = PortPicker()
    moved = picker.pick("http", number)
    assert moved.moved
    assert number != moved.number
    picker.release()
    taken.close()
    assert Port(name="http", number=number, usual=number) == PortPicker().pick("http", number)


def test_a_port_that_was_asked_for_is_a_must(taken: socket.socket) -> None:
    with pytest.raises(PortTaken, match="in use"):
        PortPicker().pick("http", 7071, taken.getsockname()[1])


def test_no_port_is_handed_out_twice() -> None:
    picker = PortPicker()
    numbers = [picker.pick(str(n), 0, 0).number for n in range(20)]
    picker.release()
    assert 20 == len(set(numbers))


def test_no_port_is_handed_out_that_an_outgoing_connection_may_take_before_a_server_does() -> None:
    picker = PortPicker()
    numbers = [picker.pick(str(n), 0, 0).number for n in range(20)]
    picker.release()
    assert all(number in QUIET for number in numbers)


@pytest.mark.parametrize(
    ("elsewhere", "expected"),
    [
        (
            "contoso.servicebus.windows.net",
            {
                "ServiceBusPrimary": "",
                "ServiceBusPrimary__fullyQualifiedNamespace": "contoso.servicebus.windows.net",
                "PRIMARY_NAMESPACE_NAME": "",
            },
        ),
        (
            "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=k",
            {
                "ServiceBusPrimary": "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=n;"
                "SharedAccessKey=k",
                "PRIMARY_NAMESPACE_NAME": "",
            },
        ),
        (
            "Endpoint=sb://localhost:1;UseDevelopmentEmulator=true",
            {"ServiceBusPrimary": "Endpoint=sb://localhost:1;UseDevelopmentEmulator=true"},
        ),
    ],
)
def test_a_namespace_elsewhere_becomes_app_settings(elsewhere: str, expected: dict[str, str]) -> None:
    side = Side(name="primary", setting="ServiceBusPrimary", elsewhere=elsewhere)
    assert expected == side.settings()


def test_the_first_curl_is_one_that_the_app_can_answer() -> None:
    send = {"name": "send", "route": "bus/{*path}"}
    health = {"name": "health", "route": "health"}
    assert "/api/bus/orders/messages -H 'x-functions-key: KEY'" in first_curl("http://h", "KEY", [send, health])[0]
    assert ["curl http://h/api/health"] == first_curl("http://h", "KEY", [health])
    assert ["curl -i http://h/admin/host/ping"] == first_curl("http://h", "KEY", [])


def test_lines_say_whose_they_are_and_are_plain_without_a_terminal() -> None:
    stream = io.StringIO()
    Console(stream).line("host", "12:00 ERROR broken")
    assert "host    | 12:00 ERROR broken\n" == stream.getvalue()


def test_a_reader_that_is_gone_does_not_stop_the_console() -> None:
    stream = io.StringIO()
    console = Console(stream)
    stream.close()
    console.plain("nobody hears this")


class LostTerminal(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_a_lost_terminal_does_not_stop_the_console() -> None:
    Console(LostTerminal()).line("local", "stopping")


@pytest.mark.parametrize("text", ["70000", "-1", "http", "²"])
@pytest.mark.parametrize("parse", [parse_arguments, parse_host_arguments])
def test_what_is_no_port_is_refused_by_name(
    parse: Callable[[list[str]], object], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    option = "--port" if parse is parse_host_arguments else "--http-port"
    with pytest.raises(SystemExit):
        parse([f"{option}={text}"])
    said = f"error: argument {option}: '{text}' is not a port: a number from 0 to 65535, for example 7071\n"
    assert capsys.readouterr().err.endswith(said)


@pytest.mark.parametrize("name", ["file", "file/below", "taken"])
async def test_a_data_folder_that_cannot_be_one_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "lock").mkdir(parents=True)
    stack = Stack(StackOptions(data=tmp_path / name), Console(io.StringIO()))
    with pytest.raises(StackError) as caught:
        await stack.run(asyncio.Event())
    assert str(caught.value).startswith(f"{tmp_path / name} cannot be used as a data folder: ")
    assert "\n" not in str(caught.value)


def test_options_come_from_the_command_line() -> None:
    options = read_options(parse_arguments(["mine.json", "--http-port", "8080", "--storage", "S", "--fresh"]))
    assert ("mine.json", 8080, None, "S", True) == (
        options.settings_file.name if options.settings_file else None,
        options.ports["http"],
        options.ports["primary"],
        options.storage,
        options.fresh,
    )
