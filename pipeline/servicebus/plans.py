"""What to do, decided on the driver from the options: everything a task needs, checked before any task starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pipeline.servicebus.errors import OptionRefused
from pipeline.servicebus.given import MESSAGES_MAX, Given, Use
from shared.connections import NamespaceConnection, read_namespace
from shared.connections.namespace import NAMESPACE_SETTINGS
from shared.domain.backlog import backlog_queue_paths
from shared.domain.pair import Namespace, Side, entity_path
from shared.errors import Rejected
from shared.settings import Settings, options

IN_FLIGHT_DEFAULT = 200
#: Messages of one micro-batch, where nothing else is asked for.
STREAM_BATCH_DEFAULT = 10_000
#: Spark asks a stream for news a hundred times a second, and every look is paid for.
POLL_INTERVAL_DEFAULT = timedelta(seconds=10)
DEAD_LETTERS = "$DeadLetterQueue"
TRANSFER_DEAD_LETTERS = "$Transfer/$DeadLetterQueue"
_SUB_QUEUES = {"deadletter": DEAD_LETTERS, "transferdeadletter": TRANSFER_DEAD_LETTERS}


@dataclass(frozen=True, kw_only=True)
class WritePlan:
    settings: Settings
    entity: str | None
    message_id_prefix: str | None
    in_flight_max: int
    #: How long one row is tried again while neither namespace takes it.
    retry_for: timedelta
    create_queues: bool
    authority_file: str | None


@dataclass(frozen=True, kw_only=True)
class PeekedQueue:
    """A queue or subscription, or one of its sub-queues."""

    path: str
    subscription: str | None = None
    sub_queue: str | None = None

    @property
    def name(self) -> str:
        """As the service addresses it."""
        parts = [self.path, *(["Subscriptions", self.subscription] if self.subscription else [])]
        return "/".join([*parts, *([self.sub_queue] if self.sub_queue else [])])


@dataclass(frozen=True, kw_only=True)
class ReadPlan:
    connection: NamespaceConnection
    queues: tuple[PeekedQueue, ...]
    #: Of each queue when reading once, of one micro-batch when reading a stream.
    messages_max: int
    #: Nobody chose the bound, so a queue that holds more is an error rather than a shorter answer.
    bound_is_ours: bool
    #: How soon a stream looks again after it has found nothing.
    poll_interval: timedelta
    fail_on_data_loss: bool
    authority_file: str | None


def plan_write(given: Given, authority_file: str | None) -> WritePlan:
    settings = Settings.from_env(given.settings)
    retry_for = given.value("retryFor")
    if retry_for is None:
        # Until failover engages every send fails; after that one send has its whole deadline, and one more.
        retry_for = settings.failover_interval + 2 * settings.send_deadline
    create_queues = given.value("createQueues")
    return WritePlan(
        settings=settings,
        entity=_path(given, "entity"),
        message_id_prefix=given.value("messageIdPrefix"),
        in_flight_max=given.value("maxInFlight") or IN_FLIGHT_DEFAULT,
        retry_for=retry_for,
        create_queues=True if create_queues is None else create_queues,
        authority_file=given.value("authorityFile") or authority_file,
    )


def plan_read(given: Given, authority_file: str | None) -> ReadPlan:
    backlog = bool(given.value("backlog"))
    side = Side.SECONDARY if backlog else Side((given.value("namespace") or Side.PRIMARY.value).lower())
    messages_max = given.value("maxMessages")
    fail_on_data_loss = given.value("failOnDataLoss")
    default = MESSAGES_MAX if given.use is Use.READ else STREAM_BATCH_DEFAULT
    return ReadPlan(
        connection=read_namespace(given.settings, side),
        queues=_backlog_queues(given) if backlog else (_named_queue(given),),
        messages_max=messages_max or default,
        bound_is_ours=messages_max is None,
        poll_interval=given.value("pollInterval") or POLL_INTERVAL_DEFAULT,
        fail_on_data_loss=True if fail_on_data_loss is None else fail_on_data_loss,
        authority_file=given.value("authorityFile") or authority_file,
    )


def _sub_queue(given: Given) -> str | None:
    asked = given.value("subQueue")
    return None if asked is None else _SUB_QUEUES[asked.lower()]


def _named_queue(given: Given) -> PeekedQueue:
    path = _path(given, "entity")
    if path is None:
        raise OptionRefused("option entity is missing; name a queue, a topic with option subscription, or set backlog")
    subscription = _path(given, "subscription")
    return PeekedQueue(path=path, subscription=subscription, sub_queue=_sub_queue(given))


def _backlog_queues(given: Given) -> tuple[PeekedQueue, ...]:
    for name in ("entity", "subscription", "namespace"):
        if name in given.own:
            raise OptionRefused(f"options backlog and {name} are both given; backlog reads the pair's backlog queues")
    if not any(name.startswith(NAMESPACE_SETTINGS[Side.PRIMARY]) for name in given.settings):
        raise OptionRefused("option backlog needs the setting ServiceBusPrimary, too: its name is in the queues' paths")
    primary = Namespace(side=Side.PRIMARY, name=read_namespace(given.settings, Side.PRIMARY).name)
    count = options()["backlog_queue_count"].read(given.settings)
    sub_queue = _sub_queue(given)
    return tuple(PeekedQueue(path=path, sub_queue=sub_queue) for path in backlog_queue_paths(primary, count))


def _path(given: Given, name: str) -> str | None:
    text = given.value(name)
    try:
        return None if text is None else entity_path(text)
    except Rejected as error:
        raise OptionRefused(f"option {name}: {error.message}") from None
