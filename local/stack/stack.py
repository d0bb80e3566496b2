"""Broker, storage and host, started together and stopped together."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import json
import os
import re
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

import certifi

from local.broker.certificates import CertificateAuthority
from local.host.keys import Keys, load_or_create
from local.host.settings_files import read_settings
from local.host.storage import development_addresses, development_connection_string
from local.stack.azurite import USUAL_PORTS, azurite_command
from local.stack.children import Child, ChildFailed
from local.stack.console import Console
from local.stack.options import DEVELOPMENT_KEY, ROOT, Side, StackOptions
from local.stack.ports import LOOPBACK, Port, PortPicker
from local.stack.summary import Ready, announce

START_TIMEOUT_S = 60.0
POLL_S = 0.05
_AUTHORITY = re.compile(r"SSL_CERT_FILE=(\S+)")
_IDENTITY = re.compile(r"(IDENTITY_ENDPOINT|IDENTITY_HEADER)=(\S+)")


class StackError(Exception):
    """The stack cannot run; one line says why."""


class Stack:
    """All parts. `run` serves until `stop` is set or a part fails."""

    def __init__(
        self, options: StackOptions, console: Console, on_ready: Callable[[Ready], None] | None = None
    ) -> None:
        self._options = options
        self._console = console
        self._on_ready = on_ready or functools.partial(announce, console)
        self._children: list[Child] = []
        self._lock: TextIO | None = None
        self._said: dict[str, asyncio.Event] = {}
        self._authority: str | None = None
        self._identity: dict[str, str] = {}
        self._address: str | None = None
        self._picker = PortPicker()
        self._storage_string = options.storage
        self._storage_addresses: dict[str, str] = {}
        self._table_port: int | None = None
        self._started = time.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Start everything, say that it is ready, and keep it running until asked to stop."""
        try:
            await self._start(stop)
            if not stop.is_set():
                await self._watch(stop)
        finally:
            await self._stop()

    def kill(self) -> None:
        """End everything at once."""
        for child in self._children:
            child.kill()

    # Starting

    async def _start(self, stop: asyncio.Event) -> None:
        self._take_data_folder()
        self._sides = self._pick_sides()
        http = self._pick("http", 7071)
        starting: list[Awaitable[None]] = []
        if self._options.storage is None:
            starting.append(self._start_azurite())
        served = [side for side in self._sides if side.amqp is not None]
        if served:
            starting.append(self._start_broker(served))
        self._picker.release()
        if not await self._unless_stopped(asyncio.gather(*starting), stop):
            return
        if await self._unless_stopped(self._start_host(http), stop):
            await self._announce()

    async def _unless_stopped(self, work: Awaitable[Any], stop: asyncio.Event) -> bool:
        """Wait for a part of the start, unless somebody asks to stop meanwhile."""
        task = asyncio.ensure_future(work)
        waiting = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
                return True
            return False
        finally:
            waiting.cancel()
            task.cancel()
            await asyncio.gather(task, waiting, return_exceptions=True)

    def _take_data_folder(self) -> None:
        """One stack per data folder."""
        data = self._options.data
        data.mkdir(parents=True, exist_ok=True)
        lock = (data / "lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise StackError(f"another `python -m local` uses {data}; stop it, or choose --data") from None
        self._lock = lock
        if self._options.fresh:
            for name in ("azurite", "broker"):
                shutil.rmtree(data / name, ignore_errors=True)

    def _pick(self, name: str, usual: int) -> Port:
        port = self._picker.pick(name, usual, self._options.ports.get(name))
        if port.moved and self._options.ports.get(name) is None:
            self._console.line("local", f"port {usual} for {name} is in use; taking {port.number}")
        return port

    def _pick_sides(self) -> list[Side]:
        sides = []
        for name, setting, elsewhere, amqp, admin in (
            ("primary", "ServiceBusPrimary", self._options.primary, 5672, 5300),
            ("secondary", "ServiceBusSecondary", self._options.secondary, 5673, 5301),
        ):
            if elsewhere is not None:
                sides.append(Side(name=name, setting=setting, elsewhere=elsewhere))
                continue
            ports = self._pick(name, amqp), self._pick(f"{name}-admin", admin)
            sides.append(Side(name=name, setting=setting, elsewhere=None, amqp=ports[0], admin=ports[1]))
        return sides

    def _child(self, name: str, command: list[str], environment: Mapping[str, str]) -> Child:
        child = Child(name, command, environment={**os.environ, **environment}, on_line=self._on_line)
        self._children.append(child)
        self._said[name] = asyncio.Event()
        return child

    def _on_line(self, name: str, text: str) -> None:
        """Take note of what a part says about itself; show the rest."""
        if name == "broker":
            if found := _AUTHORITY.search(text):
                self._authority = found.group(1)
            self._identity |= dict(_IDENTITY.findall(text))
            if text == "ready":
                self._said[name].set()
            if not self._said[name].is_set() or text == "ready":
                return
        if name == "host" and text.startswith("READY "):
            self._address = text.split()[1]
            self._said[name].set()
            return
        self._console.line(name, text)

    async def _ready(self, child: Child, signs: Awaitable[Any]) -> None:
        """Wait until a part is ready; it may also end, or say nothing for too long."""
        sign, end = asyncio.ensure_future(signs), asyncio.ensure_future(child.ended())
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await asyncio.wait((sign, end), return_when=asyncio.FIRST_COMPLETED)
            if end.done():
                raise ChildFailed(await end)
            await sign
        except TimeoutError:
            raise ChildFailed(f"{child.name} is not ready after {START_TIMEOUT_S:.0f} s") from None
        finally:
            for task in (sign, end):
                task.cancel()
            await asyncio.gather(sign, end, return_exceptions=True)
        child.mark_ready()

    async def _start_azurite(self) -> None:
        blob, queue, table = (
            self._pick(name, usual) for name, usual in zip(("blob", "queue", "table"), USUAL_PORTS, strict=True)
        )
        location = self._options.data / "azurite"
        location.mkdir(parents=True, exist_ok=True)
        numbers = {"blob": blob.number, "queue": queue.number, "table": table.number}
        certificate = None
        if self._options.identity:
            certificate = CertificateAuthority(self._options.data / "broker" / "certificates").server_file()
        command = azurite_command(ROOT, location=location, certificate=certificate, **numbers)
        self._picker.release()
        child = self._child("azurite", command, {})
        await child.start()
        self._storage_string = development_connection_string(*numbers.values())
        self._storage_addresses = development_addresses(**numbers)
        self._table_port = table.number
        await self._ready(child, _listening(blob.number, queue.number, table.number))

    async def _start_broker(self, sides: list[Side]) -> None:
        command = [sys.executable, "-m", "local.broker", "--key", DEVELOPMENT_KEY]
        for side in sides:
            assert side.amqp is not None
            assert side.admin is not None
            command += ["--namespace", f"{side.name}:{side.amqp.number}:{side.admin.number}"]
        command += ["--entities", str(self._entities([side.name for side in sides]))]
        command += ["--data", str(self._options.data / "broker"), "--host", LOOPBACK]
        command += ["--verbose"] if self._options.verbose else []
        child = self._child("broker", command, {"PYTHONPATH": _python_path(), "PYTHONUNBUFFERED": "1"})
        await child.start()
        await self._ready(child, self._said["broker"].wait())

    def _entities(self, served: list[str]) -> Path:
        """The entities file, cut down to the namespaces that are served here."""
        source = self._options.entities
        try:
            content = json.loads(source.read_text(encoding="utf-8"))
            namespaces = content["UserConfig"]["Namespaces"]
            content["UserConfig"]["Namespaces"] = [item for item in namespaces if item["Name"] in served]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StackError(f"entities file {source} cannot be used: {error}") from None
        target = self._options.data / "entities.json"
        target.write_text(json.dumps(content, indent=2), encoding="utf-8")
        return target

    async def _start_host(self, http: Port) -> None:
        keys_file = self._options.data / "keys.json"
        self._keys: Keys = load_or_create(keys_file)
        command = [sys.executable, "-m", "local.host", "--app", str(ROOT), "--port", str(http.number)]
        command += ["--bind", self._options.bind, "--keys", str(keys_file)]
        if self._options.settings_file is not None:
            command += ["--settings", str(self._options.settings_file)]
        command += ["--verbose"] if self._options.verbose else []
        child = self._child("host", command, self._app_environment())
        await child.start()
        await self._ready(child, self._host_answers())

    def _app_environment(self) -> dict[str, str]:
        """Settings that lead the app to what was started here; they win over the settings file."""
        environment = {"PYTHONPATH": _python_path(), "PYTHONUNBUFFERED": "1", **self._options.app_settings}
        identity = self._options.identity
        for side in self._sides:
            environment.update(side.settings(identity=identity))
        by_string = not identity or self._options.storage is not None
        storage = (self._storage_string or "") if by_string else ""
        environment["AzureWebJobsStorage"] = storage
        if "PairStateStorage" in read_settings(ROOT, self._options.settings_file).values:
            environment["PairStateStorage"] = storage
        if identity:
            environment |= self._identity
            environment |= {} if by_string else self._storage_addresses
        if self._authority is not None:
            bundle = self._bundle(Path(self._authority))
            environment.update({"REQUESTS_CA_BUNDLE": bundle, "SSL_CERT_FILE": bundle})
        return environment

    def _bundle(self, authority: Path) -> str:
        """The usual authorities and the broker's own: the app may talk to both."""
        target = self._options.data / "ca-bundle.pem"
        usual = Path(certifi.where()).read_text(encoding="utf-8")
        target.write_text(usual + "\n" + authority.read_text(encoding="utf-8"), encoding="utf-8")
        return str(target)

    async def _host_answers(self) -> None:
        await self._said["host"].wait()
        for _ in range(int(START_TIMEOUT_S / POLL_S)):
            if (await asyncio.to_thread(_get, f"{self._address}/admin/host/ping", {}))[0] == 200:
                return
            await asyncio.sleep(POLL_S)
        raise ChildFailed(f"the host at {self._address} does not answer")

    # Running

    async def _announce(self) -> None:
        code, body = await asyncio.to_thread(
            _get, f"{self._address}/admin/host/status", {"x-functions-key": self._keys.master}
        )
        ready = Ready(
            seconds=time.monotonic() - self._started,
            parts=[(child.name, child.ready_after_s) for child in self._children],
            address=self._address or "",
            sides=self._sides,
            table_port=self._table_port,
            keys=self._keys,
            data=self._options.data,
            functions=json.loads(body)["functions"] if code == 200 else [],
        )
        self._on_ready(ready)

    async def _watch(self, stop: asyncio.Event) -> None:
        """Until asked to stop; a part that ends before is an error."""
        ends = {asyncio.ensure_future(child.ended()) for child in self._children}
        stopping = asyncio.ensure_future(stop.wait())
        try:
            done, _ = await asyncio.wait({*ends, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping not in done:
                raise ChildFailed("; ".join(str(task.result()) for task in done & ends))
        finally:
            for task in (*ends, stopping):
                task.cancel()
            await asyncio.gather(*ends, stopping, return_exceptions=True)

    async def _stop(self) -> None:
        """The host first, so that nothing loses what it stands on."""
        if self._children:
            self._console.line("local", "stopping")
        for child in reversed(self._children):
            await child.stop()
        self._picker.release()
        if self._lock is not None:
            self._lock.close()


def _python_path() -> str:
    return os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)


async def _listening(*ports: int) -> None:
    """Wait until something accepts connections on every port."""
    for port in ports:
        while True:
            try:
                _, writer = await asyncio.open_connection(LOOPBACK, port)
            except OSError:
                await asyncio.sleep(POLL_S)
                continue
            writer.close()
            await writer.wait_closed()
            break


def _get(url: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=dict(headers)), timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""
