"""The command line of the broker."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path

from .broker import LOOPBACK, TIERS, Broker, BrokerOptions, NamespaceSpec
from .emulator_config import ConfigError
from .errors import BrokerError
from .faults import KINDS

DEFAULT_CONTROL_URL = "http://127.0.0.1:5300"
CONTROL_TIMEOUT_S = 10.0
PORT_MAX = 65535

_SERVE_EXAMPLES = """\
examples:
  python -m local.broker
      one namespace, "local", on AMQP port 5672 and plain administration port 5300
  python -m local.broker --namespace primary:5672:5300 --namespace secondary:5673:5301
      a pair of namespaces that know nothing of each other
  python -m local.broker --entities entities.json --data .local/broker
      entities from a file in the shape of Microsoft's emulator; messages survive a kill
  python -m local.broker fault throttle --entity orders --rate 0.5
      half of all sends to "orders" are answered with server-busy; `fault --help` shows every kind
"""


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["fault"]:
        return _fault(arguments[1:])
    options = _serve_parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    try:
        return asyncio.run(_serve(options))
    except (ConfigError, BrokerError, OSError) as error:
        return _stop(error.description if isinstance(error, BrokerError) else str(error))


def _stop(text: str) -> int:
    sys.stderr.write(f"broker: {text}\n")
    return 1


# -- serving


def _serve_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local.broker",
        description="A Service-Bus-compatible broker for one machine.",
        epilog=_SERVE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--namespace",
        action="append",
        type=namespace_spec,
        metavar="NAME[:AMQP_PORT[:ADMIN_PORT]]",
        help="a namespace to serve (repeatable); port 0 takes a free one and says which. Default: local:5672:5300",
    )
    parser.add_argument("--entities", type=Path, metavar="FILE", help="queues and topics to create (JSON)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep entities and messages here (default: in memory)")
    parser.add_argument("--certificates", type=Path, metavar="DIR", help="where the local certificate authority lives")
    parser.add_argument("--key", metavar="KEY", help="shared access key of every namespace (default: made up)")
    parser.add_argument("--tier", choices=TIERS, default="Standard", help="decides limits (default: Standard)")
    parser.add_argument("--host", default=LOOPBACK, help=f"listen here (default: {LOOPBACK}, this machine only)")
    parser.add_argument("--verbose", action="store_true", help="log connections, links, refusals, settlements, faults")
    return parser


def namespace_spec(text: str) -> NamespaceSpec:
    """`NAME`, `NAME:AMQP_PORT` or `NAME:AMQP_PORT:ADMIN_PORT`."""
    name, *ports = text.split(":")
    if not name or len(ports) > 2 or any(not port.isdigit() or int(port) > PORT_MAX for port in ports):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME:AMQP_PORT:ADMIN_PORT, for example primary:5672:5300")
    amqp_port, admin_port = ([int(port) for port in ports] + [0, 0])[:2]
    return NamespaceSpec(name=name, amqp_port=amqp_port, admin_port=admin_port)


async def _serve(arguments: argparse.Namespace) -> int:
    specs = arguments.namespace or [NamespaceSpec(name="local", amqp_port=5672, admin_port=5300)]
    names = [spec.name.lower() for spec in specs]
    if len(set(names)) != len(names):
        return _stop(f"two namespaces have the same name: {', '.join(names)}")
    options = {"host": arguments.host, "data": arguments.data, "entities": arguments.entities}
    if arguments.key:
        options["key"] = arguments.key
    options["certificates"] = arguments.certificates or (arguments.data / "certificates" if arguments.data else None)
    specs = [
        NamespaceSpec(name=s.name, amqp_port=s.amqp_port, admin_port=s.admin_port, tier=arguments.tier) for s in specs
    ]
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with Broker(specs, BrokerOptions(**options)) as broker:
        _announce(broker)
        await stopping.wait()
    return 0


def _announce(broker: Broker) -> None:
    lines = []
    for served in broker.namespaces.values():
        lines += [
            f"namespace {served.name}: AMQP and HTTPS administration on port {served.amqp_port}, "
            f"plain administration and control on port {served.admin_port}",
            f"  {served.connection_string}",
        ]
    authority = broker.authority_file
    lines += [
        "administration clients trust this broker with:",
        f"  export REQUESTS_CA_BUNDLE={authority} SSL_CERT_FILE={authority}",
        "identity-based connections (azure-identity) get development tokens with:",
        f"  export IDENTITY_ENDPOINT={broker.identity_endpoint} IDENTITY_HEADER={broker.identity_header}",
        "ready",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


# -- faults


def _fault_parser() -> argparse.ArgumentParser:
    kinds = "\n".join(f"  {name:21} {kind.description}" for name, kind in KINDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m local.broker fault",
        description="Set, list or clear faults on a broker that runs.",
        epilog=f"kinds:\n{kinds}\n\nexamples:\n"
        "  python -m local.broker fault black-hole --namespace primary\n"
        "  python -m local.broker fault error --condition amqp:internal-error --entity orders --rate 0.1 --seed 7\n"
        "  python -m local.broker fault partition-down --partition 3 --entity orders\n"
        "  python -m local.broker fault disable --entity orders --direction receive\n"
        "  python -m local.broker fault list\n"
        "  python -m local.broker fault clear\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=[*KINDS, "list", "clear"], metavar="KIND|list|clear")
    parser.add_argument("--url", default=DEFAULT_CONTROL_URL, help=f"control address (default {DEFAULT_CONTROL_URL})")
    parser.add_argument("--id", type=int, help="with clear: only this fault")
    parser.add_argument("--namespace", help="only this namespace")
    parser.add_argument("--entity", help="only this entity; may hold *")
    parser.add_argument("--direction", choices=["send", "receive"], help="only links that send, or that receive")
    parser.add_argument("--points", nargs="+", help="where it strikes: cbs attach send deliver settle management")
    parser.add_argument("--condition", help="AMQP error condition to answer with")
    parser.add_argument("--description", help="text of the error")
    parser.add_argument("--rate", type=float, help="share of operations struck, 0 to 1")
    parser.add_argument("--delay-s", type=float)
    parser.add_argument("--jitter-s", type=float)
    parser.add_argument("--partition", type=int, help="with partition-down, -full and -slow: which of 0 to 15")
    for name in ("after", "count", "after-bytes", "after-frames", "seed"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--reset", action="store_const", const=True, help="reset the connection as well")
    return parser


def _fault(arguments: list[str]) -> int:
    options = vars(_fault_parser().parse_args(arguments))
    action, url, fault_id = options.pop("action"), options.pop("url").rstrip("/"), options.pop("id")
    if action == "list":
        return _control("GET", f"{url}/$faults", None)
    if action == "clear":
        return _control("DELETE", f"{url}/$faults" + (f"/{fault_id}" if fault_id is not None else ""), None)
    fault = {"kind": action} | {name: value for name, value in options.items() if value is not None}
    return _control("POST", f"{url}/$faults", fault)


def _control(method: str, url: str, body: object) -> int:
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=CONTROL_TIMEOUT_S) as answer:
            sys.stdout.write(_readable(json.load(answer)))
    except urllib.error.HTTPError as error:
        return _stop(_refusal(error, url))
    except (OSError, ValueError) as error:
        return _stop(f"no broker answers at {url}: {error}")
    return 0


def _refusal(error: urllib.error.HTTPError, url: str) -> str:
    """What the broker said; whatever else answers there says nothing that we could show."""
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{url} answers {error.code} {error.reason}: is that the control address of a broker?"


def _readable(answer: object) -> str:
    if not isinstance(answer, dict) or not ("cleared" in answer or isinstance(answer.get("faults"), list)):
        raise ValueError("what answers there is not a broker")
    if "cleared" in answer:
        return f"cleared {answer['cleared']}\n"
    faults = answer["faults"]
    lines = [" ".join(f"{name}={value}" for name, value in fault.items()) for fault in faults]
    return "".join(f"{line}\n" for line in lines) or "no faults\n"
