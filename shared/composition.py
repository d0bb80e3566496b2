"""The only place that reads the environment, and where the app's real parts are put together (`parts.py`)."""

from __future__ import annotations

import asyncio
import functools
import os
import tempfile
import uuid
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.adapters.credentials import blocking_credential_for
from shared.adapters.log_telemetry import LogTelemetry
from shared.adapters.otel_export import start_export
from shared.adapters.recent_events import RecentEvents
from shared.adapters.sdk_messages import outgoing_from
from shared.adapters.system_clock import SystemClock
from shared.adapters.telemetry_blobs import BlobPublisher
from shared.adapters.telemetry_files import FolderPublisher, Publisher
from shared.adapters.telemetry_sinks import Fanout
from shared.adapters.telemetry_writer import TelemetryWriter, WriterOptions
from shared.domain.message import Outgoing
from shared.parts import Parts
from shared.ports import Telemetry
from shared.services.backlog_gauge import BacklogGauge
from shared.services.closing import Closing
from shared.services.factory_watch import FactoryWatch
from shared.services.failover_sender import FailoverSender
from shared.services.pair_state import PairState
from shared.services.pairing import Pairing
from shared.services.pinger import Pinger
from shared.services.status import Status
from shared.services.syphon import Syphon
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
    parts = Parts(settings, clock, telemetry, instruments, instance, authority_file)
    return Runtime(
        settings=settings,
        sender=parts.sender,
        state=parts.state,
        pairing=parts.pairing,
        status=parts.status,
        pinger=parts.pinger,
        syphon=parts.syphon,
        closing=parts.closing,
        watch=parts.watch,
        gauge=parts.gauge,
        instance=instance,
        started_at=clock.now(),
        recent=recent,
        to_outgoing=outgoing_from,
        closers=(
            *parts.closers(),
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


_runtimes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Runtime] = weakref.WeakKeyDictionary()


def runtime() -> Runtime:
    """This event loop's own parts, built on first use. The Functions worker has one loop for all async functions."""
    loop = asyncio.get_running_loop()
    if loop not in _runtimes:
        _runtimes[loop] = build(settings(), authority_file=os.environ.get(AUTHORITY_SETTING) or None)
        _runtimes[loop].pairing.start_if_needed()
    return _runtimes[loop]
