"""What stops the host, or one function of it.

    HostError
      ConfigurationError   host.json, settings, a connection or a key file is wrong: the host does not start
      AppLoadError         function_app.py cannot be imported or indexed: the host does not start
      FunctionRefused      one function cannot run here: it is left out, the others go on

Each message is one line that says what is wrong and, where it helps, what would be right.
"""

from __future__ import annotations


class HostError(Exception):
    """The local host cannot do what it was asked."""


class ConfigurationError(HostError):
    """A setting or a settings file is wrong."""


class AppLoadError(HostError):
    """The function app cannot be imported or indexed."""


class FunctionRefused(HostError):
    """One function cannot run on this host."""

    def __init__(self, function_name: str, reason: str) -> None:
        super().__init__(f"function '{function_name}': {reason}")
        self.function_name = function_name
        self.reason = reason


def one_line(error: BaseException, limit: int = 400) -> str:
    """An exception as a single log line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."
