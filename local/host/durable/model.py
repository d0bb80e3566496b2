"""Values of the durable engine: instances, messages to them, and what is loaded together."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from local.host.durable.events import Event

INSTANCE_ID_LIMIT = 256
_FORBIDDEN = re.compile(r"[/\\#?\x00-\x1f\x7f-\x9f]")


class Status(StrEnum):
    """Runtime status of an instance, as the status API spells it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    COMPLETED = "Completed"
    FAILED = "Failed"
    TERMINATED = "Terminated"

    @property
    def finished(self) -> bool:
        return self in (Status.COMPLETED, Status.FAILED, Status.TERMINATED)


class MessageKind(StrEnum):
    """What can be sent to an instance."""

    EVENT = "event"
    TASK = "task"
    TERMINATE = "terminate"
    SUSPEND = "suspend"
    RESUME = "resume"


@dataclass(frozen=True, kw_only=True)
class Parent:
    """The orchestration that waits for a sub-orchestration, and the task that stands for it there."""

    instance_id: str
    execution_id: str
    task_id: int


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One orchestration instance, as its row in storage says. Input, output and custom status are JSON text."""

    instance_id: str
    execution_id: str
    name: str
    version: str | None
    status: Status
    created: datetime
    updated: datetime
    input: str | None = None
    output: str | None = None
    custom_status: str | None = None
    parent: Parent | None = None
    turns: int = 0
    etag: str = ""


@dataclass(frozen=True, kw_only=True)
class Message:
    """Something that happened to an instance and that its orchestrator has not seen yet."""

    kind: MessageKind
    enqueued: datetime
    key: str = ""
    name: str = ""
    input: str | None = None
    event: Event | None = None
    execution_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Everything storage holds of one instance, read together."""

    instance: Instance
    history: Sequence[Event]
    messages: Sequence[Message]


def check_instance_id(instance_id: str) -> str | None:
    """What is wrong with an instance id, or None."""
    if not instance_id or len(instance_id) > INSTANCE_ID_LIMIT:
        return f"Instance IDs must be 1 to {INSTANCE_ID_LIMIT} characters long."
    if instance_id.startswith("@"):
        return "Orchestration instance IDs must not start with '@'."
    if _FORBIDDEN.search(instance_id):
        return "Instance IDs must not contain '/', '\\', '#', '?', or control characters."
    return None


def new_instance(
    *, name: str, instance_id: str, text: str | None, version: str | None = None, parent: Parent | None = None
) -> Instance:
    """An instance that has not run yet."""
    now = datetime.now(UTC)
    return Instance(
        instance_id=instance_id,
        execution_id=uuid.uuid4().hex,
        name=name,
        version=version,
        status=Status.PENDING,
        created=now,
        updated=now,
        input=text,
        parent=parent,
    )
