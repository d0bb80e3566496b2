"""What becomes of each of N made-up messages: planted faults in exact numbers, spread by a seeded permutation.

No list is kept: message i has the rank a*i + c modulo N with a prime to N, so that ranks are a shuffle of the messages,
and both directions are arithmetic. The first ranks are lost, the next duplicated, and so on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, fields

from pipeline.errors import PipelineError

#: Part of the messages, in the middle of the time told of, that an outage sends to the backlog.
OUTAGE = (0.45, 0.55)


@dataclass(frozen=True, kw_only=True)
class Faults:
    """How many messages meet each fate; all others are delivered once."""

    lost: int = 0
    duplicated: int = 0
    waiting: int = 0
    expired: int = 0
    dead_lettered: int = 0
    #: Delivered, but their records are a month old and published last.
    late: int = 0

    def counts(self) -> dict[str, int]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, kw_only=True)
class Plan:
    messages: int
    faults: Faults
    seed: int

    def __post_init__(self) -> None:
        wanted = self.faults.counts()
        if self.messages < 1 or min(wanted.values()) < 0:
            raise PipelineError("--messages must be at least 1, and no number may be negative")
        if sum(wanted.values()) > self.messages:
            raise PipelineError(f"{sum(wanted.values())} faults do not fit into {self.messages} messages")

    @property
    def shuffle(self) -> tuple[int, int]:
        """a and c of the permutation."""
        rng = random.Random(self.seed)
        a = rng.randrange(1, self.messages + 1)
        while math.gcd(a, self.messages) != 1:
            a += 1
        return a % self.messages or 1, rng.randrange(self.messages)

    def ranks(self) -> Iterator[tuple[str, range]]:
        """Each fate with the ranks that meet it."""
        start = 0
        for fate, count in self.faults.counts().items():
            yield fate, range(start, start + count)
            start += count

    def indexes(self, ranks: range) -> list[int]:
        """Which messages have these ranks."""
        a, c = self.shuffle
        back = pow(a, -1, self.messages) if self.messages > 1 else 0
        return sorted((rank - c) * back % self.messages for rank in ranks)

    def outage(self) -> range:
        return range(int(self.messages * OUTAGE[0]), int(self.messages * OUTAGE[1]))
