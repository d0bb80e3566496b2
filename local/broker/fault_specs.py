"""Faults as their author writes them: the kinds there are, where they can strike, and a strict reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .errors import (
    ARGUMENT_ERROR,
    DETACH_FORCED,
    ENTITY_DISABLED,
    INTERNAL_ERROR,
    QUOTA_EXCEEDED,
    SERVER_BUSY,
    UNAUTHORIZED,
    BrokerError,
)
from .partitioning import PARTITION_COUNT

DELAY_MAX_S = 3600.0
#: What `partition` is where a fault has none.
NO_PARTITION = -1


class Point(Enum):
    """Where in a connection's life a fault can strike."""

    CBS = "cbs"
    ATTACH = "attach"
    SEND = "send"
    DELIVER = "deliver"
    SETTLE = "settle"
    MANAGEMENT = "management"


@dataclass(frozen=True, kw_only=True)
class FaultKind:
    """What a kind of fault means: where it strikes by default, where it may be told to, and its default error."""

    description: str
    points: tuple[Point, ...] = ()
    possible: tuple[Point, ...] = tuple(Point)
    condition: str | None = None
    is_network: bool = False
    #: Strikes one partition of partitioned entities for as long as it is set, not single operations.
    is_partition: bool = False


_ALL = tuple(Point)
_WORK = (Point.ATTACH, Point.SEND, Point.DELIVER, Point.SETTLE, Point.MANAGEMENT)
#: Which way a link carries messages, seen from the client, at the points where that is certain.
DIRECTION_OF = {Point.SEND: "send", Point.DELIVER: "receive", Point.SETTLE: "receive"}
_DIRECTIONS = ("", "send", "receive")

KINDS: dict[str, FaultKind] = {
    "refuse": FaultKind(
        description="refuse connections to the namespace and reset those that are open", possible=(), is_network=True
    ),
    "black-hole": FaultKind(
        description="accept connections and say nothing; what was held back goes on when the fault is cleared. "
        "With an entity: only links of that entity fall silent",
        points=_WORK,
        is_network=True,
    ),
    "reset": FaultKind(
        description="reset the connection at the fault's points, or after `after_bytes` or `after_frames` have come in",
        points=(Point.SEND,),
    ),
    "delay": FaultKind(description="answer after `delay_s` seconds, plus up to `jitter_s` at random", points=_ALL),
    "throttle": FaultKind(
        description="answer com.microsoft:server-busy",
        points=(Point.SEND, Point.MANAGEMENT),
        condition=SERVER_BUSY,
    ),
    "error": FaultKind(description="answer with the error `condition`", points=(Point.SEND,), condition=INTERNAL_ERROR),
    "disable": FaultKind(
        description="answer com.microsoft:entity-disabled",
        points=(Point.ATTACH, Point.SEND, Point.DELIVER, Point.MANAGEMENT),
        condition=ENTITY_DISABLED,
    ),
    "full": FaultKind(
        description="answer amqp:resource-limit-exceeded to sends", points=(Point.SEND,), condition=QUOTA_EXCEEDED
    ),
    "detach": FaultKind(
        description="detach the link with `condition` instead of answering",
        points=(Point.SEND,),
        possible=(Point.ATTACH, Point.SEND, Point.DELIVER, Point.SETTLE),
        condition=DETACH_FORCED,
    ),
    "lose-acknowledgement": FaultKind(
        description="do what was asked, never say so; with `reset` the connection is reset as well",
        points=(Point.SEND,),
        possible=(Point.SEND, Point.SETTLE, Point.MANAGEMENT),
    ),
    "drop-cbs": FaultKind(description="never answer put-token", points=(Point.CBS,), possible=(Point.CBS,)),
    "revoke": FaultKind(
        description="refuse every token and every operation as unauthorized", points=_ALL, condition=UNAUTHORIZED
    ),
    "crash": FaultKind(description="kill the whole broker process at the fault's points", points=(Point.SEND,)),
    "partition-down": FaultKind(
        description="`partition` takes and gives no messages: keyed sends to it are refused with `condition`, keyless "
        "ones go around it, its messages stay in it, the entity is Limited",
        possible=(),
        condition=INTERNAL_ERROR,
        is_partition=True,
    ),
    "partition-full": FaultKind(
        description="`partition` takes no more messages: keyed sends to it get amqp:resource-limit-exceeded, keyless "
        "ones go around it",
        possible=(),
        condition=QUOTA_EXCEEDED,
        is_partition=True,
    ),
    "partition-slow": FaultKind(
        description="sends to `partition` are answered after `delay_s` seconds", possible=(), is_partition=True
    ),
}


@dataclass(frozen=True, kw_only=True)
class FaultSpec:
    """One rule as its author wrote it. Empty `namespace` or `entity` = any."""

    kind: str
    namespace: str = ""
    #: A path, or a pattern with `*`; sub-queues and subscriptions count by their full path.
    entity: str = ""
    #: "send" or "receive" as the client sees it; empty = both, and what belongs to neither.
    direction: str = ""
    points: tuple[Point, ...] = ()
    condition: str | None = None
    description: str = "Injected fault."
    #: Share of operations struck, 0 to 1.
    rate: float = 1.0
    #: Operations let through first.
    after: int = 0
    #: Strikes before the rule is spent; 0 = no limit.
    count: int = 0
    delay_s: float = 0.0
    jitter_s: float = 0.0
    after_bytes: int = 0
    after_frames: int = 0
    reset: bool = False
    seed: int = 0
    partition: int = NO_PARTITION

    @classmethod
    def from_json(cls, data: object) -> FaultSpec:
        """Strict: every problem is named, nothing unknown is let through."""
        if not isinstance(data, dict):
            raise wrong('a fault is a JSON object, for example {"kind": "throttle", "entity": "orders"}')
        unknown = set(data) - set(cls.__dataclass_fields__)
        if unknown:
            raise wrong(f"unknown field '{sorted(unknown)[0]}'; known: {', '.join(cls.__dataclass_fields__)}")
        if data.get("kind") not in KINDS:
            raise wrong(f"unknown kind {data.get('kind')!r}; known: {', '.join(KINDS)}")
        values: dict[str, Any] = {}
        for name, value in data.items():
            values[name] = _points(value) if name == "points" else _checked(name, value)
        spec = cls(**values)
        for problem in spec._problems():
            raise wrong(problem)
        return spec

    def _problems(self) -> Iterator[str]:
        kind = KINDS[self.kind]
        if not 0 <= self.rate <= 1:
            yield "rate must be from 0 to 1"
        if not 0 <= self.delay_s + self.jitter_s <= DELAY_MAX_S:
            yield f"delay_s + jitter_s must be from 0 to {DELAY_MAX_S:.0f} seconds"
        if self.kind == "delay" and self.delay_s + self.jitter_s == 0:
            yield "a delay needs delay_s or jitter_s"
        if self.kind == "refuse" and self.entity:
            yield "refuse strikes a whole namespace; leave entity out"
        if self.direction not in _DIRECTIONS:
            yield "direction is send or receive"
        for point in self.points:
            if point not in kind.possible:
                yield f"{self.kind} cannot strike at {point.value}"
        if kind.is_network and not self.entity and (self.points or self.direction or self.rate < 1 or self.count):
            yield f"{self.kind} of a whole namespace has no points, direction, rate or count"
        yield from self._partition_problems(kind)

    def _partition_problems(self, kind: FaultKind) -> Iterator[str]:
        if not kind.is_partition:
            if self.partition != NO_PARTITION:
                yield f"{self.kind} does not strike single partitions; partition-down, -full and -slow do"
            return
        if not 0 <= self.partition < PARTITION_COUNT:
            yield f"{self.kind} needs partition, from 0 to {PARTITION_COUNT - 1}"
        if self.kind == "partition-slow" and self.delay_s == 0:
            yield "partition-slow needs delay_s"
        if self.direction or self.rate < 1 or self.count or self.after or self.jitter_s:
            yield f"{self.kind} holds until it is cleared: it has no direction, rate, count, after or jitter_s"

    def to_json(self) -> dict[str, object]:
        shown: dict[str, object] = {"kind": self.kind}
        for name, spec_field in self.__dataclass_fields__.items():
            value = getattr(self, name)
            if name != "kind" and value != spec_field.default:
                shown[name] = [point.value for point in value] if name == "points" else value
        return shown


_NUMBERS = {"rate": float, "delay_s": float, "jitter_s": float}
_WHOLE = ("after", "count", "after_bytes", "after_frames", "seed", "partition")


def _checked(name: str, value: object) -> object:
    if name in _NUMBERS and isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    if name in _WHOLE and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if name == "reset" and isinstance(value, bool):
        return value
    if name in ("kind", "namespace", "entity", "direction", "condition", "description") and isinstance(value, str):
        return value
    raise wrong(f"{name} has the wrong type or is negative: {value!r}")


def _points(value: object) -> tuple[Point, ...]:
    names = [point.value for point in Point]
    if not isinstance(value, list) or any(item not in names for item in value):
        raise wrong(f"points is a list of {', '.join(names)}")
    return tuple(Point(item) for item in value)


def wrong(text: str) -> BrokerError:
    return BrokerError(ARGUMENT_ERROR, f"Bad fault: {text}.")
