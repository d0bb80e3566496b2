"""Table Storage is stopped for real and started again: sends go on, the instance says so, and nothing is forgotten."""

from __future__ import annotations

import asyncio

import pytest

from shared.domain.availability import Event, Route, Unavailable
from shared.domain.pair import EntityPath
from shared.errors import StateUnreachable
from shared.paired_sender import PairedSender
from shared.telemetry_events import StateStorageChanged
from tests.support.send_services import PairOnBroker, Recorder, azurite, pair_on_broker, until

ORDERS = EntityPath("orders")
SENDERS = 8
CAUGHT_UP_SECONDS_MAX = 20


class Traffic:
    """Senders that never stop, and the ways their messages took."""

    def __init__(self, bus: PairedSender) -> None:
        self._bus = bus
        self.sent: list[Route] = []
        self._is_over = False
        self._tasks = [asyncio.create_task(self._send()) for _ in range(SENDERS)]

    async def _send(self) -> None:
        while not self._is_over:
            self.sent.append((await self._bus.send("orders", "x")).via)
            await asyncio.sleep(0.01)

    async def goes_on(self, via: Route) -> None:
        """Messages that are sent from now on arrive, and this way; whoever failed fails the test."""
        seen = len(self.sent) + SENDERS
        await until(lambda: len(self.sent) > seen + 50 or self._failed, seconds=20, what="sends go on")
        assert not self._failed, self._failed
        assert {via} == set(self.sent[seen:])

    @property
    def _failed(self) -> list[BaseException | None]:
        return [task.exception() for task in self._tasks if task.done()]

    async def stop(self) -> None:
        """Lets everybody finish: a call into the SDK may not heed a cancellation."""
        self._is_over = True
        await asyncio.gather(*self._tasks)


@pytest.mark.timeout(120)
async def test_an_outage_of_table_storage_stops_no_send_and_is_caught_up_with() -> None:
    with azurite() as storage:
        async with pair_on_broker(storage.connection_string) as pair:
            pair.create_entities("orders", "fresh")
            settings = pair.settings(FAILOVER_INTERVAL="PT0S", PRIMARY_ATTEMPT_TIMEOUT="PT5S")
            telemetry = Recorder()
            async with PairedSender(settings, telemetry=telemetry, create_queues=False) as bus:
                state, traffic = bus.runtime.state, Traffic(bus)
                await traffic.goes_on(Route.PRIMARY)
                await asyncio.to_thread(storage.stop)
                await until(lambda: state.trouble is not None, seconds=20, what="the instance notices")
                await traffic.goes_on(Route.PRIMARY)
                status = await bus.runtime.status.collect()
                assert any("hared state" in warning for warning in status.warnings), status.warnings

                # A failover that nobody else can hear of yet, an operator who is told so, and a program that starts.
                await pair.broker.inject(kind="full", namespace="primary", entity="orders", count=1)
                await until(lambda: isinstance(state.availability(ORDERS), Unavailable), seconds=10, what="failover")
                await traffic.goes_on(Route.BACKLOG)
                with pytest.raises(StateUnreachable):
                    await state.mark(EntityPath("others"), Event.MARKED_UNAVAILABLE, "rehearsal")
                async with PairedSender(settings, create_queues=False) as newcomer:
                    assert Route.PRIMARY is (await newcomer.send("fresh", "x")).via

                await asyncio.to_thread(storage.start)
                await until(lambda: state.trouble is None, seconds=CAUGHT_UP_SECONDS_MAX, what="storage is back")
                await others_divert(pair)
                await traffic.goes_on(Route.BACKLOG)
                await traffic.stop()
            changes = [event.reachable for event in telemetry.events if isinstance(event, StateStorageChanged)]
            assert [False, True] == changes
            stored = len(pair.in_primary("orders")) + len(pair.in_backlog("orders"))
            of_the_other_instance = 1
            assert len(traffic.sent) + of_the_other_instance == stored


async def others_divert(pair: PairOnBroker) -> None:
    """Another instance, which has seen nothing itself, knows of the failover by what was caught up."""
    async with PairedSender(pair.settings(), create_queues=False) as other:
        state = other.runtime.state
        await until(lambda: isinstance(state.availability(ORDERS), Unavailable), seconds=5, what="the others hear")
        assert Route.BACKLOG is (await other.send("orders", "x")).via
