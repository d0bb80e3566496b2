"""Makes records of any number of messages with planted faults, by Spark itself, and writes down what was planted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.errors import PipelineError
from pipeline.output import appears_whole, checked_output
from pipeline.plan import Plan
from shared.telemetry_events import (
    AuditCompleted,
    AvailabilityChanged,
    FailureCounted,
    Pinged,
    TelemetryEvent,
    TelemetryStarted,
    TelemetryStopped,
    as_line,
)

TRUTH = "truth.json"
START = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
LATE_BY = timedelta(days=30)
MESSAGES_PER_SECOND = 1_000
AUDIT = timedelta(seconds=10)
MESSAGES_PER_FILE = 100_000
WAITED_SECONDS = 90
EXPIRED_AFTER_SECONDS = 60
ENTITIES, BACKLOG_QUEUES = 10, 10
#: The first entity is a topic; each of its messages has a receipt from both.
SUBSCRIPTIONS = ("audit", "billing")
#: These are partitioned: their messages have keys, the first of which are busier than the others.
PARTITIONED, KEYS, PARTITIONS = ("entity-1", "entity-2"), 60, 16
BACKLOG_PATH = "contoso/x-servicebus-transfer/"
#: monotonically_increasing_id counts up from 0 within a partition, in its lower bits.
ROW_BITS = 33
STEP = (
    "event string, after double, path string, message_id string, backlog_queue string, seconds double, "
    "body_bytes long, possible_duplicate boolean, attempt long, waited_seconds double, reason string, "
    "description string, sequence_number long, subscription string, enqueued_after double, "
    "delivery_count long, flush_seconds double, key_hash string, partition long"
)


@dataclass(frozen=True, kw_only=True)
class GenerateOptions:
    out: str
    plan: Plan
    broken: int = 0

    def check(self) -> Path:
        if self.broken < 0:
            raise PipelineError("--broken must not be negative")
        return checked_output(self.out, None, mark=TRUTH)


def generate(spark: SparkSession, options: GenerateOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Writes the records, and what is true of them, which a report must find. The truth, without the ids."""
    target = options.check()
    plan = options.plan
    say(f"making {plan.messages:,} messages")
    late = dict(plan.ranks())["late"]
    with appears_whole(target) as writing:
        _write(_lines(spark, plan, late=False), writing, "made")
        if late:
            _write(_lines(spark, plan, late=True), writing, "late")
        folder = writing / f"date={START:%Y-%m-%d}" / f"hour={START:%H}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "control-000001.jsonl").write_text("".join(_control(plan)))
        if options.broken:
            (folder / "broken-000001.jsonl").write_text('{"v":1,"event":"send.accepted","instan\n' * options.broken)
        truth = _truth(options)
        (writing / TRUTH).write_text(json.dumps(truth) + "\n")
    return {name: value for name, value in truth.items() if name != "ids"}


def _truth(options: GenerateOptions) -> dict[str, Any]:
    plan = options.plan
    ids = {fate: [_message_id(index) for index in plan.indexes(ranks)] for fate, ranks in plan.ranks()}
    gone = ("lost", "waiting", "expired", "dead_lettered")
    counts = {fate: len(found) for fate, found in ids.items()}
    delivered = plan.messages - sum(counts[fate] for fate in gone)
    return {
        "accepted": plan.messages,
        "delivered": delivered,
        "quarantined_lines": options.broken,
        **counts,
        "ids": ids,
        "seed": plan.seed,
    }


def _message_id(index: int) -> str:
    return f"m-{index:012d}"


# -- events of messages, made by Spark


def _lines(spark: SparkSession, plan: Plan, *, late: bool) -> DataFrame:
    """JSON lines with their date and hour. Each partition is one instance, with a start and a stop of its own."""
    late_ranks = dict(plan.ranks())["late"]
    partitions = 1 if late else max(1, plan.messages // MESSAGES_PER_FILE)
    slots = plan.messages + 2 * partitions
    partition, slot = F.spark_partition_id().cast("long"), F.col("id")
    # How Spark cuts a range into partitions.
    first, end = F.floor(partition * slots / partitions), F.floor((partition + 1) * slots / partitions)
    a, c = plan.shuffle
    index = slot - 2 * partition - 1
    made = spark.range(0, slots, 1, partitions).select(
        partition.alias("p"),
        (slot == first).alias("starts"),
        (slot == end - 1).alias("stops"),
        index.alias("i"),
        # Decimals: the product does not fit a long from 3 thousand million messages on.
        ((index.cast("decimal(20,0)") * a + c) % plan.messages).cast("long").alias("rank"),
    )
    is_late = (F.col("rank") >= late_ranks.start) & (F.col("rank") < late_ranks.stop)
    chosen = made.where(F.col("starts") | F.col("stops") | (is_late if late else ~is_late))
    steps = chosen.select("p", "i", F.explode(_steps(plan)).alias("step"))
    start = START - LATE_BY if late else START
    return _as_lines(steps, start, prefix="late" if late else "made")


def _steps(plan: Plan) -> Column:
    i, rank = F.col("i"), F.col("rank")
    entity = F.concat(F.lit("entity-"), (i % ENTITIES).cast("string"))
    queue = F.concat(F.lit(BACKLOG_PATH), (i % BACKLOG_QUEUES).cast("string"))
    mid = F.format_string("m-%012d", i)
    sent = F.greatest(i, F.lit(0)) / MESSAGES_PER_SECOND
    message = {"path": entity, "message_id": mid, "body_bytes": F.lit(1_000)}
    came = sent + WAITED_SECONDS
    partition = _partition(i)
    key = {"key_hash": F.when(partition.isNotNull(), F.hex(F.xxhash64(_key(i)))), "partition": partition}
    take = {"seconds": F.lit(0.01), **key}
    accepted = _step("send.accepted", sent, **message, **take, attempt=F.lit(1))
    twice = _step("send.accepted", sent, **message, **take, attempt=F.lit(2), possible_duplicate=F.lit(True))
    diverted = _step("send.accepted", sent, **message, **take, attempt=F.lit(2), backlog_queue=queue)
    forwarded = _step(
        "syphon.forwarded", came, **message, backlog_queue=queue, waited_seconds=F.lit(float(WAITED_SECONDS))
    )
    waits = _receipt(F.lit((_audit_at(plan) - START).total_seconds()), queue, mid, number=i)
    dead = [
        _step("syphon.dead-lettered", sent + EXPIRED_AFTER_SECONDS, path=entity, message_id=mid, backlog_queue=queue,
              reason=F.lit(reason), description=F.lit("planted"))
        for reason in ("TTLExpiredException", "DestinationRefused")
    ]  # fmt: skip
    # The top 16 bits of a sequence number are the partition that the message was found in.
    number = i * 2 + F.shiftleft(F.coalesce(partition, F.lit(0)), 48)
    seen = _seen(sent, entity, mid, number=number)
    seen_later = _seen(came, entity, mid, number=number)
    outage = plan.outage()
    in_outage = (i >= outage.start) & (i < outage.stop)
    fates = {
        "lost": F.when(i % 2 == 0, F.array(accepted)).otherwise(F.array(diverted, forwarded)),
        "duplicated": F.concat(F.array(twice), seen, _seen(sent, entity, mid, number=number + 1)),
        "waiting": F.array(diverted, waits),
        "expired": F.array(diverted, dead[0]),
        "dead_lettered": F.array(diverted, dead[1]),
    }
    steps = F.when(F.col("starts"), F.array(_step("telemetry.started", sent, flush_seconds=F.lit(0.5))))
    steps = steps.when(F.col("stops"), F.array(_step("telemetry.stopped", sent)))
    for fate, ranks in plan.ranks():
        if fate in fates and ranks:
            steps = steps.when((rank >= ranks.start) & (rank < ranks.stop), fates[fate])
    steps = steps.when(in_outage, F.concat(F.array(diverted, forwarded), seen_later))
    return steps.otherwise(F.concat(F.array(accepted), seen))


def _key(i: Column) -> Column:
    """The square of an even spread: low numbers come more often."""
    spread = F.pmod(F.xxhash64(i), F.lit(1_000)) / 1_000
    return F.concat(F.lit("key-"), F.floor(spread * spread * KEYS).cast("string"))


def _partition(i: Column) -> Column:
    is_partitioned = F.concat(F.lit("entity-"), (i % ENTITIES).cast("string")).isin(*PARTITIONED)
    return F.when(is_partitioned, F.crc32(_key(i).cast("binary")) % PARTITIONS)


def _seen(after: Column, entity: Column, mid: Column, *, number: Column) -> Column:
    topic = [_receipt(after, entity, mid, number=number, subscription=F.lit(name)) for name in SUBSCRIPTIONS]
    return F.when(entity == "entity-0", F.array(*topic)).otherwise(F.array(_receipt(after, entity, mid, number=number)))


def _receipt(after: Column, path: Column, mid: Column, *, number: Column, subscription: Column | None = None) -> Column:
    return _step(
        "message.received",
        after + 0.5,
        path=path,
        message_id=mid,
        sequence_number=number,
        subscription=F.lit(None) if subscription is None else subscription,
        enqueued_after=after,
        delivery_count=F.lit(0),
        body_bytes=F.lit(1_000),
    )


def _step(event: str, after: Column, **columns: Column) -> Column:
    given = {"event": F.lit(event), "after": after, **columns}
    parts = []
    for column in STEP.split(", "):
        name, kind = column.split()
        parts.append(given.get(name, F.lit(None)).cast(kind).alias(name))
    return F.struct(*parts)


def _as_lines(steps: DataFrame, start: datetime, *, prefix: str) -> DataFrame:
    def time(seconds: Column) -> Column:
        return F.timestamp_micros(F.lit(int(start.timestamp() * 1e6)) + (seconds * 1e6).cast("long"))

    def text(at: Column) -> Column:
        return F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx")

    at = time(F.col("step.after"))
    columns = [column.split()[0] for column in STEP.split(", ")]
    others = [name for name in columns if name not in ("event", "after", "enqueued_after")]
    record = F.struct(
        F.lit(1).alias("v"),
        F.col("step.event").alias("event"),
        F.format_string(f"{prefix}-%06d", F.col("p")).alias("instance"),
        F.monotonically_increasing_id().bitwiseAND(F.lit((1 << ROW_BITS) - 1)).alias("seq"),
        text(at).alias("at"),
        *[F.col(f"step.{name}").alias(name) for name in others],
        text(time(F.col("step.enqueued_after"))).alias("enqueued_at"),
    )
    return steps.select(
        F.to_json(record).alias("value"), F.to_date(at).alias("date"), F.date_format(at, "HH").alias("hour")
    )


def _write(lines: DataFrame, folder: Path, prefix: str) -> None:
    """Spark names text files .txt; records are published under names that end in .jsonl."""
    place = folder / f".{prefix}"
    lines.write.partitionBy("date", "hour").text(str(place))
    for number, file in enumerate(sorted(place.rglob("part-*")), start=1):
        target = folder / file.parent.relative_to(place) / f"{prefix}-{number:06d}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        file.rename(target)
    shutil.rmtree(place)


# -- events of the pair, made one by one


def _control(plan: Plan) -> Iterator[str]:
    for sequence, event in enumerate(_control_events(plan)):
        yield as_line(event, instance="control", sequence=sequence)


def _control_events(plan: Plan) -> Iterator[TelemetryEvent]:
    def at(index: int) -> datetime:
        return START + timedelta(seconds=index / MESSAGES_PER_SECOND)

    outage = plan.outage()
    yield TelemetryStarted(
        at=START, flush_seconds=0.5, backlog_queue_count=BACKLOG_QUEUES, ping_primary_interval_seconds=60
    )
    entities: list[Any] = [f"entity-{number}" for number in range(ENTITIES)]
    queues: list[Any] = [f"{BACKLOG_PATH}{number}" for number in range(BACKLOG_QUEUES)]
    for path in entities if outage else []:
        begin, end = at(outage.start), at(outage.stop)
        yield FailureCounted(at=begin, path=path, failure="timeout", detail="planted")
        yield AvailabilityChanged(at=begin, path=path, before="available", after="unavailable", reason="planted")
        yield Pinged(at=end, path=path, succeeded=True, detail="", seconds=0.01)
        yield AvailabilityChanged(at=end, path=path, before="unavailable", after="available", reason="pinged")
    since = _audit_at(plan)
    for path in [*entities, *queues]:
        yield AuditCompleted(at=since + AUDIT, path=path, since=since, messages=plan.messages)
    yield TelemetryStopped(at=since + AUDIT)


def _audit_at(plan: Plan) -> datetime:
    """After everything that arrives has arrived; what still waits is seen then."""
    return START + timedelta(seconds=plan.messages / MESSAGES_PER_SECOND + 2 * WAITED_SECONDS)
