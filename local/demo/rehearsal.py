"""The rehearsal: everything started, traffic, outage, drain, audit, everything stopped."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TextIO

from local.demo.app_client import AppClient, CallFailed, pause, states_of
from local.demo.audit import audit_backlog, audit_primary
from local.demo.board import AVAILABLE, Board, Snapshot
from local.demo.faults import FAULTS
from local.demo.ledger import Ledger
from local.demo.options import DemoOptions
from local.demo.receivers import Receivers
from local.demo.schedule import Phase, app_settings
from local.demo.sender import Sender
from local.demo.view import View
from local.stack.console import Console
from local.stack.options import ROOT, StackOptions
from local.stack.stack import Stack
from local.stack.summary import Ready
from shared.adapters.receipts import Receipts

_LOGGER = logging.getLogger(__name__)

PORTS = ("http", "primary", "primary-admin", "secondary", "secondary-admin", "blob", "queue", "table")
SHOW_EVERY_S = 0.25
STATUS_EVERY_S = 0.5
#: How long the drain may take after the last send; what is not home by then waits, and the audit says where.
DRAIN_S_MAX = 120.0
#: Nothing new for so long: a copy that was on its way has arrived.
QUIET_S = 2.0
#: Nothing new for so long, with an empty backlog: not even a lock that ran out will bring what is missing.
STILL_S = 25.0


class Rehearsal:
    def __init__(self, options: DemoOptions, view: View, log: TextIO) -> None:
        self._options = options
        self._view = view
        self._log = log
        self._stack: Stack | None = None
        self._done = asyncio.Event()
        self.ledger = Ledger()
        self.board = Board(options.schedule, self.ledger)
        #: How it looked when the outage ended.
        self.at_the_end_of_the_outage: Snapshot | None = None

    @property
    def telemetry(self) -> Path:
        return self._options.folder / "telemetry"

    def kill(self) -> None:
        """End everything at once."""
        if self._stack is not None:
            self._stack.kill()

    async def run(self) -> None:
        """Afterwards the books are closed, and every process is gone."""
        stop = asyncio.Event()
        ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        settings = app_settings(self._options.schedule)
        self.say("starting broker, storage and function app with " + ", ".join(map("=".join, settings.items())))
        self._stack = Stack(self._stack_options(settings), Console(self._log), on_ready=ready.set_result)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._stack.run(stop), name="stack")
            ticking = group.create_task(self._tick(), name="view")
            await self._play(await ready)
            stop.set()
            self._done.set()
            await ticking

    def _stack_options(self, settings: dict[str, str]) -> StackOptions:
        return StackOptions(
            settings_file=ROOT / "local.settings.example.json",
            app_settings={
                **settings,
                "TELEMETRY_FOLDER": str(self.telemetry),
                "TELEMETRY_CONTAINER": "",
                "TELEMETRY_ROTATE_INTERVAL": "PT5S",
            },
            data=self._options.folder / "data",
            entities=Path(__file__).with_name("entities.json"),
            ports=dict.fromkeys(PORTS, 0),
            fresh=True,
        )

    async def _play(self, ready: Ready) -> None:
        primary, secondary = (side.settings()[side.setting] for side in ready.sides)
        with Receipts(self.telemetry) as receipts:
            receivers = Receivers(primary, self.ledger, receipts)
            async with AppClient(ready) as client, asyncio.TaskGroup() as group:
                await client.pair()
                receiving = group.create_task(receivers.run(), name="receivers")
                watching = group.create_task(self._watch(client), name="states")
                await self._traffic(client)
                await self._drain(client)
                receivers.stop()
                await receiving
                watching.cancel()
                queues = [str(queue["path"]) for queue in (await client.status())["backlog"]["queues"]]
            self.board.enter(Phase.REPORT, asyncio.get_running_loop().time())
            self.say("looking through every queue of both namespaces")
            await asyncio.gather(
                audit_primary(primary, self.ledger, receipts), audit_backlog(secondary, queues, self.ledger, receipts)
            )

    async def _traffic(self, client: AppClient) -> None:
        """Sending goes on in all phases; the outage happens in the middle of it."""
        options, schedule = self._options, self._options.schedule
        fault = FAULTS[options.fault]
        sender = Sender(client, self.ledger, rate=options.rate, seed=options.seed)
        await sender.warm_up()
        self.board.began_s = asyncio.get_running_loop().time()
        self.say(f"ready; sending {options.rate:g} messages a second for {schedule.duration_s:g} s")
        async with asyncio.TaskGroup() as group:
            group.create_task(sender.run(schedule.duration_s), name="sender")
            await self._at(schedule.breaks_at_s)
            await client.break_primary(fault)
            self.board.enter(Phase.OUTAGE, asyncio.get_running_loop().time())
            self.say(f"OUTAGE for {schedule.outage_s:g} s: {fault.story}")
            await self._at(schedule.heals_at_s)
            self.at_the_end_of_the_outage = self.board.snapshot(asyncio.get_running_loop().time())
            await client.heal()
            self.board.enter(Phase.DRAIN, asyncio.get_running_loop().time())
            self.say("the primary is healed")

    async def _at(self, elapsed_s: float) -> None:
        await asyncio.sleep(max(0.0, elapsed_s - self.board.elapsed_s(asyncio.get_running_loop().time())))

    async def _drain(self, client: AppClient) -> None:
        """Until all is delivered, the backlog is empty and nothing more comes; or until the time for it is up."""
        loop = asyncio.get_running_loop()
        self.say(f"traffic has ended; {self.ledger.undelivered} accepted messages are on their way")
        ends = loop.time() + DRAIN_S_MAX
        nothing_late_after = self.board.phase_began_s + FAULTS[self._options.fault].aftermath_s
        seen, quiet_since = self.ledger.arrivals, loop.time()
        while loop.time() < ends:
            if self.ledger.arrivals != seen:
                seen, quiet_since = self.ledger.arrivals, loop.time()
            missing = self.ledger.undelivered
            quiet_s = STILL_S if missing else QUIET_S
            is_quiet = loop.time() >= max(quiet_since + quiet_s, nothing_late_after)
            if is_quiet and await self._is_over(client):
                self.say(f"the backlog is empty, and {f'{missing} messages are missing' if missing else 'all arrived'}")
                return
            await asyncio.sleep(SHOW_EVERY_S)
        self.say(f"after {DRAIN_S_MAX:g} s the backlog is not empty; the audit finds what waits")

    async def _is_over(self, client: AppClient) -> bool:
        try:
            status = await client.status()
        except CallFailed as error:
            _LOGGER.warning("whether the backlog is empty is not known: %s", error)
            return False
        return status["backlog"]["waiting"] == 0 and set(states_of(status).values()) <= {AVAILABLE}

    # -- watching

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._done.is_set():
            self._view.show(self.board.snapshot(loop.time()))
            await pause(SHOW_EVERY_S, self._done)

    async def _watch(self, client: AppClient) -> None:
        """What the app says of its entities, as an operator would ask for it."""
        while True:
            try:
                states = states_of(await client.status())
            except CallFailed as error:
                _LOGGER.warning("the state of the pair is not known: %s", error)
                states = {}
            for change in self.board.hear(states, asyncio.get_running_loop().time()):
                self.say(change)
            await asyncio.sleep(STATUS_EVERY_S)

    def say(self, text: str) -> None:
        now = asyncio.get_running_loop().time()
        self._view.note(self.board.note(now, text))
