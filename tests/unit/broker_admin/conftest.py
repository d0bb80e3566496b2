"""The administration API on a real namespace in memory, with a clock that stands still and no sockets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from xml.etree import ElementTree

import pytest

from local.broker.admin import AdminApi
from local.broker.auth import KeyRing, SharedAccessKey, TokenIssuer, sign_sas
from local.broker.clock import ManualClock
from local.broker.http import Request, Response
from local.broker.journal import MemoryJournal
from local.broker.namespace import Namespace

SB = "{http://schemas.microsoft.com/netservices/2010/10/servicebus/connect}"
ATOM = "{http://www.w3.org/2005/Atom}"
HOST = "localhost:5672"
SECRET = b"development"


@dataclass(frozen=True)
class Answer:
    response: Response

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def xml(self) -> ElementTree.Element:
        return ElementTree.fromstring(self.response.body)

    @property
    def detail(self) -> str:
        return self.xml.findtext("Detail", "")

    @property
    def titles(self) -> list[str | None]:
        return [entry.findtext(f"{ATOM}title") for entry in self.xml.findall(f"{ATOM}entry")]

    @property
    def links(self) -> list[str]:
        return [str(link.get("href")) for link in self.xml.findall(f"{ATOM}link")]

    def value(self, name: str) -> str | None:
        """Text of an element of the description."""
        return self.xml.findtext(f"{ATOM}content/*/{SB}{name}")

    def names(self) -> list[str]:
        """Names of the description's elements, in order."""
        [description] = self.xml.findall(f"{ATOM}content/*")
        return [child.tag.rpartition("}")[2] for child in description]


class Admin:
    """Makes requests as somebody who may manage, unless told otherwise."""

    def __init__(self, tier: str = "Standard") -> None:
        self.clock = ManualClock()
        self.keys = KeyRing([SharedAccessKey(name="Root", primary="key")], token_secret=SECRET)
        self.namespace = Namespace("contoso", clock=self.clock, journal=MemoryJournal(), keys=self.keys, tier=tier)
        self.api = AdminApi(self.namespace, make_key=lambda: "generated")
        self.version = "2024-05"

    def token(self, resource: str = f"https://{HOST}", name: str = "Root", key: str = "key") -> str:
        return sign_sas(resource, name, key, int(self.clock.now()) + 3600)

    def bearer(self) -> str:
        return "Bearer " + TokenIssuer(SECRET).issue(self.clock.now()).text

    def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        request = Request(
            method=method,
            raw_path=path,
            query={"api-version": self.version} | dict(query or {}),
            headers={"host": HOST, "authorization": self.token()} | dict(headers or {}),
            body=body,
        )
        return Answer(self.api.handle(request))

    def get(self, path: str, **query: str) -> Answer:
        return self.call("GET", path, query={name.replace("_", "$"): value for name, value in query.items()})

    def put(
        self, path: str, kind: str, inner: str = "", *, update: bool = False, headers: Mapping[str, str] | None = None
    ) -> Answer:
        extra = {"if-match": "*"} if update else {}
        return self.call("PUT", path, entry(kind, inner), headers=extra | dict(headers or {}))

    def delete(self, path: str) -> Answer:
        return self.call("DELETE", path)


class MakeAdmin(Protocol):
    def __call__(self, tier: str = "Standard") -> Admin: ...


def entry(kind: str, inner: str = "") -> bytes:
    namespaces = f'xmlns="{SB[1:-1]}" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"'
    return (
        f'<entry xmlns="{ATOM[1:-1]}"><content type="application/xml">'
        f"<{kind} {namespaces}>{inner}</{kind}></content></entry>"
    ).encode()


@pytest.fixture
def admin() -> Admin:
    return Admin()


@pytest.fixture
def make_admin() -> MakeAdmin:
    return Admin
