"""Parcels in line for one entity: a line for each key that may not share a transfer with others, or one for all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from shared.services.parcels import Waiting

#: The key of every parcel where keys may share a transfer.
ANY_KEY: Hashable = object()
_NOBODY: Hashable = object()


def common_key(keys: Sequence[str | None]) -> Hashable:
    """The key of a parcel; one whose messages have several shares a transfer with nobody."""
    if len(keys) == 1:
        return keys[0]
    return keys[0] if all(key == keys[0] for key in keys) else object()


def is_exclusive(key: Hashable) -> bool:
    """Whether parcels of this key go one after the other: two transfers at once could change their order."""
    return key is not None and key is not ANY_KEY


class WaitingRoom:
    """Lines take turns by when they began."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, deque[Waiting]] = {}
        #: Parcels in line, some of which may have been answered meanwhile.
        self.count = 0

    def __iter__(self) -> Iterator[Waiting]:
        return (waiting for line in self._lines.values() for waiting in line)

    @property
    def lines(self) -> int:
        return len(self._lines)

    def add(self, waiting: Waiting) -> None:
        self._lines.setdefault(waiting.key, deque()).append(waiting)
        self.count += 1

    def put_back(self, group: Iterable[Waiting]) -> None:
        """To the head of their line, in their order."""
        alive = [waiting for waiting in group if not waiting.answer.done()]
        self.count += len(alive)
        for key, parcels in groupby(reversed(alive), attrgetter("key")):
            self._lines.setdefault(key, deque()).extendleft(parcels)

    def take(self, *, but: Collection[Hashable]) -> list[Waiting]:
        """The first line of a key that is none of these; whoever has given up is forgotten."""
        while (key := next((key for key in self._lines if key not in but), _NOBODY)) is not _NOBODY:
            line = self._lines.pop(key)
            self.count -= len(line)
            alive = [waiting for waiting in line if not waiting.answer.done()]
            if alive:
                return alive
        return []

    def take_all(self) -> list[Waiting]:
        everybody = list(self)
        self._lines.clear()
        self.count = 0
        return everybody

    def forget_answered(self, is_concerned: Callable[[Hashable], bool] = lambda _: True) -> None:
        for key in [key for key in self._lines if is_concerned(key)]:
            line = self._lines[key]
            alive = deque(waiting for waiting in line if not waiting.answer.done())
            self.count -= len(line) - len(alive)
            if alive:
                self._lines[key] = alive
            else:
                del self._lines[key]

    def of(self, is_concerned: Callable[[Hashable], bool]) -> list[Waiting]:
        return [waiting for key, line in self._lines.items() if is_concerned(key) for waiting in line]
