"""Backlog queues: queues of the secondary namespace that hold messages meant for the primary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta

from shared.domain.pair import EntityPath, Namespace, Side

TRANSFER_SEGMENT = "x-servicebus-transfer"
PARTITION_COUNT = 16

#: .NET's TimeSpan.MaxValue, `P10675199DT2H48M5.4775807S`: "for ever" wherever Service Bus wants a duration.
#: Python's microseconds cannot hold its last digit; both ends of the wire mean the same by it.
FOREVER = timedelta(days=10675199, hours=2, minutes=48, seconds=5, microseconds=477580)
_FOREVER_AT_LEAST = timedelta(days=10675198)


@dataclass(frozen=True, kw_only=True)
class BacklogQueueDescription:
    """The properties a backlog queue is created with; all others are the service's defaults."""

    max_size_in_megabytes: int = 5120
    max_delivery_count: int = 2**31 - 1
    default_message_time_to_live: timedelta = FOREVER
    auto_delete_on_idle: timedelta = FOREVER
    lock_duration: timedelta = timedelta(minutes=1)
    dead_lettering_on_message_expiration: bool = True
    enable_batched_operations: bool = True
    enable_partitioning: bool = False


def backlog_queue_path(primary: Namespace, index: int) -> EntityPath:
    """`contoso/x-servicebus-transfer/0` is the first backlog queue of primary namespace contoso."""
    if primary.side is not Side.PRIMARY:
        raise ValueError("backlog queues are named after the primary namespace")
    if index < 0:
        raise ValueError(f"a backlog queue's index is not negative: {index}")
    return EntityPath(f"{primary.name}/{TRANSFER_SEGMENT}/{index}")


def backlog_queue_paths(primary: Namespace, count: int) -> tuple[EntityPath, ...]:
    """Paths of the backlog queues in use, in order of their index."""
    return tuple(backlog_queue_path(primary, index) for index in range(count))


def is_backlog_path(primary: Namespace, path: str) -> bool:
    """Whether a path is where backlog queues of this primary are, whatever its index."""
    return path.lower().startswith(f"{primary.name}/{TRANSFER_SEGMENT}/".lower())


def differences(found: Mapping[str, object]) -> tuple[str, ...]:
    """How an existing queue differs from what would be created; it is used as it is, and these are said."""
    wanted = asdict(BacklogQueueDescription())
    # The option decides about partitions, and the service shows the size of all of them together.
    if found.get("enable_partitioning"):
        wanted["max_size_in_megabytes"] *= PARTITION_COUNT
    del wanted["enable_partitioning"]
    return tuple(
        f"{name} is {found[name]}, not {value}"
        for name, value in wanted.items()
        if name in found and not _same(found[name], value)
    )


def _same(found: object, wanted: object) -> bool:
    if isinstance(found, timedelta) and isinstance(wanted, timedelta) and wanted >= _FOREVER_AT_LEAST:
        return found >= _FOREVER_AT_LEAST
    return found == wanted
