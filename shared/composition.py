"""The only place where the app's real parts are put together."""

from __future__ import annotations

import asyncio
import functools
import os
import random
import tempfile
import uuid
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.adapters.administration import Administration
from shared.adapters.backlog_receiver import SdkBacklogQueues
from shared.adapters.credentials import blocking_credential_for, credential_for
from shared.adapters.factories import TableFactoryStore
from shared.adapters.log_telemetry import LogTelemetry
from shared.adapters.otel_export import start_export
from shared.adapters.recent_events import RecentEvents
from shared.adapters.sdk_messages import extended, outgoing_from
from shared.adapters.servicebus import SdkLinks
from shared.adapters.system_clock import SystemClock
from shared.adapters.tables import TableStateStore
from shared.adapters.telemetry_blobs import BlobPublisher
from shared.adapters.telemetry_files import FolderPublisher, Publisher
from shared.adapters.telemetry_sinks import Fanout
from shared.adapters.telemetry_writer import TelemetryWriter, WriterOptions
from shared.domain.backlog import backlog_queue_paths
from shared.domain.message import Outgoing
from shared.domain.pair import Side
from shared.ports import Telemetry
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
from shared.version import VERSION

if TYPE_CHECKING:
    from shared.adapters.otel_telemetry import OtelTelemetry

#: OpenSSL's own name for a file of certificates to trust; set where a broker of one's own is used.
AUTHORITY_SETTING = "SSL_CERT_FILE"


@functools.cache
def settings() -> Settings:
    """The app's settings, read from its environment once; ConfigurationError lists everything wrong with them."""
    return Settings.from_env(os.environ)


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """The app's parts for one event loop; SDK clients belong to the loop they were made in."""

    settings: Settings
    sender: FailoverSender
    state: PairState
    pairing: Pairing
    status: Status
    pinger: Pinger
    syphon: Syphon
    closing: Closing
    watch: FactoryWatch
    #: Measures the backlog, where somebody collects such figures.
    gauge: BacklogGauge | None
    #: This instance among those of the app, since when it runs, and its last events, for people who look at it.
    instance: str
    started_at: datetime
    recent: RecentEvents
    to_outgoing: Callable[[object], Outgoing]
    closers: tuple[Callable[[], Coroutine[Any, Any, None]], ...]

    async def close(self) -> None:
        for close in self.closers:
            await close()


def build(
    settings: Settings,
    *,
    telemetry: Telemetry | None = None,
    authority_file: str | None = None,
    open_telemetry: OtelTelemetry | None = None,
) -> Runtime:
    """Call it in the event loop that is going to use it. Nothing is connected before it is needed."""
    clock, recent = SystemClock(), RecentEvents()
    instance = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
    instruments = open_telemetry or _open_telemetry(settings, instance)
    telemetry, writer = _told(settings, instance, recent, telemetry, instruments)
    connections = {Side.PRIMARY: settings.primary, Side.SECONDARY: settings.secondary}
    credentials = {
        side: None if connection.connection_string is not None else credential_for(connection.client_id)
        for side, connection in connections.items()
    }
    storage = settings.state_storage
    storage_credential = None if storage.connection_string is not None else credential_for(storage.client_id)
    store = TableStateStore(storage, settings.pair.name, storage_credential)
    primary, secondary = (
        Administration(connections[side], credentials[side], authority_file=authority_file) for side in Side
    )
    state = PairState(
        store=store,
        clock=clock,
        telemetry=telemetry,
        queues=backlog_queue_paths(settings.pair.primary, settings.backlog_queue_count),
        failover_interval=settings.failover_interval,
        refresh_every=settings.state_refresh,
        instance=instance,
    )
    closing = Closing(
        store=TableFactoryStore(store), state=state, clock=clock, telemetry=telemetry, grace=settings.partner_grace
    )
    watch = FactoryWatch(closing=closing, state=state, clock=clock)
    links = WatchedLinks(SdkLinks(connections, credentials, authority_file), watch)
    lanes, facts = Lanes(links, backlog_is_partitioned=settings.backlog_partitioned), EntityFacts(primary)
    backlog = BacklogSender(
        state=state,
        lanes=lanes,
        links=links,
        attempt_timeout=settings.primary_attempt_timeout,
        rng=random.Random(),
        extended=extended,
    )
    pings = Pings(links)
    check = EntityCheck(state=state, pings=pings, timeout=settings.primary_attempt_timeout)
    sender = FailoverSender(
        pair=settings.pair,
        options=_send_options(settings),
        state=state,
        lanes=lanes,
        backlog=backlog,
        clock=clock,
        telemetry=telemetry,
        facts=facts,
        instruments=instruments,
        check=check,
    )
    pairing = Pairing(
        pair=settings.pair,
        count=settings.backlog_queue_count,
        partitioned=settings.backlog_partitioned,
        admin=secondary,
        store=store,
        state=state,
        clock=clock,
    )
    backlog_queues = SdkBacklogQueues(settings.secondary, credentials[Side.SECONDARY], authority_file)
    keys = KeyReturns(
        state=state,
        pings=pings,
        facts=facts,
        queues=backlog_queues,
        clock=clock,
        ping_timeout=min(settings.primary_attempt_timeout, settings.ping_primary_interval),
    )
    pinger = Pinger(
        options=_ping_options(settings),
        state=state,
        pings=pings,
        facts=facts,
        clock=clock,
        telemetry=telemetry,
        keys=keys,
    )
    desk = Desk(
        state=state,
        store=store,
        clock=clock,
        telemetry=telemetry,
        facts=facts,
        rng=random.Random(),
        rate_limit=settings.syphon_rate_limit or None,
        instruments=instruments,
    )
    syphon = Syphon(
        options=_syphon_options(settings), queues=backlog_queues, links=links, facts=facts, desk=desk
    )
    status = Status(
        pair=settings.pair,
        state=state,
        sender=sender,
        facts=facts,
        admin=secondary,
        queues=backlog_queues,
        clock=clock,
    )
    # Only an app with a syphon has the right to ask how much is in a queue.
    gauge = (
        BacklogGauge(admin=secondary, state=state, instruments=instruments, clock=clock)
        if instruments is not None and settings.enable_syphon
        else None
    )
    used_credentials = [one for one in (*credentials.values(), storage_credential) if one is not None]
    return Runtime(
        settings=settings,
        sender=sender,
        state=state,
        pairing=pairing,
        status=status,
        pinger=pinger,
        syphon=syphon,
        closing=closing,
        watch=watch,
        gauge=gauge,
        instance=instance,
        started_at=clock.now(),
        recent=recent,
        to_outgoing=outgoing_from,
        closers=(
            sender.settled,
            facts.close,
            check.close,
            pairing.close,
            status.close,
            pinger.close,
            syphon.close,
            backlog.close,
            lanes.close,
            watch.settled,
            state.close,
            primary.close,
            secondary.close,
            *(one.close for one in used_credentials),
            *([] if writer is None else [writer.close]),
            *([] if instruments is None else [instruments.close]),
        ),
    )


def _told(
    settings: Settings,
    instance: str,
    recent: RecentEvents,
    given: Telemetry | None,
    instruments: OtelTelemetry | None,
) -> tuple[Telemetry, TelemetryWriter | None]:
    """All that is told of what happens, and the writer of records, where they are kept."""
    # The log records of OpenTelemetry say the same as the lines would, and reach whoever collects them from outside of
    # a call as well.
    told = Fanout([given or instruments or LogTelemetry(), recent])
    if given is not None:
        return told if instruments is None else Fanout([told, instruments]), None
    writer = _telemetry_writer(settings, instance, told)
    return told if writer is None else Fanout([writer, told]), writer


def _open_telemetry(settings: Settings, instance: str) -> OtelTelemetry | None:
    kind = "syphon" if settings.enable_syphon else "sender"
    return start_export(
        settings.open_telemetry, service=f"paired-namespaces-{kind}", instance=instance, version=VERSION
    )


def _telemetry_writer(settings: Settings, instance: str, also: Telemetry) -> TelemetryWriter | None:
    if not settings.telemetry_folder and not settings.telemetry_container:
        return None
    folder = Path(settings.telemetry_folder or Path(tempfile.gettempdir()) / "paired-namespaces-telemetry")
    publisher: Publisher = FolderPublisher(folder)
    if settings.telemetry_container:
        storage = settings.state_storage
        credential = None if storage.connection_string else blocking_credential_for(storage.client_id)
        publisher = BlobPublisher(storage, settings.telemetry_container, credential)
    options = WriterOptions(
        folder=folder,
        file_bytes_max=settings.telemetry_rotate_bytes,
        file_age_max=settings.telemetry_rotate_interval,
        buffer_events_max=settings.telemetry_buffer_events,
        backlog_queue_count=settings.backlog_queue_count,
        ping_primary_interval=settings.ping_primary_interval,
    )
    return TelemetryWriter(options, instance=instance, clock=SystemClock(), publisher=publisher, also=also)


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


_runtimes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Runtime] = weakref.WeakKeyDictionary()


def runtime() -> Runtime:
    """This event loop's own parts, built on first use. The Functions worker has one loop for all async functions."""
    loop = asyncio.get_running_loop()
    if loop not in _runtimes:
        _runtimes[loop] = build(settings(), authority_file=os.environ.get(AUTHORITY_SETTING) or None)
        _runtimes[loop].pairing.start_if_needed()
    return _runtimes[loop]
