"""When what happens, and the app's intervals that suit a run that short."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

#: Of the time that is no outage, what comes before it.
HEALTHY_SHARE = 0.4
#: The app's own default intervals are a minute: nobody watches that long.
FAILOVER_S_MAX = 5.0
#: Below the first, a busy machine would fail over without an outage.
ATTEMPT_S_MIN, ATTEMPT_S_MAX = 1.0, 2.0
#: An outage has to outlast suspicion and the attempts that raise it, or nothing is diverted.
OUTAGE_PARTS = 6
SEND_DEADLINE_S = 10.0
#: A round of pings to all partitions has to fit in, also on a busy machine.
PING_S = 3.0


class Phase(Enum):
    HEALTHY = "healthy"
    OUTAGE = "outage"
    DRAIN = "drain"
    REPORT = "report"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Seconds of traffic, and of the outage within it."""

    duration_s: float
    outage_s: float

    @property
    def breaks_at_s(self) -> float:
        return (self.duration_s - self.outage_s) * HEALTHY_SHARE

    @property
    def heals_at_s(self) -> float:
        return self.breaks_at_s + self.outage_s

    def share_done(self, phase: Phase, elapsed_s: float) -> float:
        """How much of a phase is behind us, 0 to 1, as far as it was planned: the end of a drain is not."""
        bounds = {
            Phase.HEALTHY: (0.0, self.breaks_at_s),
            Phase.OUTAGE: (self.breaks_at_s, self.heals_at_s),
            Phase.DRAIN: (self.heals_at_s, self.duration_s),
        }
        if phase not in bounds:
            return 0.0
        begins, ends = bounds[phase]
        return min(1.0, max(0.0, (elapsed_s - begins) / (ends - begins)))


def app_settings(schedule: Schedule) -> dict[str, str]:
    """The app's settings for this run, as they are shown to whoever watches."""
    part = schedule.outage_s / OUTAGE_PARTS
    attempt = min(ATTEMPT_S_MAX, max(ATTEMPT_S_MIN, part))
    return {
        "FAILOVER_INTERVAL": _seconds(min(FAILOVER_S_MAX, part)),
        "PRIMARY_ATTEMPT_TIMEOUT": _seconds(attempt),
        # Longer, as by default: messages of healthy partitions wait behind those of a sick one.
        "PRIMARY_ATTEMPT_TIMEOUT_PARTITIONED": _seconds(2 * attempt),
        "SEND_DEADLINE": _seconds(SEND_DEADLINE_S),
        "PING_PRIMARY_INTERVAL": _seconds(PING_S),
        "STATE_REFRESH": "PT0.5S",
        "BACKLOG_QUEUE_COUNT": "3",
        "ENABLE_SYPHON": "true",
        "DIVERT_WHILE_SUSPECT": "false",
    }


def _seconds(value: float) -> str:
    return f"PT{value:.1f}S".replace(".0S", "S")
