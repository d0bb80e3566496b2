"""One log for the host: time, level, part, text; with colour where a person reads it."""

from __future__ import annotations

import logging
import os
import sys
from datetime import UTC, datetime
from typing import TextIO

from local.host.invoke import current_invocation

_COLOURS = {"DEBUG": "2", "INFO": "", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}
_QUIET = ("azure", "httpx", "httpcore", "uvicorn", "asyncio", "aiohttp", "opentelemetry")
_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "information": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "none": logging.CRITICAL + 10,
}


def wants_colour(stream: TextIO) -> bool:
    """Colour for terminals only, and never against NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, code: str, *, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour and code else text


class HostFormatter(logging.Formatter):
    """`12:00:00.123 INFO  [orders] text`; the part is the running function, or the logger's own name."""

    def __init__(self, *, colour: bool, verbose: bool) -> None:
        super().__init__()
        self._colour = colour
        self._verbose = verbose

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        running = getattr(record, "function", None)
        part = running or record.name.removeprefix("local.").removeprefix("host.")
        text = record.getMessage()
        if record.exc_info and (self._verbose or record.levelno >= logging.ERROR):
            text += "\n" + self.formatException(record.exc_info)
        level = paint(f"{record.levelname:<7}", _COLOURS.get(record.levelname, ""), colour=self._colour)
        return f"{moment} {level} {paint(f'[{part}]', '36', colour=self._colour)} {text}"


class _InvocationFilter(logging.Filter):
    """Marks each record with the function whose invocation it belongs to."""

    def filter(self, record: logging.LogRecord) -> bool:
        running = current_invocation.get()
        if running is not None and not record.name.startswith("local."):
            record.function = running
        return True


def set_up_logging(*, level: str, verbose: bool, stream: TextIO | None = None) -> None:
    """Send everything to one stream; the libraries speak up only from warnings on."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(HostFormatter(colour=wants_colour(stream), verbose=verbose))
    handler.addFilter(_InvocationFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbose else _LEVELS.get(level.lower(), logging.INFO))
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
