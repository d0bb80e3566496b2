"""Every option of the app, read once from its app settings.

An option is one line of Settings: its app setting, which values it takes, and its default as one would write it.
Reading, range checks, error texts and the completeness tests of the example file and docs/settings.md follow from it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from shared.connections import NamespaceConnection, StateStorage, read_namespace, read_state_storage
from shared.domain.durations import format_duration, parse_duration
from shared.domain.pair import Namespace, Pair, Side
from shared.errors import ConfigurationError, SettingProblem

T = TypeVar("T")

# Service Bus quotas, Basic and Standard tier: queues and topics per namespace.
ENTITIES_PER_NAMESPACE_MAX = 10_000
# Where records are written is nobody's business but the operator's.
_UNSHOWN = ("telemetry_", "open_telemetry")
_WORDS = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
# A wrong value is repeated to people only if it is short and plain: a key pasted into the wrong place is neither.
_SHOWABLE_VALUE = re.compile(r"[A-Za-z0-9 :.,-]{1,20}")


@dataclass(frozen=True, kw_only=True)
class Kind(Generic[T]):
    """A kind of value: how its text is read (ValueError says what is wrong with it) and which values it takes."""

    parse: Callable[[str], T]
    takes: str


@dataclass(frozen=True, kw_only=True)
class Option:
    """What is to be known about one option besides its value."""

    setting: str
    kind: Kind[Any]
    default: str

    def read(self, env: Mapping[str, str]) -> Any:
        text = env.get(self.setting, "").strip() or self.default
        try:
            return self.kind.parse(text)
        except ValueError as error:
            shown = f"'{text}'" if _SHOWABLE_VALUE.fullmatch(text) else f"its value ({len(text)} characters)"
            problem = SettingProblem(
                setting=self.setting, problem=f"{shown} is {error}", example=f"{self.setting}={self.default}"
            )
            raise ConfigurationError([problem]) from None


def duration(low: str, high: str) -> Kind[timedelta]:
    lowest, highest = parse_duration(low), parse_duration(high)

    def parse(text: str) -> timedelta:
        value = parse_duration(text)
        if not lowest <= value <= highest:
            raise ValueError(f"outside {format_duration(lowest)} to {format_duration(highest)}")
        return value

    return Kind(parse=parse, takes=f"{low} to {high}")


def whole_number(low: int, high: int) -> Kind[int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            raise ValueError("not a whole number")
        if not low <= int(text) <= high:
            raise ValueError(f"outside {low} to {high}")
        return int(text)

    return Kind(parse=parse, takes=f"{low} to {high}")


def switch() -> Kind[bool]:
    def parse(text: str) -> bool:
        if text.lower() not in _WORDS:
            raise ValueError("neither true nor false")
        return _WORDS[text.lower()]

    return Kind(parse=parse, takes="true or false")


def one_of(*words: str) -> Kind[str]:
    def parse(value: str) -> str:
        if value.lower() not in words:
            raise ValueError(f"none of {', '.join(words)}")
        return value.lower()

    return Kind(parse=parse, takes=", ".join(words))


def text(pattern: str, takes: str) -> Kind[str]:
    """Text of a given form, or nothing at all."""

    def parse(value: str) -> str:
        if value and not re.fullmatch(pattern, value):
            raise ValueError(f"not {takes}")
        return value

    return Kind(parse=parse, takes=takes)


def option(setting: str, kind: Kind[T], default: str) -> T:
    """A dataclass field that knows its app setting; typed as its value, as dataclasses.field itself is."""
    known = Option(setting=setting, kind=kind, default=default)
    return dataclasses.field(default=kind.parse(default), metadata={"option": known})


@dataclass(frozen=True, kw_only=True)
class Settings:
    primary: NamespaceConnection
    secondary: NamespaceConnection
    state_storage: StateStorage

    # Backlog queues to use.
    backlog_queue_count: int = option("BACKLOG_QUEUE_COUNT", whole_number(1, ENTITIES_PER_NAMESPACE_MAX), "10")
    # Whether backlog queues are created partitioned: larger, and without order between keys.
    backlog_partitioned: bool = option("BACKLOG_PARTITIONED", switch(), "false")
    # Time without a successful send, after a failure that counts, before failover engages; zero: at the first failure.
    failover_interval: timedelta = option("FAILOVER_INTERVAL", duration("PT0S", "PT1H"), "PT1M")
    # How often an unavailable entity is pinged.
    ping_primary_interval: timedelta = option("PING_PRIMARY_INTERVAL", duration("PT1S", "PT30M"), "PT1M")
    # Pings in a row that must succeed before an entity counts as available.
    ping_successes: int = option("PING_SUCCESSES", whole_number(1, 100), "1")
    # Whether a partitioned entity is available only when pings to all its partitions succeed.
    ping_all_partitions: bool = option("PING_ALL_PARTITIONS", switch(), "true")
    # Whether this app hosts the syphon; a sender-only app leaves it off.
    enable_syphon: bool = option("ENABLE_SYPHON", switch(), "false")
    # Messages a second that the syphon forwards from each backlog queue at most; zero: as fast as it goes.
    syphon_rate_limit: int = option("SYPHON_RATE_LIMIT", whole_number(0, 1_000_000), "0")
    # Off: the time a message waited counts against its time to live. On: its clock starts again, as the original's did.
    syphon_restart_time_to_live: bool = option("SYPHON_RESTART_TIME_TO_LIVE", switch(), "false")
    # After a close or fault of one side, how long its partner may stay open.
    partner_grace: timedelta = option("PARTNER_GRACE", duration("PT0S", "PT1M"), "PT5S")
    # A send never takes longer, whatever breaks.
    send_deadline: timedelta = option("SEND_DEADLINE", duration("PT1S", "PT5M"), "PT30S")
    # Deadline of one attempt on the primary; what is left of send_deadline caps it.
    primary_attempt_timeout: timedelta = option("PRIMARY_ATTEMPT_TIMEOUT", duration("PT0.1S", "PT5M"), "PT5S")
    # The same for a partitioned entity: the service needs more than 15 s to reroute a message without a key.
    partitioned_attempt_timeout: timedelta = option(
        "PRIMARY_ATTEMPT_TIMEOUT_PARTITIONED", duration("PT0.1S", "PT5M"), "PT20S"
    )
    # Off: until failover engages a failed send's error goes to the caller. On: the message goes to the backlog at once.
    divert_while_suspect: bool = option("DIVERT_WHILE_SUSPECT", switch(), "false")
    # How stale an instance's view of shared state may be.
    state_refresh: timedelta = option("STATE_REFRESH", duration("PT0.2S", "PT1M"), "PT2S")
    # Where records of every event are written, in files by date and hour; empty: nowhere.
    telemetry_folder: str = option("TELEMETRY_FOLDER", text(r"[^\0=;]{1,1000}", "a folder, or empty"), "")
    # The container of blob storage to which the files go; the folder, or a temporary one, then holds the open file.
    telemetry_container: str = option(
        "TELEMETRY_CONTAINER",
        text(r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*", "3 to 63 lower-case letters, digits and single hyphens, or empty"),
        "",
    )
    # A file of records is closed, and so can be read, when it is as old as this.
    telemetry_rotate_interval: timedelta = option("TELEMETRY_ROTATE_INTERVAL", duration("PT1S", "PT1H"), "PT1M")
    # Or as large.
    telemetry_rotate_bytes: int = option("TELEMETRY_ROTATE_BYTES", whole_number(1_000, 1_000_000_000), "33554432")
    # Records that may wait to be written; beyond that they are dropped, and counted.
    telemetry_buffer_events: int = option("TELEMETRY_BUFFER_EVENTS", whole_number(100, 10_000_000), "100000")
    # Where traces, metrics and events go as OpenTelemetry: nowhere, to Application Insights, or to an OTLP collector.
    open_telemetry: str = option("OPEN_TELEMETRY", one_of("off", "azure-monitor", "otlp"), "off")

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Settings:
        """Reads every setting; if any is unusable, raises one ConfigurationError that lists all of them."""
        problems: list[SettingProblem] = []
        values: dict[str, Any] = {}
        readers: dict[str, Callable[[Mapping[str, str]], Any]] = {
            "primary": lambda env: read_namespace(env, Side.PRIMARY),
            "secondary": lambda env: read_namespace(env, Side.SECONDARY),
            "state_storage": read_state_storage,
            **{name: known.read for name, known in options().items()},
        }
        for name, read in readers.items():
            try:
                values[name] = read(env)
            except ConfigurationError as error:
                problems.extend(error.problems)
        problems.extend(_same_namespace_twice(values))
        if problems:
            raise ConfigurationError(problems)
        return cls(**values)

    @property
    def pair(self) -> Pair:
        return Pair(
            primary=Namespace(side=Side.PRIMARY, name=self.primary.name),
            secondary=Namespace(side=Side.SECONDARY, name=self.secondary.name),
        )

    def shown(self) -> dict[str, bool | int | str]:
        """What decides how the pair behaves, for people, by the names of app settings in lower case."""
        values = {
            known.setting.lower(): getattr(self, name)
            for name, known in options().items()
            if not name.startswith(_UNSHOWN)
        }
        return {
            name: format_duration(value) if isinstance(value, timedelta) else value for name, value in values.items()
        }

    def attempt_timeout(self, *, partitioned: bool) -> timedelta:
        return self.partitioned_attempt_timeout if partitioned else self.primary_attempt_timeout


def options() -> dict[str, Option]:
    """Every option by the name of its field, in the order of Settings."""
    fields = dataclasses.fields(Settings)
    return {field.name: field.metadata["option"] for field in fields if "option" in field.metadata}


def _same_namespace_twice(values: Mapping[str, Any]) -> list[SettingProblem]:
    primary, secondary = values.get("primary"), values.get("secondary")
    if not primary or not secondary or primary.address.lower() != secondary.address.lower():
        return []
    problem = f"{primary.setting} names the same namespace; a pair needs two"
    example = f"{secondary.setting}=Endpoint=sb://fabrikam.servicebus.windows.net/;SharedAccessKeyName=<name>;..."
    return [SettingProblem(setting=secondary.setting, problem=problem, example=example)]
