"""What must hold before any function is registered."""

from __future__ import annotations

import sys

from shared import composition
from shared.errors import ConfigurationError


def require_usable_settings() -> None:
    """Stops the process with one line per unusable setting, where an exception would bury them in a traceback.

    The Functions host shows what its worker wrote before it exited, and reports that the worker did not start.
    """
    try:
        composition.settings()
    except ConfigurationError as error:
        sys.exit(str(error))
