"""Reading one connection setting: its parts, its identity-based relatives, and what is wrong with them."""

from __future__ import annotations

import base64
import ipaddress
import re
import uuid
from collections.abc import Callable, Collection, Mapping
from urllib.parse import urlsplit

from shared.errors import ConfigurationError, SettingProblem

_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")
# A part's name is repeated to people only if it looks like a word: a key pasted alone must not be shown.
_SHOWABLE_PART_NAME = re.compile(r"[A-Za-z]{1,30}")


class Secret:
    """Text that must not be seen: printing, formatting and repr show a mask, reveal() the text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class ConnectionReader:
    """One connection setting with its identity-based relatives (`name__part`), and the problems found so far."""

    def __init__(self, env: Mapping[str, str], setting: str, *, example: str) -> None:
        self.setting = setting
        self.text = env.get(setting, "").strip()
        self.example = f"{setting}={example}"
        prefix = f"{setting}__"
        self.identity = {
            name.removeprefix(prefix): value.strip()
            for name, value in env.items()
            if name.startswith(prefix) and value.strip()
        }
        self.problems: list[SettingProblem] = []

    def wrong(self, problem: str) -> None:
        self.problems.append(SettingProblem(setting=self.setting, problem=problem, example=self.example))

    def wrong_identity(self, part: str, problem: str, *, example: str) -> None:
        name = f"{self.setting}__{part}"
        self.problems.append(SettingProblem(setting=name, problem=problem, example=example))

    def stop_if_wrong(self) -> None:
        if self.problems:
            raise ConfigurationError(self.problems)

    def split_parts(self, known: Collection[str]) -> dict[str, str]:
        """Parts of the connection string by proper name; names are compared without case, as Azure's clients do."""
        proper = {name.lower(): name for name in known}
        parts: dict[str, str] = {}
        for number, part in enumerate(filter(None, map(str.strip, self.text.split(";"))), start=1):
            written, equals, value = part.partition("=")
            name = proper.get(written.strip().lower())
            if name is None:
                shown = written if equals and _SHOWABLE_PART_NAME.fullmatch(written) else f"number {number}"
                self.wrong(f"part {shown} of the connection string is not known; known are {', '.join(known)}")
                continue
            if name in parts:
                self.wrong(f"the connection string has {name} twice")
            elif not value.strip():
                self.wrong(f"the connection string has an empty {name}")
            parts.setdefault(name, value.strip())
        return parts

    def check_identity(self, known: Collection[str], *, example: str) -> str | None:
        """Refuses what is not understood, instead of connecting as somebody else; returns the client id, if any."""
        for part in self.identity:
            if part not in known:
                supported = ", ".join(f"__{name}" for name in known)
                self.wrong_identity(part, f"this part is not supported; supported are {supported}", example=example)
        if self.identity.get("credential", "managedidentity").lower() != "managedidentity":
            example = f"{self.setting}__credential=managedidentity"
            self.wrong_identity("credential", "the only credential supported is managedidentity", example=example)
        client_id = self.identity.get("clientId")
        if client_id is not None and not accepts(uuid.UUID, client_id):
            example = f"{self.setting}__clientId=00000000-0000-0000-0000-000000000000"
            self.wrong_identity("clientId", "a client id is a UUID", example=example)
        return client_id


def join_parts(parts: Mapping[str, str]) -> Secret:
    return Secret(";".join(f"{name}={value}" for name, value in parts.items()))


def accepts(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def is_ip_address(text: str) -> bool:
    return accepts(ipaddress.ip_address, text)


def is_host(text: str) -> bool:
    return _HOST_NAME.fullmatch(text) is not None or is_ip_address(text)


def is_base64(text: str) -> bool:
    return accepts(lambda key: base64.b64decode(key, validate=True), text)


def is_web_address(text: str) -> bool:
    """True for http and https addresses without credentials or a query, which belong into parts of their own."""

    def parse(address: str) -> None:
        url = urlsplit(address)
        if url.scheme not in ("http", "https") or url.username or url.query or not is_host(url.hostname or ""):
            raise ValueError("not a plain web address")
        if url.port == 0:
            raise ValueError("port 0 cannot be connected to")

    return accepts(parse, text)
