"""The app's real parts, and which of them each one is made of."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shared.adapters.administration import Administration
from shared.adapters.backlog_receiver import SdkBacklogQueues
from shared.adapters.credentials import credential_for
from shared.adapters.factories import TableFactoryStore
from shared.adapters.sdk_messages import extended
from shared.adapters.servicebus import SdkLinks
from shared.adapters.tables import TableStateStore
from shared.domain.backlog import backlog_queue_paths
from shared.domain.pair import Side
from shared.ports import Clock, Telemetry
from shared.services.backlog_gauge import BacklogGauge
from shared.services.backlog_sender import BacklogSender
from shared.services.closing import Closing
from shared.services.entity_check import EntityCheck
from shared.services.entity_facts import EntityFacts
from shared.services.factory_watch import FactoryWatch, WatchedLinks
from shared.services.failover_sender import FailoverSender, SendOptions
from shared.services.key_returns import KeyReturns
from shared.services.lanes import Lanes
from shared.services.pair_state import PairState
from shared.services.pairing import Pairing
from shared.services.pinger import Pinger, PingOptions
from shared.services.pings import Pings
from shared.services.status import Status
from shared.services.syphon import Syphon, SyphonOptions
from shared.services.syphon_desk import Desk
from shared.settings import Settings

if TYPE_CHECKING:
    from shared.adapters.otel_telemetry import OtelTelemetry


class Parts:
    """The parts of one runtime, each made once, out of the others it names."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        telemetry: Telemetry,
        instruments: OtelTelemetry | None,
        instance: str,
        authority_file: str | None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._telemetry = telemetry
        self._instruments = instruments
        self._instance = instance
        self._authority_file = authority_file
        self._connections = {Side.PRIMARY: settings.primary, Side.SECONDARY: settings.secondary}
        self._credentials = {
            side: None if connection.connection_string is not None else credential_for(connection.client_id)
            for side, connection in self._connections.items()
        }
        storage = settings.state_storage
        self._storage_credential = None if storage.connection_string is not None else credential_for(storage.client_id)

    def closers(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """In the order in which parts are closed: what uses others before these."""
        credentials = [one for one in (*self._credentials.values(), self._storage_credential) if one is not None]
        return [
            self.sender.settled,
            self._facts.close,
            self._check.close,
            self.pairing.close,
            self.status.close,
            self.pinger.close,
            self.syphon.close,
            self._backlog.close,
            self._lanes.close,
            self.watch.settled,
            self.state.close,
            self._primary.close,
            self._secondary.close,
            *(one.close for one in credentials),
        ]

    # -- what is shared with other instances

    @cached_property
    def _store(self) -> TableStateStore:
        return TableStateStore(self._settings.state_storage, self._settings.pair.name, self._storage_credential)

    @cached_property
    def state(self) -> PairState:
        return PairState(
            store=self._store,
            clock=self._clock,
            telemetry=self._telemetry,
            queues=backlog_queue_paths(self._settings.pair.primary, self._settings.backlog_queue_count),
            failover_interval=self._settings.failover_interval,
            refresh_every=self._settings.state_refresh,
            instance=self._instance,
        )

    @cached_property
    def closing(self) -> Closing:
        return Closing(
            store=TableFactoryStore(self._store),
            state=self.state,
            clock=self._clock,
            telemetry=self._telemetry,
            grace=self._settings.partner_grace,
        )

    @cached_property
    def watch(self) -> FactoryWatch:
        return FactoryWatch(closing=self.closing, state=self.state, clock=self._clock)

    # -- the two namespaces

    @cached_property
    def _primary(self) -> Administration:
        return self._administration(Side.PRIMARY)

    @cached_property
    def _secondary(self) -> Administration:
        return self._administration(Side.SECONDARY)

    def _administration(self, side: Side) -> Administration:
        return Administration(self._connections[side], self._credentials[side], authority_file=self._authority_file)

    @cached_property
    def _facts(self) -> EntityFacts:
        return EntityFacts(self._primary)

    @cached_property
    def _links(self) -> WatchedLinks:
        return WatchedLinks(SdkLinks(self._connections, self._credentials, self._authority_file), self.watch)

    @cached_property
    def _backlog_queues(self) -> SdkBacklogQueues:
        return SdkBacklogQueues(self._settings.secondary, self._credentials[Side.SECONDARY], self._authority_file)

    @cached_property
    def pairing(self) -> Pairing:
        return Pairing(
            pair=self._settings.pair,
            count=self._settings.backlog_queue_count,
            partitioned=self._settings.backlog_partitioned,
            admin=self._secondary,
            store=self._store,
            state=self.state,
            clock=self._clock,
        )

    # -- there

    @cached_property
    def _lanes(self) -> Lanes:
        return Lanes(self._links, backlog_is_partitioned=self._settings.backlog_partitioned)

    @cached_property
    def _backlog(self) -> BacklogSender:
        return BacklogSender(
            state=self.state,
            lanes=self._lanes,
            links=self._links,
            attempt_timeout=self._settings.primary_attempt_timeout,
            rng=random.Random(),
            extended=extended,
        )

    @cached_property
    def _check(self) -> EntityCheck:
        return EntityCheck(state=self.state, pings=self._pings, timeout=self._settings.primary_attempt_timeout)

    @cached_property
    def sender(self) -> FailoverSender:
        return FailoverSender(
            pair=self._settings.pair,
            options=_send_options(self._settings),
            state=self.state,
            lanes=self._lanes,
            backlog=self._backlog,
            clock=self._clock,
            telemetry=self._telemetry,
            facts=self._facts,
            instruments=self._instruments,
            check=self._check,
        )

    # -- and back

    @cached_property
    def _pings(self) -> Pings:
        return Pings(self._links)

    @cached_property
    def _keys(self) -> KeyReturns:
        return KeyReturns(
            state=self.state,
            pings=self._pings,
            facts=self._facts,
            queues=self._backlog_queues,
            clock=self._clock,
            ping_timeout=min(self._settings.primary_attempt_timeout, self._settings.ping_primary_interval),
        )

    @cached_property
    def pinger(self) -> Pinger:
        return Pinger(
            options=_ping_options(self._settings),
            state=self.state,
            pings=self._pings,
            facts=self._facts,
            clock=self._clock,
            telemetry=self._telemetry,
            keys=self._keys,
        )

    @cached_property
    def _desk(self) -> Desk:
        return Desk(
            state=self.state,
            store=self._store,
            clock=self._clock,
            telemetry=self._telemetry,
            facts=self._facts,
            rng=random.Random(),
            rate_limit=self._settings.syphon_rate_limit or None,
            instruments=self._instruments,
        )

    @cached_property
    def syphon(self) -> Syphon:
        return Syphon(
            options=_syphon_options(self._settings),
            queues=self._backlog_queues,
            links=self._links,
            facts=self._facts,
            desk=self._desk,
        )

    # -- for people

    @cached_property
    def status(self) -> Status:
        return Status(
            pair=self._settings.pair,
            state=self.state,
            sender=self.sender,
            facts=self._facts,
            admin=self._secondary,
            queues=self._backlog_queues,
            clock=self._clock,
        )

    @cached_property
    def gauge(self) -> BacklogGauge | None:
        """Only an app with a syphon has the right to ask how much is in a queue."""
        if self._instruments is None or not self._settings.enable_syphon:
            return None
        return BacklogGauge(
            admin=self._secondary, state=self.state, instruments=self._instruments, clock=self._clock
        )


def _send_options(settings: Settings) -> SendOptions:
    return SendOptions(
        send_deadline=settings.send_deadline,
        attempt_timeout=settings.primary_attempt_timeout,
        partitioned_attempt_timeout=settings.partitioned_attempt_timeout,
        divert_while_suspect=settings.divert_while_suspect,
    )


def _ping_options(settings: Settings) -> PingOptions:
    return PingOptions(
        interval=settings.ping_primary_interval,
        attempt_timeout=settings.primary_attempt_timeout,
        partitioned_attempt_timeout=settings.partitioned_attempt_timeout,
        successes_needed=settings.ping_successes,
        all_partitions=settings.ping_all_partitions,
    )


def _syphon_options(settings: Settings) -> SyphonOptions:
    return SyphonOptions(
        attempt_timeout=settings.primary_attempt_timeout,
        partitioned_attempt_timeout=settings.partitioned_attempt_timeout,
        slack=settings.state_refresh + settings.send_deadline,
        restart_clock=settings.syphon_restart_time_to_live,
    )
