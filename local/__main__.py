"""`python -m local`: everything on this machine with one command."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from local.host.arguments import port_number
from local.host.errors import HostError
from local.stack.azurite import AzuriteMissing
from local.stack.children import ChildFailed
from local.stack.console import Console
from local.stack.options import ROOT, StackOptions
from local.stack.ports import LOOPBACK, PortTaken
from local.stack.stack import Stack, StackError

PORTS = {
    "http": "function app (usually 7071)",
    "primary": "primary namespace, AMQP and HTTPS administration (usually 5672)",
    "primary-admin": "primary namespace, plain administration and faults (usually 5300)",
    "secondary": "secondary namespace, AMQP and HTTPS administration (usually 5673)",
    "secondary-admin": "secondary namespace, plain administration and faults (usually 5301)",
    "blob": "Azurite blobs (usually 10000)",
    "queue": "Azurite queues (usually 10001)",
    "table": "Azurite tables (usually 10002)",
}
EXAMPLES = """\
examples:
  python -m local
      two namespaces on the embedded broker, Azurite, and the function app; Ctrl-C stops all of it
  python -m local my.settings.json
      the same with your settings; connections are still those of the local services
  python -m local --primary contoso.servicebus.windows.net --secondary fabrikam.servicebus.windows.net
      the app against real namespaces, with your Azure login; no broker is started
  python -m local --identity
      the same without a single connection string, as it runs in Azure with a managed identity
  python -m local --storage "UseDevelopmentStorage=true"
      use an Azurite that already runs
  python -m local.broker fault black-hole --namespace primary
      in another terminal: make the primary namespace go silent, and watch
"""


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m local",
        description="Run the function app on this machine with everything it needs: a Service-Bus-compatible broker "
        "with two namespaces, Azurite for storage, and a local Functions host. Entities come from local/entities.json, "
        "settings from local.settings.json or, without one, from local.settings.example.json.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("settings", nargs="?", type=Path, help="settings file of the app")
    elsewhere = parser.add_argument_group("use something else instead of what is started here")
    for side in ("primary", "secondary"):
        elsewhere.add_argument(
            f"--{side}", metavar="CONNECTION", help=f"{side} namespace: a connection string, or a host name (identity)"
        )
    elsewhere.add_argument("--storage", metavar="CONNECTION", help="storage: a connection string")
    parser.add_argument(
        "--identity", action="store_true",
        help="connect as in Azure, by identity and without any connection string: the broker issues development tokens",
    )  # fmt: skip
    entities = ROOT / "local" / "entities.json"
    parser.add_argument("--entities", type=Path, default=entities, help="queues and topics that the broker creates")
    parser.add_argument("--data", type=Path, default=ROOT / ".data", help="folder for data and keys (default .data)")
    parser.add_argument("--fresh", action="store_true", help="forget messages and tables of earlier runs")
    parser.add_argument("--bind", default=LOOPBACK, help="address of the function app (default: this machine only)")
    parser.add_argument("--verbose", action="store_true", help="log more")
    ports = parser.add_argument_group(
        "ports", "The usual port is taken if it is free, else another one, which is said. A port given here is a must; "
        "0 means any free one."
    )
    for name, text in PORTS.items():
        ports.add_argument(f"--{name}-port", type=port_number, metavar="PORT", help=text)
    return parser.parse_args(arguments)


def read_options(given: argparse.Namespace) -> StackOptions:
    return StackOptions(
        settings_file=None if given.settings is None else given.settings.resolve(),
        data=given.data.resolve(),
        entities=given.entities,
        primary=given.primary,
        secondary=given.secondary,
        storage=given.storage,
        bind=given.bind,
        identity=given.identity,
        ports={name: getattr(given, f"{name.replace('-', '_')}_port") for name in PORTS},
        fresh=given.fresh,
        verbose=given.verbose,
    )


async def run(options: StackOptions, console: Console) -> None:
    """The first signal stops in order, the second at once."""
    stop = asyncio.Event()
    stack = Stack(options, console)

    def on_signal() -> None:
        if stop.is_set():
            stack.kill()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)
    await stack.run(stop)


def main(arguments: list[str]) -> int:
    given = parse_arguments(arguments)
    console = Console()
    try:
        asyncio.run(run(read_options(given), console))
    except (StackError, ChildFailed, PortTaken, AzuriteMissing, HostError) as error:
        console.line("local", f"ERROR {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
