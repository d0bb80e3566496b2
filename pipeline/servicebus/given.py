"""The options that were given: names checked, the app's settings told apart, secrets kept out of sight.

An option is one of the source's own, or an app setting by its own name (docs/settings.md). What is not given comes from
the environment of the driver. Spark shows the options of a stream in its plan and masks only what looks secret to it
(spark.redaction.regex), so a secret that it would show is refused; under `<setting>.secret` it always masks the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pipeline.servicebus.errors import OptionRefused
from shared.connections.namespace import IDENTITY_PARTS as NAMESPACE_PARTS
from shared.connections.namespace import NAME_SETTINGS, NAMESPACE_SETTINGS
from shared.connections.storage import IDENTITY_PARTS as STORAGE_PARTS
from shared.connections.storage import STORAGE_SETTINGS
from shared.settings import Kind, duration, options, switch, text, whole_number

MESSAGES_MAX = 10_000_000
SECRET_SUFFIX = ".secret"
#: Spark puts these among a source's options itself.
SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})
_SECRET_PART = re.compile(r"(?i)(accountkey|sharedaccesskey|sharedaccesssignature)\s*=")
_MASKED_BY_SPARK = re.compile(r"(?i)secret|password|token|access[.]?key")


class Use(Enum):
    READ = "reading"
    READ_STREAM = "reading a stream"
    WRITE = "writing"
    WRITE_STREAM = "writing a stream"


READS = (Use.READ, Use.READ_STREAM)
WRITES = (Use.WRITE, Use.WRITE_STREAM)
BOTH = (*READS, *WRITES)


@dataclass(frozen=True, kw_only=True)
class Own:
    """One of the source's own options."""

    uses: tuple[Use, ...]
    kind: Kind[Any]


_WORD = text(r"[^\0\n]{1,1000}", "text of one line")
OWN = {
    "entity": Own(uses=BOTH, kind=_WORD),
    "authorityFile": Own(uses=BOTH, kind=_WORD),
    "messageIdPrefix": Own(uses=(Use.WRITE,), kind=text(r"[ -~]{1,80}", "1 to 80 plain characters")),
    "maxInFlight": Own(uses=WRITES, kind=whole_number(1, 1000)),
    "retryFor": Own(uses=WRITES, kind=duration("PT0S", "PT1H")),
    "createQueues": Own(uses=WRITES, kind=switch()),
    "subscription": Own(uses=READS, kind=_WORD),
    "subQueue": Own(uses=READS, kind=text("(?i)deadLetter|transferDeadLetter", "deadLetter or transferDeadLetter")),
    "namespace": Own(uses=READS, kind=text("(?i)primary|secondary", "primary or secondary")),
    "backlog": Own(uses=READS, kind=switch()),
    "maxMessages": Own(uses=READS, kind=whole_number(1, MESSAGES_MAX)),
    "pollInterval": Own(uses=(Use.READ_STREAM,), kind=duration("PT0.1S", "PT1H")),
    "failOnDataLoss": Own(uses=(Use.READ_STREAM,), kind=switch()),
}
_OWN_NAMES = {name.lower(): name for name in OWN} | {"path": "entity"}
_CONNECTIONS = {setting: NAMESPACE_PARTS for setting in NAMESPACE_SETTINGS.values()} | {
    setting: STORAGE_PARTS for setting in STORAGE_SETTINGS
}
_SETTING_NAMES = {
    name.lower(): name
    for name in (
        *_CONNECTIONS,
        *(f"{setting}__{part}" for setting, parts in _CONNECTIONS.items() for part in parts),
        *NAME_SETTINGS.values(),
        *(known.setting for known in options().values()),
    )
}


@dataclass(frozen=True, kw_only=True)
class Given:
    own: Mapping[str, str]
    #: App settings as the app would read them; they hold secrets.
    settings: Mapping[str, str] = field(repr=False)
    use: Use

    def value(self, name: str) -> Any:
        """None where the option is not given."""
        if name not in self.own:
            return None
        try:
            return OWN[name].kind.parse(self.own[name].strip())
        except ValueError as error:
            raise OptionRefused(f"option {name} is {error}; it takes {OWN[name].kind.takes}") from None


def read_given(given: Mapping[str, str], env: Mapping[str, str], use: Use) -> Given:
    own: dict[str, str] = {}
    settings: dict[str, str] = {}
    for written, value in given.items():
        name = written.lower()
        if name in SPARKS_OWN:
            continue
        if (proper := _OWN_NAMES.get(name)) is not None:
            _check_use(proper, use)
            _put(own, proper, value)
        else:
            setting = _setting_of(name, written)
            _refuse_visible_secret(setting, name, value)
            _put(settings, setting, value)
    return Given(own=own, settings={**_from_environment(env, settings), **settings}, use=use)


def _check_use(name: str, use: Use) -> None:
    if use not in OWN[name].uses:
        meant = " and ".join(one.value for one in OWN[name].uses)
        raise OptionRefused(f"option {name} is for {meant}, and this is {use.value}; leave it out")


def _put(options: dict[str, str], name: str, value: str) -> None:
    if name in options:
        raise OptionRefused(f"option {name} is given twice, under two names; keep one of them")
    options[name] = value


def _setting_of(name: str, written: str) -> str:
    setting = _SETTING_NAMES.get(name.removesuffix(SECRET_SUFFIX))
    if setting is None or (name.endswith(SECRET_SUFFIX) and setting not in _CONNECTIONS):
        # A name is repeated only if it looks like one: a value pasted in its place may be a key.
        shown = written if re.fullmatch(r"[A-Za-z0-9_.]{1,60}", written) else f"(of {len(written)} characters)"
        known = ", ".join(OWN)
        raise OptionRefused(f"option {shown} is not known; known are {known}, and the app settings by their names")
    return setting


def _refuse_visible_secret(setting: str, name: str, value: str) -> None:
    if _SECRET_PART.search(value) and not _MASKED_BY_SPARK.search(name) and not _MASKED_BY_SPARK.search(value):
        raise OptionRefused(
            f"option {setting} holds a secret that Spark would show in plans; give it as {setting}{SECRET_SUFFIX}, "
            f"which Spark masks, or as the environment variable {setting} of the driver"
        )


def _from_environment(env: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Own settings of the environment; of a connection that options name, no form is taken from there."""
    named = {name.partition("__")[0] for name in given}
    if named & set(STORAGE_SETTINGS):
        named |= set(STORAGE_SETTINGS)
    known = set(_SETTING_NAMES.values())
    return {name: value for name, value in env.items() if name in known and name.partition("__")[0] not in named}
