"""A pair of namespaces in a broker process, Azurite, and the two apps that the HTTP figures compare."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from azure.servicebus.management import ServiceBusAdministrationClient

from tests.support.host_fixtures import ROOT, HostProcess
from tests.support.send_services import azurite

KEY = "benchmark-key"
STOP_SECONDS_MAX = 5
QUEUES = ("bench", "diverted")
# What somebody would write who sends over HTTP without a pair: one client, one sender, one call at a time.
BARE_APP = """
import asyncio, os
import azure.functions as func
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
state = {}

@app.route(route="bus/{*path}", methods=["POST"])
async def send(req: func.HttpRequest) -> func.HttpResponse:
    if not state:
        client = ServiceBusClient.from_connection_string(os.environ["ServiceBusPrimary"])
        state.update(lock=asyncio.Lock(), client=client, sender=client.get_queue_sender("bench"))
    async with state["lock"]:
        await state["sender"].send_messages(ServiceBusMessage(req.get_body()))
    return func.HttpResponse(status_code=201)
"""


@dataclass(frozen=True, kw_only=True)
class Services:
    settings: dict[str, str]
    authority_file: str


@contextmanager
def services() -> Iterator[Services]:
    with ExitStack() as stack:
        primary, secondary, authority = stack.enter_context(_broker())
        storage = stack.enter_context(azurite()).connection_string
        with ServiceBusAdministrationClient.from_connection_string(primary, connection_verify=authority) as admin:
            for queue in QUEUES:
                admin.create_queue(queue)
        settings = {
            "ServiceBusPrimary": primary,
            "ServiceBusSecondary": secondary,
            "PRIMARY_NAMESPACE_NAME": "primary",
            "SECONDARY_NAMESPACE_NAME": "secondary",
            "AzureWebJobsStorage": storage,
            "BACKLOG_QUEUE_COUNT": "3",
            "ENABLE_SYPHON": "false",
        }
        yield Services(settings=settings, authority_file=authority)


@contextmanager
def _broker() -> Iterator[tuple[str, str, str]]:
    namespaces = ["--namespace", "primary:0:0", "--namespace", "secondary:0:0"]
    command = [sys.executable, "-m", "local.broker", *namespaces, "--key", KEY]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if "ready" in line:
                break
        primary, secondary = list(dict.fromkeys(re.findall(r"Endpoint=sb://\S+", printed)))[:2]
        trusted = re.search(r"SSL_CERT_FILE=(\S+)", printed)
        assert trusted is not None, printed
        yield primary, secondary, trusted[1]
    finally:
        process.terminate()
        process.wait(STOP_SECONDS_MAX)
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def http_app(settings: dict[str, str], *, bare: bool) -> Iterator[tuple[str, str]]:
    """Address and key of our app, or of the bare one, on the local host."""
    with TemporaryDirectory(prefix="bench-app-") as name:
        folder = Path(name)
        app = folder / "app"
        app.mkdir()
        config = json.loads((ROOT / "host.json").read_text())
        config["extensions"]["durableTask"]["hubName"] = f"Bench{secrets.token_hex(8)}"
        (app / "host.json").write_text(json.dumps(config))
        if bare:
            (app / "function_app.py").write_text(BARE_APP)
        else:
            for part in ("function_app.py", "functions", "shared"):
                (app / part).symlink_to(ROOT / part)
        process = HostProcess(folder, settings, app)
        try:
            yield process.address, json.loads((folder / "keys.json").read_text())["master"]
        finally:
            process.stop()
