"""Tasks nobody waits for: their failure must not pass in silence."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from local.host.errors import one_line

log = logging.getLogger("local.host")


def report_end(task: asyncio.Task[Any]) -> None:
    """For `add_done_callback`: one line when a task ended by an error."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("%s ended: %s: %s", task.get_name(), type(error).__name__, one_line(error), exc_info=error)
