"""Several places for telemetry to go at once, and one of them: the last events, kept in memory for whoever looks."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence

from shared.ports import Telemetry
from shared.telemetry_events import TelemetryEvent, is_plain_send

RECENT_EVENTS_MAX = 200


class Fanout:
    """Hands every event to every sink; sends that went straight to the primary only to those that want them."""

    def __init__(self, sinks: Sequence[Telemetry]) -> None:
        self._sinks = tuple(sinks)
        self._eager = tuple(sink for sink in sinks if sink.wants_every_send)
        self.wants_every_send = bool(self._eager)

    def emit(self, event: TelemetryEvent) -> None:
        for sink in self._eager if is_plain_send(event) else self._sinks:
            sink.emit(event)


class RecentEvents:
    """The last events of this instance, without the sends that went straight to the primary."""

    wants_every_send = False

    def __init__(self, limit: int = RECENT_EVENTS_MAX) -> None:
        self._events: deque[TelemetryEvent] = deque(maxlen=limit)

    def emit(self, event: TelemetryEvent) -> None:
        self._events.append(event)

    def latest(self, count: int = RECENT_EVENTS_MAX) -> list[TelemetryEvent]:
        """The newest first."""
        return list(itertools.islice(reversed(self._events), count))
