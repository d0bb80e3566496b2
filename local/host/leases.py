"""Leases in Table Storage: of all hosts that share the storage, one holds each name.

A lease ends when its time is over, when its owner gives it back, or when its owner is a process of this very
machine that no longer runs; so a host that is killed and started again need not wait.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

LEASE_DURATION = timedelta(seconds=15)
RENEW_EVERY_S = 5.0
PARTITION = "lease"


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A holder of leases: the machine (boot and pid namespace), the process, its start, and one host in it."""

    machine: str
    pid: int
    started: str
    host: str

    def text(self) -> str:
        return f"{self.machine}|{self.pid}|{self.started}|{self.host}"


@lru_cache(maxsize=1)
def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}-{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"unknown-{secrets.token_hex(8)}"


def process_started(pid: int) -> str | None:
    """When a process started, in the kernel's own ticks; None when it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def new_owner() -> Owner:
    """This host, with a part that tells two hosts of one process apart."""
    pid = os.getpid()
    return Owner(
        machine=_machine(), pid=pid, started=process_started(pid) or "unknown", host=secrets.token_hex(4)
    )


def is_dead(text: str) -> bool:
    """Whether the owner written in a lease is a process of this machine that has ended."""
    parts = text.split("|")
    if len(parts) != 4 or parts[0] != _machine() or not parts[1].isdigit():
        return False
    return process_started(int(parts[1])) != parts[2]


class Leases:
    """Takes, renews and gives back leases for one owner."""

    def __init__(self, table: TableClient, owner: Owner) -> None:
        self._table = table
        self._owner = owner

    async def acquire(self, name: str, now: datetime | None = None) -> bool:
        """Take or renew a lease; False while somebody else holds it."""
        now = now or datetime.now(UTC)
        entity = {
            "PartitionKey": PARTITION,
            "RowKey": name,
            "Owner": self._owner.text(),
            "Until": now + LEASE_DURATION,
        }
        try:
            held = await self._table.get_entity(PARTITION, name)
        except ResourceNotFoundError:
            try:
                await self._table.create_entity(entity)
            except ResourceExistsError:
                return False
            return True
        mine = held["Owner"] == self._owner.text()
        if not mine and held["Until"] > now and not is_dead(held["Owner"]):
            return False
        try:
            await self._table.update_entity(
                entity,
                mode=UpdateMode.REPLACE,
                etag=held.metadata["etag"],
                match_condition=MatchConditions.IfNotModified,
            )
        except (ResourceModifiedError, ResourceNotFoundError):
            return False
        return True

    async def release(self, name: str) -> None:
        """Give a lease back, if it is still ours."""
        try:
            held = await self._table.get_entity(PARTITION, name)
        except ResourceNotFoundError:
            return
        if held["Owner"] != self._owner.text():
            return
        try:
            await self._table.delete_entity(
                PARTITION, name, etag=held.metadata["etag"], match_condition=MatchConditions.IfNotModified
            )
        except (ResourceModifiedError, ResourceNotFoundError):
            return
