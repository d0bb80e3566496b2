"""Several places for telemetry to go at once."""

from __future__ import annotations

from collections.abc import Sequence

from shared.ports import Telemetry
from shared.telemetry_events import TelemetryEvent, is_plain_send


class Fanout:
    """Hands every event to every sink; sends that went straight to the primary only to those that want them."""

    def __init__(self, sinks: Sequence[Telemetry]) -> None:
        self._sinks = tuple(sinks)
        self._eager = tuple(sink for sink in sinks if sink.wants_every_send)
        self.wants_every_send = bool(self._eager)

    def emit(self, event: TelemetryEvent) -> None:
        for sink in self._eager if is_plain_send(event) else self._sinks:
            sink.emit(event)
