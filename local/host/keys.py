"""Access keys of HTTP functions, kept in a file only its owner can read."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.host.errors import ConfigurationError

KEY_BYTES = 32
SYSTEM_KEY_DURABLE = "durabletask_extension"


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The master key, host keys, system keys and per-function keys, by name."""

    master: str = field(repr=False)
    host: Mapping[str, str] = field(repr=False)
    system: Mapping[str, str] = field(repr=False)
    functions: Mapping[str, Mapping[str, str]] = field(repr=False, default_factory=dict)

    @property
    def development(self) -> str:
        """The host key to hand to a developer: it opens every function of level `function`."""
        return next(iter(self.host.values()))

    def allows(self, level: str, function_name: str, given: str | None) -> bool:
        """Whether the key given with a request opens a function of that level."""
        if level == "anonymous":
            return True
        if not given:
            return False
        accepted = [self.master]
        if level == "function":
            accepted += [*self.host.values(), *self.functions.get(function_name, {}).values()]
        return matches_any(given, accepted)

    def allows_system(self, name: str, given: str | None) -> bool:
        """Whether the key opens an extension's own endpoints."""
        return bool(given) and matches_any(given or "", [self.master, self.system[name]])


def matches_any(given: str, accepted: list[str]) -> bool:
    """Compare with every key in constant time, so that timing tells nothing."""
    encoded = given.encode("utf-8", "surrogatepass")
    found = False
    for key in accepted:
        found |= hmac.compare_digest(encoded, key.encode())
    return found


def new_keys() -> Keys:
    """A fresh set, from the system's random source."""
    return Keys(
        master=secrets.token_urlsafe(KEY_BYTES),
        host={"development": secrets.token_urlsafe(KEY_BYTES)},
        system={SYSTEM_KEY_DURABLE: secrets.token_urlsafe(KEY_BYTES)},
    )


def load_or_create(path: Path) -> Keys:
    """Keys of an earlier start, or new ones written with access for the owner alone."""
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    keys = new_keys()
    text = json.dumps(
        {"master": keys.master, "host": keys.host, "system": keys.system, "functions": keys.functions}, indent=2
    )
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        # A link, not a rename: of two hosts that start together, one writes and the other reads.
        os.link(temporary, path)
    except FileExistsError:
        return _read(path)
    finally:
        os.unlink(temporary)
    return keys


def _read(path: Path) -> Keys:
    text = path.read_text(encoding="utf-8")
    try:
        values: Any = json.loads(text)
        keys = Keys(
            master=_key(values["master"]),
            host={str(name): _key(value) for name, value in values["host"].items()},
            system={str(name): _key(value) for name, value in values["system"].items()},
            functions={
                str(function): {str(name): _key(value) for name, value in named.items()}
                for function, named in values.get("functions", {}).items()
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"key file {path} is damaged ({error}); delete it to get new keys") from None
    if not keys.host or SYSTEM_KEY_DURABLE not in keys.system:
        raise ConfigurationError(f"key file {path} lacks a host key or a system key; delete it to get new keys")
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return keys


def _key(value: Any) -> str:
    if not isinstance(value, str) or len(value) < 16:
        raise ValueError("a key must be text of at least 16 characters")
    return value
