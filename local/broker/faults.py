"""Faults on demand: rules that say what goes wrong, where, how often. Deciding only; the server carries it out.

A rule has its own random generator, seeded, so that the same rules in the same order make the same run again.

Faults at `deliver` strike after the queue has handed the message out, as a connection that breaks on the way would:
under peek-lock its lock runs out and it comes back, counted; with receive-and-delete it is gone.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from .errors import BrokerError
from .fault_specs import DIRECTION_OF, KINDS, FaultSpec, Point, wrong

_log = logging.getLogger(__name__)

#: Rules at a time; more is a mistake in a script.
RULES_MAX = 1000
#: Operations one black hole keeps for later; what comes after them is lost in it.
HELD_MAX = 100_000

Action = Callable[[], None]


@dataclass(eq=False)
class FaultRule:
    id: int
    spec: FaultSpec
    hits: int = 0
    seen: int = 0
    random: random.Random = field(default_factory=random.Random)
    #: What fell into this black hole and comes out when the rule is cleared.
    held: list[Action] = field(default_factory=list)

    @property
    def is_spent(self) -> bool:
        return bool(self.spec.count) and self.hits >= self.spec.count

    def covers(self, namespace: str, entity: str | None = None, direction: str = "") -> bool:
        spec = self.spec
        if spec.namespace and spec.namespace.lower() != namespace.lower():
            return False
        if spec.direction and spec.direction != direction:
            return False
        if not spec.entity:
            return True
        return entity is not None and fnmatchcase(entity.lower(), spec.entity.lower())

    def hold(self, action: Action) -> None:
        if len(self.held) < HELD_MAX:
            self.held.append(action)

    def strikes(self) -> bool:
        self.seen += 1
        if self.is_spent or self.seen <= self.spec.after:
            return False
        if self.spec.rate < 1.0 and self.random.random() >= self.spec.rate:
            return False
        self.hits += 1
        return True


@dataclass(frozen=True, kw_only=True)
class Strike:
    """What the rules that struck ask for, together."""

    delay_s: float = 0.0
    error: BrokerError | None = None
    detach: bool = False
    #: Never answered.
    dropped: bool = False
    #: The black hole this fell into.
    held_by: FaultRule | None = None
    reset: bool = False
    lose_answer: bool = False
    crash: bool = False


CALM = Strike()


class FaultPlan:
    """All rules of a broker. Listeners hear whenever network faults may have begun or ended."""

    def __init__(self) -> None:
        self.rules: dict[int, FaultRule] = {}
        self._next_id = 1
        self._partition_rules: list[FaultRule] = []
        self._listeners: list[Action] = []

    @property
    def partition_rules(self) -> list[FaultRule]:
        """Rules about single partitions."""
        return self._partition_rules

    def on_change(self, callback: Action) -> None:
        self._listeners.append(callback)

    def add(self, spec: FaultSpec) -> FaultRule:
        if len(self.rules) >= RULES_MAX:
            raise wrong(f"{RULES_MAX} faults are set already; clear some")
        rule = FaultRule(self._next_id, spec, random=random.Random(spec.seed))
        self.rules[rule.id] = rule
        self._next_id += 1
        self._changed()
        return rule

    def clear(self, rule_id: int | None = None) -> int:
        """Clear one rule, or all; how many there were. What they held goes on."""
        gone = [self.rules.pop(i) for i in list(self.rules) if rule_id is None or i == rule_id]
        if gone:
            self._changed()
        for rule in gone:
            held, rule.held = rule.held, []
            for action in held:
                action()
        return len(gone)

    def _changed(self) -> None:
        self._partition_rules = [rule for rule in self.rules.values() if KINDS[rule.spec.kind].is_partition]
        for callback in self._listeners:
            callback()

    def network(self, kind: str, namespace: str) -> FaultRule | None:
        """The rule that refuses or black-holes a whole namespace, if there is one."""
        for rule in self.rules.values():
            if rule.spec.kind == kind and not rule.spec.entity and rule.covers(namespace):
                return rule
        return None

    def resets_after(self, namespace: str) -> list[FaultRule]:
        """Rules that reset a connection by what has come in on it."""
        return [
            rule
            for rule in self.rules.values()
            if _counts_input(rule.spec) and rule.covers(namespace) and not rule.is_spent
        ]

    def at(self, point: Point, namespace: str, entity: str | None, direction: str = "") -> Strike:
        """What happens to one operation."""
        if not self.rules:
            return CALM
        direction = DIRECTION_OF.get(point, direction)
        struck = [
            rule
            for rule in self.rules.values()
            if _strikes_at(rule.spec, point) and rule.covers(namespace, entity, direction) and rule.strikes()
        ]
        for rule in struck:
            _log.debug("%s: fault %d (%s) strikes %s of %r", namespace, rule.id, rule.spec.kind, point.value, entity)
        return _combine(struck) if struck else CALM


def _counts_input(spec: FaultSpec) -> bool:
    return spec.kind == "reset" and bool(spec.after_bytes or spec.after_frames)


def _strikes_at(spec: FaultSpec, point: Point) -> bool:
    kind = KINDS[spec.kind]
    if (kind.is_network and not spec.entity) or kind.is_partition or _counts_input(spec):
        return False
    return point in (spec.points or kind.points)


def _combine(struck: list[FaultRule]) -> Strike:
    kinds = {rule.spec.kind for rule in struck}
    errors = [(rule.spec.condition or KINDS[rule.spec.kind].condition, rule.spec.description) for rule in struck]
    delays = [
        rule.spec.delay_s + (rule.random.random() * rule.spec.jitter_s if rule.spec.jitter_s else 0.0)
        for rule in struck
        if rule.spec.kind == "delay"
    ]
    return Strike(
        delay_s=sum(delays),
        error=next((BrokerError(condition, text) for condition, text in errors if condition is not None), None),
        detach="detach" in kinds,
        dropped="drop-cbs" in kinds,
        held_by=next((rule for rule in struck if rule.spec.kind == "black-hole"), None),
        reset=any(rule.spec.reset or rule.spec.kind == "reset" for rule in struck),
        lose_answer="lose-acknowledgement" in kinds,
        crash="crash" in kinds,
    )


__all__ = ["CALM", "KINDS", "FaultPlan", "FaultRule", "FaultSpec", "Point", "Strike"]
