"""Where every message ended: one row for each path and message id that was accepted, refused or seen.

What is known of a message, in the order in which it counts:

1. a receipt: it was seen in its entity (in any subscription of a topic, since filters may keep it out of the others);
2. the broker's word: the primary acknowledged it, or the syphon forwarded it. An audit overrules this: what was there
   before the audit began and has no receipt is not there;
3. a dead letter, or an expiry, which the syphon recorded;
4. the backlog queue's word. An audit of that queue overrules it in the same way: the latest audit must have seen it;
5. otherwise it is lost.

Repeated records must be counted once before; a message that was received twice under one sequence number is one copy.
Paths are compared, and shown, in lower case, as Service Bus does not tell cases apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

DELIVERED, WAITING, DEAD_LETTERED, EXPIRED, LOST = "delivered", "waiting", "dead-lettered", "expired", "lost"
#: Not accepted: the sender was told so, and it did not arrive; or it did all the same.
REFUSED, REFUSED_ARRIVED = "refused", "refused-arrived"
#: Seen without a record of its acceptance: of another sender, or the record is missing.
UNRECORDED = "unrecorded"
ACCEPTED = (DELIVERED, WAITING, DEAD_LETTERED, EXPIRED, LOST)

RECEIPT, BROKER, RECORD, AUDIT = "receipt", "broker", "record", "audit"
PRIMARY, BACKLOG = "primary", "backlog"
TTL_EXPIRED = "TTLExpiredException"
TRANSFER = "/x-servicebus-transfer/"
LOST_IDS_MAX = 1_000

_KEY = ["path", "message_id"]
_STEPS = (
    "send.accepted", "send.refused", "syphon.forwarded", "syphon.in-doubt", "syphon.dead-lettered", "message.received",
)  # fmt: skip


def deliveries(events: DataFrame) -> DataFrame:
    steps = _steps(events).join(F.broadcast(_audited(events)), "place", "left")
    # Nobody has audited the place since, or it happened later: then what was said, or seen, still holds.
    stands = F.coalesce(F.col("at") >= F.col("audited_since"), F.lit(True))
    facts = _facts(steps.withColumn("stands", stands))
    return _ends(facts.join(F.broadcast(_backlog_queues(events)), "queue_hash", "left"))


# -- from events to what is known of each message


def _steps(events: DataFrame) -> DataFrame:
    """The events that tell of a message, keyed by where it was meant to go, slim."""
    path = F.lower("path")
    in_backlog = F.col("path").contains(TRANSFER) & (F.col("event") == "message.received")
    steps = events.where(F.col("event").isin(*_STEPS)).select(
        path.alias("path"),
        "message_id",
        "event",
        "at",
        F.lower("backlog_queue").alias("backlog_queue"),
        "subscription",
        "sequence_number",
        "possible_duplicate",
        "indefinite",
        "waited_seconds",
        (F.col("reason") == TTL_EXPIRED).alias("expired"),
        F.coalesce(in_backlog, F.lit(False)).alias("in_backlog"),
    )
    # Where the message is by this step: an accepted one that was diverted is in the backlog queue.
    diverted = F.when(F.col("event") == "send.accepted", F.col("backlog_queue"))
    placed = steps.withColumn("place", F.coalesce(diverted, F.col("path"), F.col("backlog_queue")))
    astray = F.col("path").isNull() | F.col("in_backlog")
    return placed.where(~astray).unionByName(_led_home(placed.where(astray), placed))


def _led_home(strays: DataFrame, steps: DataFrame) -> DataFrame:
    """What was seen in a backlog queue, or dead-lettered there with no path, belongs to the message diverted to it."""
    diverted = (
        steps.where((F.col("event") == "send.accepted") & F.col("backlog_queue").isNotNull())
        .select("path", "message_id", "place")
        .distinct()
    )
    return strays.drop("path").join(diverted, ["place", "message_id"])


def _facts(steps: DataFrame) -> DataFrame:
    """One row for each message. One shuffle, by message; then copies are counted apart for each subscription.

    Only numbers, times and flags are aggregated: with them Spark hashes where texts would make it sort.
    """
    event, at, is_diverted = F.col("event"), F.col("at"), F.col("backlog_queue").isNotNull()
    accepted, forwarded = event == "send.accepted", event == "syphon.forwarded"
    refused, dead = event == "send.refused", event == "syphon.dead-lettered"
    in_doubt = event == "syphon.in-doubt"
    seen = (event == "message.received") & ~F.col("in_backlog")
    stands = F.col("stands")
    facts = {
        "accepted_at": (F.min, F.when(accepted, at)),
        "arrival_stands": (F.max, ((accepted & ~is_diverted) | forwarded) & stands),
        "backlog_stands": (F.max, accepted & is_diverted & stands),
        "seen_waiting": (F.max, F.col("in_backlog") & stands),
        "primary_at": (F.min, F.when(accepted & ~is_diverted, at)),
        "diverted_at": (F.max, F.when(accepted & is_diverted, at)),
        "queue_hash": (F.max, F.when(accepted & is_diverted, F.xxhash64("backlog_queue"))),
        "sends": (F.sum, accepted.cast("long")),
        "refusals": (F.sum, refused.cast("long")),
        "refused_at": (F.min, F.when(refused, at)),
        "indefinite": (F.max, refused & _flag("indefinite")),
        "forwarded_at": (F.min, F.when(forwarded, at)),
        "forward_waited": (F.min, F.when(forwarded, F.col("waited_seconds"))),
        "dead_at": (F.max, F.when(dead, at)),
        "expired": (F.max, dead & _flag("expired")),
        "possible_duplicate": (F.max, in_doubt | ((accepted | forwarded) & _flag("possible_duplicate"))),
        "seen_at": (F.min, F.when(seen, at)),
    }
    copy = [
        F.when(seen, F.coalesce("subscription", F.lit(""))).alias("subscription"),
        F.when(seen, F.coalesce("sequence_number", F.lit(-1))).alias("sequence_number"),
    ]
    merged = [merge(name).alias(name) for name, (merge, _) in facts.items()]
    of_copy = steps.repartition(*_KEY).groupBy(*_KEY, *copy)
    by_copy = of_copy.agg(*[merge(fact).alias(name) for name, (merge, fact) in facts.items()])
    by_subscription = by_copy.groupBy(*_KEY, "subscription").agg(*merged, F.count("sequence_number").alias("copies"))
    return by_subscription.groupBy(*_KEY).agg(*merged, F.max("copies").alias("copies"))


def _audited(events: DataFrame) -> DataFrame:
    """Since when each entity and backlog queue is audited: of a topic, since when all its subscriptions are."""
    audits = events.where(F.col("event") == "audit.completed").groupBy(F.lower("path").alias("place"), "subscription")
    latest = audits.agg(F.max("since").alias("since"))
    whole = F.max(F.when(F.col("subscription").isNull(), F.col("since")))
    parts = F.min(F.when(F.col("subscription").isNotNull(), F.col("since")))
    return latest.groupBy("place").agg(F.greatest(whole, parts).alias("audited_since"))


def _backlog_queues(events: DataFrame) -> DataFrame:
    names = events.where(F.col("event") == "send.accepted").select(F.lower("backlog_queue").alias("backlog_queue"))
    return (
        names.where(F.col("backlog_queue").isNotNull()).distinct().withColumn("queue_hash", F.xxhash64("backlog_queue"))
    )


# -- from what is known to where it ended


def _ends(known: DataFrame) -> DataFrame:
    seen, accepted, refused = _is("seen_at"), _is("accepted_at"), _is("refused_at")
    dead, seen_waiting = _is("dead_at"), F.col("seen_waiting")
    waits = _is("diverted_at") & ~_is("forwarded_at") & (seen_waiting | F.col("backlog_stands"))
    status = (
        F.when(accepted & (seen | F.col("arrival_stands")), DELIVERED)
        .when(accepted & dead & F.col("expired"), EXPIRED)
        .when(accepted & dead, DEAD_LETTERED)
        .when(accepted & waits, WAITING)
        .when(accepted, LOST)
        .when(refused & (seen | _is("forwarded_at")), REFUSED_ARRIVED)
        .when(refused, REFUSED)
        .otherwise(UNRECORDED)
    )
    evidence = (
        F.when(seen, RECEIPT)
        .when(F.col("status").isin(DEAD_LETTERED, EXPIRED, REFUSED), RECORD)
        .when(F.col("status") == LOST, AUDIT)
        .when((F.col("status") == WAITING) & seen_waiting, RECEIPT)
        .otherwise(BROKER)
    )
    return (
        known.withColumn("status", status)
        .withColumn("evidence", evidence)
        .select(
            "path",
            "message_id",
            "status",
            F.when(_is("primary_at"), PRIMARY).when(_is("diverted_at"), BACKLOG).alias("route"),
            "evidence",
            "accepted_at",
            _ended_at().alias("ended_at"),
            _waited().alias("waited_seconds"),
            "sends",
            "refusals",
            "indefinite",
            F.when(seen, F.col("copies")).alias("copies"),
            F.coalesce(F.col("copies") > 1, F.lit(False)).alias("duplicated"),
            (F.col("possible_duplicate") & ~seen).alias("possible_duplicate"),
            "backlog_queue",
        )
    )


def _is(name: str) -> Column:
    return F.col(name).isNotNull()


def _flag(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(False))


def _ended_at() -> Column:
    return F.when(
        F.col("status").isin(DELIVERED, REFUSED_ARRIVED, UNRECORDED),
        F.coalesce("primary_at", "forwarded_at", "seen_at", "dead_at"),
    ).when(F.col("status").isin(DEAD_LETTERED, EXPIRED), F.col("dead_at"))


def _waited() -> Column:
    """In the backlog: as the syphon measured it, else between the records. Who still waits has waited since then."""
    end = F.when(F.col("status") == DELIVERED, F.col("seen_at")).otherwise(F.col("dead_at"))
    between = F.unix_micros(end) - F.unix_micros("diverted_at")
    return (
        F.when(_is("primary_at"), F.lit(0.0))
        .when(~F.col("status").isin(DELIVERED, DEAD_LETTERED, EXPIRED), F.lit(None))
        .when(F.col("status") == DELIVERED, F.coalesce("forward_waited", between / 1e6))
        .otherwise(between / 1e6)
    )


# -- what a report says of the table


def of_interest(table: DataFrame) -> DataFrame:
    """What people look for: what is lost, then everything else that did not simply arrive."""
    plain = (F.col("status") == DELIVERED) & ~F.col("duplicated") & ~F.col("possible_duplicate")
    first = F.when(F.col("status") == LOST, 0).when(F.col("status") == WAITING, 1).otherwise(2)
    return table.where(~plain).orderBy(first, "status", "accepted_at", *_KEY)


def summary_of_deliveries(table: DataFrame) -> Mapping[str, Any]:
    status, route = F.col("status"), F.col("route")
    accepted = status.isin(*ACCEPTED)
    on_word = status.isin(DELIVERED, WAITING) & (F.col("evidence") == BROKER)
    counts: dict[str, Column] = {
        "accepted": accepted,
        "delivered": status == DELIVERED,
        "delivered_via_primary": (status == DELIVERED) & (route == PRIMARY),
        "delivered_via_backlog": (status == DELIVERED) & (route == BACKLOG),
        "waiting": status == WAITING,
        "dead_lettered": status == DEAD_LETTERED,
        "expired": status == EXPIRED,
        "lost": status == LOST,
        "duplicated": accepted & F.col("duplicated"),
        "possible_duplicates": accepted & F.col("possible_duplicate"),
        "refused": status.isin(REFUSED, REFUSED_ARRIVED),
        "indefinite_arrived": (status == REFUSED_ARRIVED) & F.col("indefinite"),
        "unrecorded": status == UNRECORDED,
        "sent_again": F.col("sends") > 1,
        "on_the_brokers_word": on_word,
    }
    total = table.agg(
        *[F.count_if(what).alias(name) for name, what in counts.items()],
        F.max("waited_seconds").alias("longest_wait_seconds"),
        F.min(F.when(status == WAITING, F.col("accepted_at"))).alias("oldest_waiting_at"),
    ).first()
    lost = table.where(status == LOST).orderBy(*_KEY).limit(LOST_IDS_MAX).select("message_id").collect()
    return {**(total.asDict() if total else {}), "lost_ids": [row.message_id for row in lost]}
