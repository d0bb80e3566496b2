"""Which backlog queues take messages: a queue that fails leaves the rotation, one whose probe succeeds returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shared.domain.pair import EntityPath


@dataclass(frozen=True, kw_only=True)
class Outage:
    """Since when and why a backlog queue is out of the rotation."""

    since: datetime
    reason: str


@dataclass(frozen=True, kw_only=True)
class Rotation:
    queues: tuple[EntityPath, ...]
    out: Mapping[EntityPath, Outage] = field(default_factory=dict)

    @property
    def usable(self) -> tuple[EntityPath, ...]:
        return tuple(queue for queue in self.queues if queue not in self.out)

    def without(self, queue: EntityPath, outage: Outage) -> Rotation:
        """The queue out of the rotation; the first reason stays, since it says when the trouble began."""
        if queue in self.out or queue not in self.queues:
            return self
        return Rotation(queues=self.queues, out={**self.out, queue: outage})

    def with_again(self, queue: EntityPath) -> Rotation:
        return Rotation(queues=self.queues, out={name: why for name, why in self.out.items() if name != queue})


def choose_backlog(rotation: Rotation, order: Sequence[EntityPath]) -> EntityPath | None:
    """The first queue of a sender's own order that is in rotation: it stays on it until that one fails.

    The order holds the rotation's queues, shuffled once for each sender, so that entities spread over them. None when
    all are out.
    """
    out = rotation.out
    for queue in order:
        if queue not in out:
            return queue
    return None
