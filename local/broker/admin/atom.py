"""Atom entries and feeds. Elements of a description are written in the order that clients expect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlencode
from xml.sax.saxutils import escape, quoteattr

from .names import ATOM, INSTANCE, SERVICE_BUS

ENTRY_TYPE = "application/atom+xml;type=entry;charset=utf-8"
FEED_TYPE = "application/atom+xml;type=feed;charset=utf-8"
ERROR_TYPE = "application/xml; charset=utf-8"

#: Characters that XML 1.0 cannot hold, even escaped.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: A value as it is written: None is left out.
Scalar = str | int | bool | None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entity: what it is called, where it is, when it was made, and its description as XML."""

    title: str
    path: str
    published_at: float
    updated_at: float
    description: str


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the API is seen from outside; links are made with it."""

    host: str
    api_version: str
    author: str

    def url(self, path: str, **query: object) -> str:
        given = {f"${name}": str(value) for name, value in query.items()} | {"api-version": self.api_version}
        return f"https://{self.host}/{quote(path, safe='/$')}?{urlencode(given, safe='$')}"


def text_of(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return escape(_UNWRITABLE.sub("\ufffd", str(value)))


def attribute(text: str) -> str:
    return quoteattr(_UNWRITABLE.sub("\ufffd", text))


def element(name: str, value: Scalar) -> str:
    return "" if value is None else f"<{name}>{text_of(value)}</{name}>"


def instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def description(name: str, parts: Iterable[str]) -> str:
    return f'<{name} xmlns="{SERVICE_BUS}" xmlns:i="{INSTANCE}">{"".join(parts)}</{name}>'


def write_entry(entry: Entry, place: Place) -> bytes:
    return f'<?xml version="1.0" encoding="utf-8"?>{_entry(entry, place, f" xmlns={quoteattr(ATOM)}")}'.encode()


def write_feed(path: str, entries: Sequence[Entry], place: Place, links: Sequence[tuple[str, str]]) -> bytes:
    """`links` are (rel, address): `self`, and `next` when there is more, which clients know by being the second."""
    updated_at = max((entry.updated_at for entry in entries), default=0.0)
    parts = [
        f'<?xml version="1.0" encoding="utf-8"?><feed xmlns="{ATOM}">',
        f'<title type="text">{text_of(path)}</title>',
        f"<id>{text_of(place.url(path))}</id>",
        f"<updated>{instant(updated_at)}</updated>",
        *(f'<link rel="{rel}" href={attribute(href)}/>' for rel, href in links),
        *(_entry(entry, place, "") for entry in entries),
        "</feed>",
    ]
    return "".join(parts).encode()


def write_error(status: int, detail: str) -> bytes:
    return f"<Error><Code>{status}</Code><Detail>{text_of(detail)}</Detail></Error>".encode()


def _entry(entry: Entry, place: Place, declaration: str) -> str:
    url = place.url(entry.path)
    parts = [
        f"<entry{declaration}>",
        f"<id>{text_of(url)}</id>",
        f'<title type="text">{text_of(entry.title)}</title>',
        f"<published>{instant(entry.published_at)}</published>",
        f"<updated>{instant(entry.updated_at)}</updated>",
        f"<author><name>{text_of(place.author)}</name></author>",
        f'<link rel="self" href={attribute(url)}/>',
        f'<content type="application/xml">{entry.description}</content></entry>',
    ]
    return "".join(parts)
