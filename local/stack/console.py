"""One log for all parts: each line says whose it is."""

from __future__ import annotations

import re
import sys
from typing import TextIO

from local.host.logs import paint, wants_colour

_COLOURS = {"local": "1", "broker": "35", "azurite": "34", "host": "36"}
_LEVELS = ((re.compile(r"\b(ERROR|CRITICAL)\b"), "31"), (re.compile(r"\bWARNING\b"), "33"))


class Console:
    """Writes lines of all parts to one stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self.colour = wants_colour(self._stream)

    def line(self, part: str, text: str) -> None:
        """One line of a part's log."""
        code = next((code for pattern, code in _LEVELS if pattern.search(text)), "")
        name = paint(f"{part:<7}", _COLOURS.get(part, ""), colour=self.colour)
        self._write(f"{name} | {paint(text, code, colour=self.colour)}")

    def plain(self, text: str = "") -> None:
        """Text for a person, without a prefix."""
        self._write(text)

    def strong(self, text: str) -> str:
        return paint(text, "1", colour=self.colour)

    def _write(self, text: str) -> None:
        # A reader that is gone (`| head`, a closed terminal) must not keep the children from being stopped.
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            return
