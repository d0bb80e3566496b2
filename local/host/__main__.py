"""Run the local host alone: `python -m local.host`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import signal
import sys
from pathlib import Path

from local.host.arguments import port_number
from local.host.errors import HostError
from local.host.host import Host, HostOptions
from local.host.logs import set_up_logging
from local.host.model import HTTP_TRIGGER, FunctionSpec

log = logging.getLogger("local.host")

DEFAULT_PORT = 7071


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m local.host",
        description="Run a Functions app (Python v2 model) on this machine, with the settings it would have in Azure.",
        epilog="For the whole system with broker and storage, use `python -m local`.",
    )
    parser.add_argument("--app", type=Path, default=Path.cwd(), help="folder with function_app.py and host.json")
    parser.add_argument(
        "--port", type=port_number, default=DEFAULT_PORT, help="HTTP port, 0 for a free one (default 7071)"
    )
    parser.add_argument("--bind", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--settings", type=Path, help="settings file (default: local.settings.json, else the example)")
    parser.add_argument("--keys", type=Path, help="file with the access keys, made if missing")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one app setting")
    parser.add_argument(
        "--listen-for", metavar="NAMES", help="run these functions only (comma-separated), as one instance of many does"
    )
    parser.add_argument("--verbose", action="store_true", help="log more")
    return parser.parse_args(arguments)


def read_overrides(pairs: list[str]) -> dict[str, str]:
    overrides: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise HostError(f"--set wants NAME=VALUE, got {pair!r}")
        overrides[name] = value
    return overrides


def describe(spec: FunctionSpec, host: Host) -> str:
    """One line about a function: what it answers to."""
    trigger = spec.trigger
    if spec.trigger_type == HTTP_TRIGGER:
        methods = ",".join(str(method) for method in trigger.get("methods") or ("any",))
        prefix = f"/{host.config.route_prefix}" if host.config.route_prefix else ""
        return f"{spec.name}: [{methods}] {host.address}{prefix}/{trigger.get('route') or spec.name}"
    shown = [str(trigger[key]) for key in ("schedule", "queueName", "topicName", "subscriptionName") if key in trigger]
    return f"{spec.name}: {spec.trigger_type} {' '.join(shown)}".rstrip()


async def serve(options: HostOptions) -> None:
    """Run until a signal asks to stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Host(options) as host:
        # What is loaded by now lives as long as the process; scanning it again and again only costs time.
        gc.collect()
        gc.freeze()
        parts = ", ".join(f"{name} {ms:.0f} ms" for name, ms in host.startup_ms.items())
        for spec in host.functions:
            log.info("%s", describe(spec, host))
        log.info("ready at %s with %d functions (%s)", host.address, len(host.functions), parts)
        print(f"READY {host.address}", flush=True)
        await stop.wait()


def main(arguments: list[str]) -> int:
    given = parse_arguments(arguments)
    set_up_logging(level="Information", verbose=given.verbose)
    try:
        options = HostOptions(
            directory=given.app.resolve(),
            port=given.port,
            bind=given.bind,
            settings_file=given.settings,
            keys_file=given.keys,
            overrides=read_overrides(given.set),
            listen_for=None if given.listen_for is None else frozenset(given.listen_for.split(",")),
        )
        asyncio.run(serve(options))
        # Functions have no hook for their end: clients the app still holds are not closed but end with the process,
        # as in Azure, and their complaints would come when there is nothing left to print them with.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    except HostError as error:
        print(f"host: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
