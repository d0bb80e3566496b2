"""Telemetry as log lines, for as long as nothing else is configured to keep it.

Alerts of a deployment look for these lines (infra/alerts.bicep).
"""

from __future__ import annotations

import dataclasses
import json
import logging

from shared.telemetry_events import TelemetryEvent, is_of_one_message

_LOGGER = logging.getLogger("telemetry")


def text_of(event: TelemetryEvent) -> str:
    return f"{event.name} {json.dumps(dataclasses.asdict(event), default=str)}"


class LogTelemetry:
    """One line for each event; what happens for every message is told to those only who want to know all."""

    wants_every_send = False

    def emit(self, event: TelemetryEvent) -> None:
        level = logging.DEBUG if is_of_one_message(event) else logging.INFO
        if _LOGGER.isEnabledFor(level):
            _LOGGER.log(level, "%s", text_of(event))
