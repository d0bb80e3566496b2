"""The two namespaces of a pair and the entities of the primary."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import NewType

from shared.errors import Rejected

EntityPath = NewType("EntityPath", str)
"""Path of a queue or topic, as `orders` or `sales/orders`."""

ENTITY_PATH_LENGTH_MAX = 260  # Service Bus quotas: "Maximum size of any messaging entity path: queue or topic"
NAMESPACE_NAME_LENGTH_MAX = 50
_ENTITY_PATH_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_NAMESPACE_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9-]{{0,{NAMESPACE_NAME_LENGTH_MAX - 1}}}")


class Side(Enum):
    PRIMARY = "primary"
    SECONDARY = "secondary"

    @property
    def partner(self) -> Side:
        return Side.SECONDARY if self is Side.PRIMARY else Side.PRIMARY


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """One namespace, by the name that appears in backlog queue paths: `contoso` of contoso.servicebus.windows.net."""

    side: Side
    name: str

    def __post_init__(self) -> None:
        if not is_namespace_name(self.name):
            raise ValueError(f"not a namespace name: {self.name!r}")


@dataclass(frozen=True, kw_only=True)
class Pair:
    primary: Namespace
    secondary: Namespace

    def __post_init__(self) -> None:
        if (self.primary.side, self.secondary.side) != (Side.PRIMARY, Side.SECONDARY):
            raise ValueError("a pair has one primary and one secondary namespace, in that order")

    @property
    def name(self) -> str:
        """Identifies the pair in shared state. `~` cannot occur in a namespace name and is safe in keys and URLs."""
        return f"{self.primary.name}~{self.secondary.name}"

    def namespace(self, side: Side) -> Namespace:
        return self.primary if side is Side.PRIMARY else self.secondary


def is_namespace_name(text: str) -> bool:
    return _NAMESPACE_NAME.fullmatch(text) is not None


def entity_path(text: str) -> EntityPath:
    """The path a caller asked for, checked; surrounding slashes are not part of it."""
    path = text.strip("/")
    if not path:
        raise Rejected("The entity path is empty; name a queue or topic of the primary namespace.")
    if len(path) > ENTITY_PATH_LENGTH_MAX:
        raise Rejected(f"The entity path has {len(path)} characters; at most {ENTITY_PATH_LENGTH_MAX} are allowed.")
    if not all(_ENTITY_PATH_SEGMENT.fullmatch(segment) for segment in path.split("/")):
        raise Rejected("An entity path holds letters, digits, periods, hyphens, underscores and single slashes only.")
    if not (path[0].isalnum() and path[-1].isalnum()):
        raise Rejected("An entity path starts and ends with a letter or a digit.")
    return EntityPath(path)
