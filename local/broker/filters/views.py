"""What rules see of a message, and what they ask to be changed in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from local.broker.errors import ARGUMENT_ERROR, BrokerError

#: System properties that a rule may read, by lower-case name; `subject` is the newer word for `label`.
READABLE_SYSTEM = frozenset(
    {
        "messageid",
        "correlationid",
        "to",
        "replyto",
        "label",
        "subject",
        "sessionid",
        "replytosessionid",
        "contenttype",
        "enqueuedtimeutc",
        "sequencenumber",
        "timetolive",
        "scheduledenqueuetimeutc",
        "partitionkey",
        "deliverycount",
        "enqueuedsequencenumber",
    }
)
#: System properties that hold text and that an action may set, besides `timetolive`.
WRITABLE_TEXT_SYSTEM = frozenset(
    {
        "messageid",
        "correlationid",
        "to",
        "replyto",
        "label",
        "subject",
        "sessionid",
        "replytosessionid",
        "contenttype",
    }
)
TIME_TO_LIVE = "timetolive"


class FilterEvaluationError(BrokerError):
    """A filter or action that cannot be carried out on this message: values of the wrong type, overflow."""

    def __init__(self, description: str) -> None:
        super().__init__(ARGUMENT_ERROR, description)


class FilterView(Protocol):
    """A message as rules see it. Names of user properties are looked up without regard to case."""

    def system(self, name: str) -> object | None:
        """The system property of that lower-case name; None when it is not set."""
        ...

    def user(self, name: str) -> object | None:
        """The application property of that name; None when it is absent or null."""
        ...

    def has_user(self, name: str) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What an action makes of a message. `set_system` has lower-case names; `timetolive` is in seconds."""

    set_user: Mapping[str, object] = field(default_factory=dict)
    removed_user: frozenset[str] = frozenset()
    set_system: Mapping[str, object] = field(default_factory=dict)
