"""The ways in which the demo can break the primary: rules for the broker, and what there is to see."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from local.demo.traffic import METERS

PRIMARY = "primary"
#: Longer than any attempt, so that a slow answer is no answer.
DELAY_S = 6.0
#: Where the embedded broker puts the first of the keys.
SICK_PARTITION = zlib.crc32(METERS[0].encode()) % 16


@dataclass(frozen=True, kw_only=True)
class Fault:
    story: str
    rules: tuple[Mapping[str, Any], ...]
    #: How long after the outage a message may still arrive that was sent during it.
    aftermath_s: float = 0.0

    def on_primary(self) -> list[dict[str, Any]]:
        return [{**rule, "namespace": PRIMARY} for rule in self.rules]


FAULTS: dict[str, Fault] = {
    "refuse": Fault(story="the primary refuses connections", rules=({"kind": "refuse"},)),
    "black-hole": Fault(story="the primary accepts everything and says nothing", rules=({"kind": "black-hole"},)),
    "reset": Fault(story="the primary resets the connection at every send", rules=({"kind": "reset"},)),
    "throttle": Fault(story="the primary is too busy, for as long as it takes", rules=({"kind": "throttle"},)),
    "error": Fault(story="every send ends in an internal error", rules=({"kind": "error"},)),
    "detach": Fault(story="the primary detaches the link at every send", rules=({"kind": "detach"},)),
    "disable": Fault(story="all entities are disabled", rules=({"kind": "disable"},)),
    "full": Fault(story="all entities are full", rules=({"kind": "full"},)),
    "delay": Fault(
        story=f"the primary answers sends after {DELAY_S:g} s",
        rules=({"kind": "delay", "delay_s": DELAY_S, "points": ["send"]},),
        aftermath_s=DELAY_S,
    ),
    "drop-cbs": Fault(
        story="connections are reset, and nobody answers when a new one shows its token",
        rules=({"kind": "drop-cbs"}, {"kind": "reset"}),
    ),
    "lose-acknowledgement": Fault(
        story="the primary stores what is sent and never says so: duplicates are certain, and counted",
        rules=({"kind": "lose-acknowledgement"},),
    ),
    "partition-down": Fault(
        story=f"one of 16 partitions of `readings` is down: only keys that live there, like {METERS[0]}, are diverted",
        rules=({"kind": "partition-down", "partition": SICK_PARTITION},),
    ),
    "partition-full": Fault(
        story="one of 16 partitions of `readings` is full",
        rules=({"kind": "partition-full", "partition": SICK_PARTITION},),
    ),
    "partition-slow": Fault(
        story=f"one of 16 partitions of `readings` answers after {DELAY_S:g} s",
        rules=({"kind": "partition-slow", "partition": SICK_PARTITION, "delay_s": DELAY_S},),
        aftermath_s=DELAY_S,
    ),
}

#: Kinds of the broker that would rehearse something else.
LEFT_OUT: dict[str, str] = {
    "revoke": "refused credentials are a mistake in the settings, for which the pair never fails over",
    "crash": "it ends the broker, and with it both namespaces",
}
