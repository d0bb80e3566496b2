"""Lists: which entities ($filter), and which page of them ($skip, $top)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from local.broker.errors import InvalidDescription

PAGE_MAX = 100
_NUMBER = re.compile(r"[0-9]{1,9}")
_STARTS_WITH = re.compile(
    r"\s*startswith\s*\(\s*(?:path|name)\s*,\s*'((?:[^']|'')*)'\s*\)\s*(?:eq\s+(true|false)\s*)?", re.IGNORECASE
)

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Page:
    skip: int
    top: int

    def of(self, items: Sequence[Item]) -> Sequence[Item]:
        return items[self.skip : self.skip + self.top]

    def next_skip(self, count: int) -> int | None:
        """Where the next page begins, if there is one."""
        end = self.skip + self.top
        return end if self.top and end < count else None


def read_page(query: Mapping[str, str]) -> Page:
    """The service never gives more than 100 at a time, whatever is asked for."""
    return Page(skip=_number(query, "$skip", 0), top=min(_number(query, "$top", PAGE_MAX), PAGE_MAX))


def read_filter(query: Mapping[str, str]) -> Callable[[str], bool]:
    """Whether an entity of that name is wanted."""
    text = query.get("$filter", "")
    if not text.strip():
        return lambda name: True
    found = _STARTS_WITH.fullmatch(text)
    if found is None:
        raise InvalidDescription("The $filter that is supported is startswith(path, 'text') [eq true].")
    start, wanted = found.group(1).replace("''", "'").lower(), (found.group(2) or "true").lower() == "true"
    return lambda name: name.lower().startswith(start) is wanted


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise InvalidDescription(f"{name} must be a whole number from 0 on, not '{text[:50]}'.")
    return int(text)
