"""The runtime's retry policy for timer functions (`@app.retry`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from local.host.errors import ConfigurationError
from local.host.timespan import parse_timespan

DEFAULT_MAXIMUM = timedelta(minutes=15)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often and how long after a failure a call is tried again; -1 retries means without end."""

    max_retries: int = 0
    first: timedelta = timedelta(0)
    maximum: timedelta = timedelta(0)
    exponential: bool = False

    def delay(self, attempt: int) -> timedelta | None:
        """Wait before retry number `attempt` (from 1), or None when there is none left."""
        if self.max_retries != -1 and attempt > self.max_retries:
            return None
        if not self.exponential:
            return self.first
        exponent = min(attempt - 1, 30)
        return min(self.first * int(2**exponent), self.maximum)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any] | None) -> RetryPolicy:
        """From what `@app.retry` recorded."""
        if not settings:
            return cls()
        try:
            max_retries = int(settings["max_retry_count"])
            if settings["strategy"] == "fixed_delay":
                delay = parse_timespan(settings["delay_interval"])
                return cls(max_retries=max_retries, first=delay, maximum=delay)
            minimum = settings.get("minimum_interval")
            maximum = settings.get("maximum_interval")
            return cls(
                max_retries=max_retries,
                first=parse_timespan(minimum) if minimum else timedelta(0),
                maximum=parse_timespan(maximum) if maximum else DEFAULT_MAXIMUM,
                exponential=True,
            )
        except (KeyError, ValueError, TypeError) as error:
            raise ConfigurationError(f"the retry policy is wrong: {error}") from None
