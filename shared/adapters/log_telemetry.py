"""Telemetry as log lines, for as long as nothing else is configured to keep it."""

from __future__ import annotations

import dataclasses
import json
import logging

from shared.telemetry_events import TelemetryEvent

_LOGGER = logging.getLogger("telemetry")


class LogTelemetry:
    """One line for each event."""

    wants_every_send = False

    def emit(self, event: TelemetryEvent) -> None:
        if _LOGGER.isEnabledFor(logging.INFO):
            _LOGGER.info("%s %s", event.name, json.dumps(dataclasses.asdict(event), default=str))
