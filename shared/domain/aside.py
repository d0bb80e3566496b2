"""Numbers of backlog messages that were put aside, by destination: each known once, the oldest first to be fetched."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from shared.domain.pair import EntityPath

#: Numbers that are remembered at a time; the others are in the queue all the same and are found there later.
REMEMBERED_MAX = 200_000


class Aside:
    def __init__(self, remembered_max: int = REMEMBERED_MAX) -> None:
        self._remembered_max = remembered_max
        self._heaps: dict[EntityPath, list[int]] = {}
        self._known: set[int] = set()
        #: There were more than can be remembered.
        self.has_forgotten = False

    def __bool__(self) -> bool:
        return bool(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def destinations(self) -> tuple[EntityPath, ...]:
        return tuple(self._heaps)

    def has(self, path: EntityPath) -> bool:
        return path in self._heaps

    def add(self, path: EntityPath, number: int) -> None:
        if number in self._known:
            return
        if len(self._known) >= self._remembered_max:
            self.has_forgotten = True
            return
        self._known.add(number)
        heapq.heappush(self._heaps.setdefault(path, []), number)

    def add_all(self, path: EntityPath, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.add(path, number)

    def take(self, path: EntityPath, count: int) -> list[int]:
        """The oldest of this destination, which are forgotten with that."""
        heap = self._heaps.get(path, [])
        taken = [heapq.heappop(heap) for _ in range(min(count, len(heap)))]
        self._known.difference_update(taken)
        if not heap:
            self._heaps.pop(path, None)
        return taken
