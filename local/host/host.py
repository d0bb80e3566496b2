"""The host: reads the settings, loads the app, and runs a listener for each function."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.host.app_loader import load_app
from local.host.cancelling import cancel_all
from local.host.converters import Datum, speed_up_times
from local.host.durable.store import Store
from local.host.durable.worker import DurableWorker
from local.host.errors import ConfigurationError, FunctionRefused, one_line
from local.host.host_json import HostConfig, read_host_json
from local.host.http import HttpApp, HttpLimits, build_routes
from local.host.invoke import Invoker, RetryContext, thread_count
from local.host.keys import Keys, load_or_create
from local.host.leases import Leases, new_owner
from local.host.model import (
    ACTIVITY_TRIGGER,
    DURABLE_CLIENT,
    HTTP_TRIGGER,
    ORCHESTRATION_TRIGGER,
    SERVICE_BUS_TRIGGER,
    TIMER_TRIGGER,
    FunctionSpec,
)
from local.host.outputs import Outputs
from local.host.schedule import parse_schedule
from local.host.selection import listened_for, select_functions
from local.host.server import HttpServer, listen
from local.host.servicebus import ServiceBusListener, build_listener
from local.host.settings_files import merge_environment, read_settings
from local.host.storage import Storage, find_storage
from local.host.system_http import SystemEndpoints
from local.host.tasks import report_end
from local.host.threads import FunctionThreads
from local.host.timers import TimerListener, TimerStatusStore

log = logging.getLogger("local.host")

BODY_LIMIT_SETTING = "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT"
HOST_ID_SETTING = "AzureFunctionsWebHost__hostid"
STATE_TABLE = "LocalHostState"
STORAGE_WAIT_S = 30.0
STOP_GRACE_S = 15.0


@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """What a host is told when it starts."""

    directory: Path
    port: int = 7071
    bind: str = "127.0.0.1"
    keys_file: Path | None = None
    settings_file: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    #: The functions to listen for, as one instance of a plan that scales by function does; None: all of them.
    listen_for: frozenset[str] | None = None


class Host:
    """One running function app. Use it as an async context manager."""

    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self._tasks: list[asyncio.Task[None]] = []
        self._listeners: list[ServiceBusListener] = []
        self._timers: dict[str, TimerListener] = {}
        self._storage: Storage | None = None
        self._worker: DurableWorker | None = None
        self._runs_hub = False
        self._server: HttpServer | None = None
        self._listener: socket.socket | None = None
        self.refused: list[FunctionRefused] = []
        self.functions: tuple[FunctionSpec, ...] = ()
        self.startup_ms: dict[str, float] = {}

    @property
    def port(self) -> int:
        if self._server is None:
            raise RuntimeError("the host is not started")
        return self._server.port

    @property
    def address(self) -> str:
        """Where HTTP functions answer, without a trailing slash."""
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self._options.bind, self._options.bind)
        return f"http://{shown}:{self.port}"

    async def __aenter__(self) -> Host:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Read, load, listen; raises HostError with one line when that cannot be done."""
        options = self._options
        speed_up_times()
        with self._timed("settings"):
            self.config: HostConfig = read_host_json(options.directory / "host.json")
            self.settings = self._read_settings()
            self.keys: Keys = load_or_create(options.keys_file or options.directory / ".data" / "keys.json")
        for warning in self.config.warnings:
            log.warning("%s", warning)
        self._listener = listen(options.bind, options.port)
        os.environ["AZURE_FUNCTIONS_ENVIRONMENT"] = "Development"
        os.environ["WEBSITE_HOSTNAME"] = f"localhost:{self._listener.getsockname()[1]}"
        with self._timed("app"):
            app = load_app(options.directory, on_refused=self._refuse)
        runnable = select_functions(
            app, only=self.config.only_functions, settings=self.settings, refuse=self._refuse
        )
        known, runnable = runnable, listened_for(runnable, options.listen_for)
        self._threads = FunctionThreads(thread_count(self.settings))
        self._invoker = Invoker(threads=self._threads, timeout=self.config.function_timeout)
        self._outputs = Outputs(self.settings)
        with self._timed("storage"):
            await self._start_storage(runnable, known)
        with self._timed("http"):
            self._server = HttpServer(self._http_app(runnable), self._listener)
            await self._server.start()
        with self._timed("triggers"):
            self._start_listeners(runnable)
        self.functions = tuple(spec for spec in runnable if spec.name not in {r.function_name for r in self.refused})

    async def stop(self) -> None:
        """Stop taking work, let what runs come to its end, give leases back."""
        if self._server is not None:
            self._app.draining = True
        for listener in self._listeners:
            listener.stop_receiving()
        closing: list[Coroutine[Any, Any, Any]] = [listener.close() for listener in self._listeners]
        if self._server is not None:
            closing.append(self._server.stop())
        # Durable clients inside calls that still run need the worker, so it ends last.
        await self._finish(*closing)
        for task in await cancel_all(self._tasks, seconds=STOP_GRACE_S):
            log.warning("while stopping: %r does not end", task)
        if hasattr(self, "_outputs"):
            await self._outputs.close()
            self._threads.close()
        if self._storage is not None:
            await self._storage.close()
        if self._listener is not None:
            self._listener.close()
        await close_durable_client_session()

    async def _finish(self, *parts: Awaitable[Any]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_GRACE_S):
                for result in await asyncio.gather(*parts, return_exceptions=True):
                    if isinstance(result, Exception):
                        log.warning("while stopping: %s", one_line(result))

    @contextlib.contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.startup_ms[part] = (time.perf_counter() - started) * 1000

    def _read_settings(self) -> dict[str, str]:
        directory, chosen = self._options.directory, self._options.settings_file
        file = read_settings(directory, chosen)
        if "CORS" in file.host:
            log.warning("%s: Host.CORS is not supported by the local host and is ignored", file.source)
        settings = merge_environment(file, os.environ) | dict(self._options.overrides)
        # The app reads its settings from the environment, as it does in Azure.
        for name, value in settings.items():
            if "\0" not in value and name and "=" not in name:
                os.environ[name] = value
        return settings

    def _refuse(self, refused: FunctionRefused) -> None:
        self.refused.append(refused)
        log.error("%s; the other functions go on", refused)

    # Storage, timers, durable

    async def _start_storage(self, functions: list[FunctionSpec], known: list[FunctionSpec]) -> None:
        needing = [spec for spec in functions if _needs_storage(spec)]
        if not needing:
            return
        address = find_storage(self.settings)
        if address is None:
            for spec in needing:
                self._refuse(FunctionRefused(spec.name, "needs storage, but AzureWebJobsStorage is not set"))
                functions.remove(spec)
            return
        self._storage = Storage(address)
        try:
            async with asyncio.timeout(STORAGE_WAIT_S):
                table = await self._storage.table(STATE_TABLE)
                hub = await self._storage.table(f"{self.config.durable.hub_name}Instances")
        except Exception as error:
            raise ConfigurationError(
                f"storage at {self._storage.endpoint} does not answer ({one_line(error, 160)}); is Azurite running?"
            ) from error
        owner = new_owner()
        host_id = self.settings.get(HOST_ID_SETTING) or self._options.directory.resolve().name
        leases = Leases(table, owner)
        self._make_timers(functions, leases, TimerStatusStore(table, host_id))
        # Clients may start what other instances run, so all of the app's orchestrators are known.
        orchestrators = {spec.name: spec for spec in known if spec.trigger_type == ORCHESTRATION_TRIGGER}
        activities = {spec.name: spec for spec in functions if spec.trigger_type == ACTIVITY_TRIGGER}
        self._runs_hub = any(spec.trigger_type == ORCHESTRATION_TRIGGER for spec in functions)
        if orchestrators and (self._runs_hub or any(spec.bindings_of(DURABLE_CLIENT) for spec in functions)):
            self._worker = DurableWorker(
                store=Store(hub),
                leases=leases,
                invoker=self._invoker,
                options=self.config.durable,
                orchestrators=orchestrators,
                activities=activities,
                extra_inputs=self._extra_inputs,
                on_outputs=self._outputs.send,
            )

    def _make_timers(self, functions: list[FunctionSpec], leases: Leases, statuses: TimerStatusStore) -> None:
        for spec in functions:
            if spec.trigger_type != TIMER_TRIGGER:
                continue
            try:
                schedule = parse_schedule(str(spec.trigger["schedule"]))
                self._timers[spec.name] = TimerListener(
                    spec=spec, schedule=schedule, leases=leases, statuses=statuses, run=self._run_timer
                )
            except ConfigurationError as error:
                self._refuse(FunctionRefused(spec.name, str(error)))

    async def _run_timer(self, spec: FunctionSpec, datum: Datum, retry: RetryContext) -> None:
        inputs = {spec.trigger_name: datum, **self._extra_inputs(spec)()}
        invocation = await self._invoker.invoke(spec, inputs, retry=retry)
        await self._outputs.send(spec, invocation)

    # HTTP

    def _http_app(self, functions: list[FunctionSpec]) -> HttpApp:
        http = tuple(spec for spec in functions if spec.trigger_type == HTTP_TRIGGER)
        routes = build_routes(http, self.config.route_prefix, self._extra_inputs, self._refuse)
        limits = HttpLimits(
            body_bytes=_body_limit(self.settings),
            concurrent=self.config.max_concurrent_requests,
            outstanding=self.config.max_outstanding_requests,
        )
        self._system = SystemEndpoints(
            keys=self.keys, worker=self._worker, run_timer=self._run_timer_by_hand, status=self._status
        )
        self._app = HttpApp(
            routes=routes,
            keys=self.keys,
            invoker=self._invoker,
            limits=limits,
            mounts=self._system.mounts(),
            on_outputs=self._outputs.send,
        )
        return self._app

    def _run_timer_by_hand(self, name: str) -> bool:
        timer = self._timers.get(name)
        if timer is not None:
            self._spawn(timer.run_once(), f"timer {name} by hand")
        return timer is not None

    def _status(self) -> dict[str, Any]:
        return {
            "state": "Running",
            "functions": [
                {"name": spec.name, "trigger": spec.trigger_type, "route": spec.trigger.get("route")}
                for spec in self.functions
            ],
            "errors": [str(refused) for refused in self.refused],
        }

    def _extra_inputs(self, spec: FunctionSpec) -> Callable[[], Mapping[str, Datum]]:
        """Inputs besides the trigger: durable clients, whose addresses are known once the host listens."""
        clients = [str(binding["name"]) for binding in spec.bindings_of(DURABLE_CLIENT)]
        if not clients:
            return dict
        payload: list[Datum] = []

        def inputs() -> Mapping[str, Datum]:
            if not payload:
                text = self._system.durable_client(self.address, self.config.durable.hub_name)
                payload.append(Datum(text, "string"))
            return dict.fromkeys(clients, payload[0])

        return inputs

    # Listeners

    def _start_listeners(self, functions: list[FunctionSpec]) -> None:
        for spec in functions:
            if spec.trigger_type != SERVICE_BUS_TRIGGER:
                continue
            try:
                listener = build_listener(
                    spec=spec,
                    settings=self.settings,
                    options=self.config.service_bus,
                    invoker=self._invoker,
                    extra_inputs=self._extra_inputs(spec),
                    on_outputs=self._outputs.send,
                )
            except (ConfigurationError, FunctionRefused) as error:
                self._refuse(error if isinstance(error, FunctionRefused) else FunctionRefused(spec.name, str(error)))
                continue
            self._listeners.append(listener)
            self._spawn(listener.serve(), f"listener {spec.name}")
        for name, timer in self._timers.items():
            self._spawn(timer.serve(), f"timer {name}")
        if self._worker is not None and self._runs_hub:
            self._spawn(self._worker.serve(), "durable worker")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(report_end)
        self._tasks.append(task)


def _needs_storage(spec: FunctionSpec) -> bool:
    kinds = (TIMER_TRIGGER, ORCHESTRATION_TRIGGER, ACTIVITY_TRIGGER)
    return spec.trigger_type in kinds or bool(spec.bindings_of(DURABLE_CLIENT))


def _body_limit(settings: Mapping[str, str]) -> int:
    text = settings.get(BODY_LIMIT_SETTING)
    if not text:
        return HttpLimits().body_bytes
    if not text.isdigit():
        raise ConfigurationError(f"{BODY_LIMIT_SETTING} must be a number of bytes, got {text!r}")
    return int(text)


async def close_durable_client_session() -> None:
    """The durable library keeps one HTTP session for the process and has no public way to close it."""
    from azure.durable_functions.models.utils import http_utils

    await http_utils._close_session()
