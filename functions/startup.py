"""What must hold before any function is registered."""

from __future__ import annotations

import logging
import sys

from shared import composition
from shared.errors import ConfigurationError

#: They tell of every request at the level that is the worker's own: several lines every STATE_REFRESH.
TALKATIVE = ("azure.core.pipeline.policies.http_logging_policy", "azure.identity", "azure.servicebus", "azure.monitor")


def quiet_libraries() -> None:
    """Everything logged is paid for, and hides what matters."""
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)


def require_usable_settings() -> None:
    """Stops the process with one line per unusable setting, where an exception would bury them in a traceback.

    The Functions host shows what its worker wrote before it exited, and reports that the worker did not start.
    """
    try:
        composition.settings()
    except ConfigurationError as error:
        sys.exit(str(error))
