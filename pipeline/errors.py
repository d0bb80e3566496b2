"""What stops a command with one line instead of a traceback."""

from __future__ import annotations


class PipelineError(Exception):
    """The command cannot do what was asked; nothing was overwritten."""
