"""What an entity is: the properties that the administration API reads and writes, with the service's defaults.

Values only. Limits and the rules of change live in `validation.py`; XML lives in `admin/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

#: .NET's TimeSpan.MaxValue, "for ever" everywhere in Service Bus (P10675199DT2H48M5.4775807S).
MAX_TIMESPAN = timedelta(days=10675199, hours=2, minutes=48, seconds=5, microseconds=477580)
#: Durations from here on mean "never": the Python SDK sends TimeSpan.MaxValue back a microsecond short.
FOREVER = timedelta(days=10675198)


class EntityStatus(Enum):
    ACTIVE = "Active"
    DISABLED = "Disabled"
    SEND_DISABLED = "SendDisabled"
    RECEIVE_DISABLED = "ReceiveDisabled"

    @property
    def can_send(self) -> bool:
        return self in (EntityStatus.ACTIVE, EntityStatus.RECEIVE_DISABLED)

    @property
    def can_receive(self) -> bool:
        return self in (EntityStatus.ACTIVE, EntityStatus.SEND_DISABLED)


@dataclass(frozen=True, kw_only=True)
class AuthorizationRule:
    key_name: str
    primary_key: str = field(repr=False)
    secondary_key: str = field(default="", repr=False)
    rights: tuple[str, ...] = ("Send", "Listen", "Manage")
    claim_type: str = "SharedAccessKey"
    claim_value: str = "None"


@dataclass(frozen=True, kw_only=True)
class QueueDescription:
    lock_duration: timedelta = timedelta(minutes=1)
    max_size_in_megabytes: int = 1024
    requires_duplicate_detection: bool = False
    requires_session: bool = False
    default_message_time_to_live: timedelta = MAX_TIMESPAN
    dead_lettering_on_message_expiration: bool = False
    duplicate_detection_history_time_window: timedelta = timedelta(minutes=10)
    max_delivery_count: int = 10
    enable_batched_operations: bool = True
    authorization_rules: tuple[AuthorizationRule, ...] = ()
    status: EntityStatus = EntityStatus.ACTIVE
    auto_delete_on_idle: timedelta = MAX_TIMESPAN
    enable_partitioning: bool = False
    enable_express: bool = False
    forward_to: str | None = None
    forward_dead_lettered_messages_to: str | None = None
    user_metadata: str | None = None
    max_message_size_in_kilobytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class TopicDescription:
    default_message_time_to_live: timedelta = MAX_TIMESPAN
    max_size_in_megabytes: int = 1024
    requires_duplicate_detection: bool = False
    duplicate_detection_history_time_window: timedelta = timedelta(minutes=10)
    enable_batched_operations: bool = True
    filtering_messages_before_publishing: bool = False
    authorization_rules: tuple[AuthorizationRule, ...] = ()
    status: EntityStatus = EntityStatus.ACTIVE
    support_ordering: bool = True
    auto_delete_on_idle: timedelta = MAX_TIMESPAN
    enable_partitioning: bool = False
    enable_express: bool = False
    user_metadata: str | None = None
    max_message_size_in_kilobytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class SubscriptionDescription:
    lock_duration: timedelta = timedelta(minutes=1)
    requires_session: bool = False
    default_message_time_to_live: timedelta = MAX_TIMESPAN
    dead_lettering_on_message_expiration: bool = False
    dead_lettering_on_filter_evaluation_exceptions: bool = True
    max_delivery_count: int = 10
    enable_batched_operations: bool = True
    status: EntityStatus = EntityStatus.ACTIVE
    forward_to: str | None = None
    forward_dead_lettered_messages_to: str | None = None
    auto_delete_on_idle: timedelta = MAX_TIMESPAN
    user_metadata: str | None = None


@dataclass(frozen=True, kw_only=True)
class TrueFilter:
    pass


@dataclass(frozen=True, kw_only=True)
class FalseFilter:
    pass


#: What a filter parameter or correlation property may hold.
FilterValue = str | int | float | bool | None | object


@dataclass(frozen=True, kw_only=True)
class SqlFilter:
    expression: str
    parameters: tuple[tuple[str, FilterValue], ...] = ()
    requires_preprocessing: bool = False


@dataclass(frozen=True, kw_only=True)
class CorrelationFilter:
    """Every property that is given must be equal; nothing given is refused."""

    correlation_id: str | None = None
    message_id: str | None = None
    to: str | None = None
    reply_to: str | None = None
    label: str | None = None
    session_id: str | None = None
    reply_to_session_id: str | None = None
    content_type: str | None = None
    properties: tuple[tuple[str, FilterValue], ...] = ()


RuleFilter = TrueFilter | FalseFilter | SqlFilter | CorrelationFilter


@dataclass(frozen=True, kw_only=True)
class SqlRuleAction:
    expression: str
    parameters: tuple[tuple[str, FilterValue], ...] = ()
    requires_preprocessing: bool = False


@dataclass(frozen=True, kw_only=True)
class RuleDescription:
    name: str
    filter: RuleFilter = TrueFilter()
    action: SqlRuleAction | None = None


@dataclass(frozen=True, kw_only=True)
class MessageCounts:
    active: int = 0
    dead_letter: int = 0
    scheduled: int = 0
    transfer: int = 0
    transfer_dead_letter: int = 0

    @property
    def total(self) -> int:
        return self.active + self.dead_letter + self.scheduled + self.transfer + self.transfer_dead_letter
