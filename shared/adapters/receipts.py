"""Receipts: what a receiver or an audit saw of the messages, written beside the app's own records.

    with Receipts(Path("telemetry")) as receipts:
        receipts.received("orders", message)      # a ServiceBusReceivedMessage, received or peeked
        receipts.audited("orders", since=began)   # all that was there before this moment has a receipt
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from datetime import datetime
from pathlib import Path
from types import TracebackType

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusReceiver

from shared.adapters.system_clock import SystemClock
from shared.adapters.telemetry_writer import TelemetryWriter, WriterOptions
from shared.domain.pair import EntityPath
from shared.ports import Clock
from shared.telemetry_events import AuditCompleted, MessageReceived

PEEK_AT_ONCE_MAX = 250
#: Messages that one audit of an entity looks at.
AUDIT_MESSAGES_MAX = 10_000_000


class AuditTooLarge(Exception):
    """The entity holds more messages than one audit looks at; what is there has receipts, but nothing is proved."""


class Receipts:
    def __init__(self, folder: Path, *, instance: str | None = None, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._writer = TelemetryWriter(
            WriterOptions(folder=folder, buffer_events_max=1_000_000),
            instance=instance or f"receipts-{os.getpid()}-{uuid.uuid4().hex[:8]}",
            clock=self._clock,
        )
        self._seen: Counter[str] = Counter()

    def received(self, path: str, message: ServiceBusReceivedMessage, *, subscription: str | None = None) -> None:
        self._seen[path] += 1
        self._writer.emit(
            MessageReceived(
                at=self._clock.now(),
                path=EntityPath(path),
                message_id=str(message.message_id),
                sequence_number=message.sequence_number,
                subscription=subscription,
                enqueued_at=message.enqueued_time_utc,
                delivery_count=message.delivery_count or 0,
            )
        )

    def audited(self, path: str, *, since: datetime, subscription: str | None = None) -> None:
        self._writer.emit(
            AuditCompleted(
                at=self._clock.now(),
                path=EntityPath(path),
                since=since,
                messages=self._seen[path],
                subscription=subscription,
            )
        )

    async def audit(self, path: str, receiver: ServiceBusReceiver, *, subscription: str | None = None) -> int:
        """Looks at every message that is there, and takes none. How many there were."""
        since, after, seen = self._clock.now(), 0, 0
        while seen < AUDIT_MESSAGES_MAX:
            batch = await receiver.peek_messages(PEEK_AT_ONCE_MAX, sequence_number=after)
            if not batch:
                self.audited(path, since=since, subscription=subscription)
                return seen
            for message in batch:
                self.received(path, message, subscription=subscription)
            seen += len(batch)
            after = 1 + max(message.sequence_number or 0 for message in batch)
        raise AuditTooLarge(path)

    def close(self) -> None:
        self._writer.stop()

    def __enter__(self) -> Receipts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
